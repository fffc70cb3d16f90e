// Package abroad marks the requests that leave for services of others, for what sits
// around the transports that send them.
package abroad

import (
	"context"
	"net/http"
)

type key struct{}

// Transport returns base such that the contexts of the requests that it sends are marked.
// Its idle connections are closed where base's owner does that.
func Transport(base http.RoundTripper) http.RoundTripper { return marking{base} }

// Marked reports whether a request of the context goes abroad.
func Marked(ctx context.Context) bool { return ctx.Value(key{}) != nil }

type marking struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m marking) RoundTrip(req *http.Request) (*http.Response, error) {
	return m.base.RoundTrip(req.WithContext(context.WithValue(req.Context(), key{}, true)))
}
