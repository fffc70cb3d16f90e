// Package kvsteercaddy makes a Caddy server choose, for each request to an LLM, the
// worker that will answer it first. It is the Caddy module http.handlers.kvsteer, the
// Caddyfile directive kvsteer, and the admin endpoints /kvsteer/status and /kvsteer/snapshot.
//
//	xcaddy build --with github.com/kvsteer/kvsteer/integrations/caddy
//
//	example.com {
//		kvsteer {
//			fleet fleet.yaml
//		}
//	}
//
// docs/caddy.md leads from nothing to the first routed request, and lists every option.
//
// # Why a handler
//
// Caddy's reverse_proxy can be extended in two places, and neither serves well. A source
// of upstreams is asked for addresses: it never sees an answer, so it could learn no
// time to first token, read no usage, and not tell when a request has ended. A transport
// sees both, but reverse_proxy insists on an upstream of its own to choose and count
// first, retries beneath a retry that already obeys the policy, and turns errors into
// bare statuses. So this is a handler of its own, made of net/http/httputil's reverse
// proxy and a [kvsteer.Transport]. What reverse_proxy does besides is done by directives
// that stand beside it: rewrite, request_header, header, handle_errors for other routes.
//
// # Reload
//
// Handlers whose configuration describes the same router share one, and so do
// configurations that follow each other: what is known of caches, loads and times
// outlives a reload. If a router's configuration changes, a new one takes the new
// requests, over the same fleet unless that changed as well, and the old one is closed
// when the last of its requests has ended. To the gateway's replicas the routers of a fleet
// are one, and one with a snapshot hands that over to the one that replaces it. The files that a configuration names (fleet,
// policies, models) are followed and need no reload.
//
// # Concurrency
//
// A [Handler] is made and ended by Caddy, and serves requests concurrently.
package kvsteercaddy
