package kvsteercaddy

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/kvsteer/kvsteer"
)

//nolint:gochecknoinits // it is how Caddy learns of modules
func init() {
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(admin{})
	registerDirective()
}

// Handler is the module http.handlers.kvsteer: it sends each request to the worker that
// a router chooses, and answers with what that worker says. It is the last of a chain:
// it never calls the next handler.
//
// It sets placeholders, which directives after and around it may use, in headers of
// the answer too:
//
//	{http.kvsteer.worker}            the worker's name
//	{http.kvsteer.rule}              the rule that decided, or that rejected the request
//	{http.kvsteer.policy}            the policy that it belongs to, if any
//	{http.kvsteer.model}             the model that serves, which a policy may have changed
//	{http.kvsteer.decision}          the decision's number, as in the decision log
//	{http.kvsteer.attempt}           on how many workers it was tried
//	{http.kvsteer.prompt_tokens}     the prompt's length
//	{http.kvsteer.cached_tokens}     how much of it the worker is expected to have cached
//	{http.kvsteer.trust}             how well that is known
//	{http.kvsteer.predicted_ttft_ms} the expected time to first token
//	{http.kvsteer.error}             why there was no answer of a worker, in a word
//
// Access logs have the same under kvsteer, and what came of it: the time to the first
// token, and the tokens that the engine reported.
type Handler struct {
	Config
	Options

	logger    *zap.Logger
	room      *routerRoom
	transport *kvsteer.Transport
	proxy     *httputil.ReverseProxy
	users     users
	quiet     func()   // takes our logger away from the room
	warned    sync.Map // options of whose placeholders was warned
}

// CaddyModule implements caddy.Module.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.kvsteer", New: func() caddy.Module { return &Handler{users: users{linger: linger}} }}
}

// Provision implements caddy.Provisioner: it opens the router, or joins those that have
// it open.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if len(h.ReadyPath) == 0 {
		h.ReadyPath = []string{"/healthz", "/health"}
	}
	if h.ReadyTimeout == 0 {
		h.ReadyTimeout = caddy.Duration(defaultReadyTimeout)
	}
	if err := h.check(); err != nil {
		return err
	}
	config, err := h.resolved(caddy.NewReplacer())
	if err != nil {
		return err
	}
	h.warn()
	if h.room, err = enter(&config, ctx.Slogger().Handler()); err != nil {
		return err
	}
	h.quiet = h.room.hear(ctx.Slogger().Handler())
	h.users.last = h.leave
	h.users.failed = func(err error) { h.logger.Error("the old router did not close well", zap.Error(err)) }
	if unwatched := h.room.watch(ctx); unwatched != nil {
		return unwatched
	}
	if err = h.room.fleet.ready(ctx, time.Duration(h.ReadyTimeout)); err != nil {
		h.logger.Warn("no worker can take requests yet; until one can, they are answered with 503", zap.Error(err))
	}
	h.transport = kvsteer.NewTransport(h.room.router, kvsteer.TransportOptions{
		FirstByteTimeout: time.Duration(h.FirstByteTimeout), IdleTimeout: time.Duration(h.IdleTimeout),
		Describe: h.describe, OnDecision: h.decided,
	})
	h.proxy = h.newProxy(ctx.Slogger())
	return nil
}

// Validate implements caddy.Validator: a file that is wrong by now keeps a new
// configuration from coming into force, though what it said last still is. The decision
// log is opened anew, for those who rotate it.
func (h *Handler) Validate() error {
	if err := h.room.check(); err != nil {
		return err
	}
	h.room.reopen()
	return nil
}

// Cleanup implements caddy.CleanerUpper. Requests may still be on their way then: the
// last that has no answer yet lets go of the router, and the last to end of the rest.
func (h *Handler) Cleanup() error {
	if h.room == nil {
		return nil // Provision failed
	}
	h.quiet() // Caddy closes our logger, though the room may go on
	return h.users.retire(caddy.Exiting())
}

// leave lets go of the router.
func (h *Handler) leave() error {
	if h.transport != nil {
		h.transport.CloseIdleConnections() // those that are in use now: after their requests
	}
	if err := h.room.leave(); err != nil {
		return fmt.Errorf("closing what is no longer configured: %w", err)
	}
	return nil
}

// warn says what is allowed, but seldom meant.
func (h *Handler) warn() {
	for option, v := range map[string]string{"tenant": h.Tenant, "qos": h.QoS, "pool": h.Pool} {
		for _, own := range []string{"{http.request.header.", "{http.request.cookie.", "{http.request.uri", "{http.request.body"} {
			if strings.Contains(v, own) {
				h.logger.Warn("clients say themselves what this is; see to it that something in front overwrites it",
					zap.String("option", option), zap.String("placeholder", v))
			}
		}
	}
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.users.enter()
	routed := sync.OnceFunc(h.users.leave)
	defer func() {
		if routed(); h.users.over() {
			h.transport.CloseIdleConnections()
		}
	}()
	r, done := h.room.requests.begin(r)
	defer done()
	t, r := h.room.trails.begin(r)
	defer t.end() // also when the proxy panics because the answer broke off
	t.routed = routed
	if h.asksReadiness(r) {
		h.tellReadiness(w, r)
		return nil
	}
	if err := h.poolless(r); err != nil {
		h.room.router.Refuse(&kvsteer.Refusal{API: apiOf(r), Err: err})
		h.fail(w, r, err)
		return nil
	}
	h.proxy.ServeHTTP(w, r)
	return nil
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
