package kvsteercaddy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func (h *Handler) newProxy(logger *slog.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: forwarded, Transport: h.transport, ErrorHandler: h.fail, ModifyResponse: answered,
		// It says that an answer broke off, and why.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// answered is told that the answer has begun.
func answered(resp *http.Response) error {
	if t := trailOf(resp.Request); t != nil && t.routed != nil {
		t.routed()
	}
	return nil
}

// forwarded says for whom the request is, as reverse_proxy does: only a proxy that the
// server trusts may say for whom it was before. The Transport sets the destination.
func forwarded(r *httputil.ProxyRequest) {
	trusted, _ := caddyhttp.GetVar(r.In.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if trusted {
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}
	r.SetXForwarded() // adds to the first, and says anew what the client asked for
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if before := r.In.Header[name]; trusted && len(before) > 0 {
			r.Out.Header[name] = before
		}
	}
}

// describe tells the router what Caddy has established about a request.
func (h *Handler) describe(r *http.Request, q *kvsteer.Request) {
	if t := trailOf(r); t != nil {
		q.Header = described(r.Header, t.in)
	}
	q.Tenant, q.QoS, q.Pool = h.value(r, "tenant", h.Tenant), h.value(r, "qos", h.QoS), h.value(r, "pool", h.Pool)
}

// described are the headers that policies may ask about: those that are sent, and what
// the client's Connection keeps from being sent. Handlers in front may have set it.
func described(sent, in http.Header) http.Header {
	var all http.Header
	for _, names := range in["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			name = http.CanonicalHeaderKey(textproto.TrimString(name))
			values := in[name]
			if _, there := sent[name]; there || len(values) == 0 || kvsteer.InternalHeader(name) ||
				strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" { // clients may not say for whom they ask
				continue
			}
			if all == nil {
				all = sent.Clone()
			}
			all[name] = values
		}
	}
	if all == nil {
		return sent
	}
	return all
}

// value is what an option's placeholders say about a request.
func (h *Handler) value(r *http.Request, option, text string) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if text == "" || !ok {
		return text
	}
	v, err := repl.ReplaceOrErr(text, false, true)
	if err != nil {
		v = repl.ReplaceAll(text, "")
		h.warnOnce(option, "nothing fills in a placeholder, which counts as empty; is the handler that does in front of this one?",
			zap.Error(err))
	}
	if v == "" && option != "qos" { // a variable that nobody sets is known, and empty
		h.warnOnce(option, "nothing is said about a request: "+map[string]string{
			"tenant": "it counts as nobody's in particular", "pool": "it is refused, for an empty pool would be all workers",
		}[option], zap.String("placeholder", text))
	}
	return v
}

// warnOnce says what is wrong with an option's value, for the first request of which that
// holds.
func (h *Handler) warnOnce(option, what string, field zap.Field) {
	if _, said := h.warned.LoadOrStore(option, true); !said {
		h.logger.Warn(what, zap.String("option", option), field)
	}
}

// poolless is why a request can't be served if nothing says by which workers, though
// something should.
func (h *Handler) poolless(r *http.Request) *kvsteer.Error {
	if h.Pool == "" || h.value(r, "pool", h.Pool) != "" {
		return nil
	}
	return &kvsteer.Error{
		Code: kvsteer.CodeNoCandidates, Message: "the gateway does not say which pool of workers may serve this request; its operator must",
	}
}

// apiOf names what a request is for, "" for one without a prompt.
func apiOf(r *http.Request) string {
	api, ok := prompt.APIForPath(strings.TrimSuffix(r.URL.Path, "/"))
	if !ok || r.Method != http.MethodPost {
		return ""
	}
	return api.String()
}

// decided is told where a request goes.
func (*Handler) decided(r *http.Request, d *kvsteer.Decision) {
	if t := trailOf(r); t != nil {
		t.decided(d)
	}
}

// fail answers a request that no worker has answered.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errCutOff) { // the client is still there
		err = &kvsteer.Error{Code: kvsteer.CodeClosed, Message: "the gateway is shutting down", Err: err}
	}
	if t := trailOf(r); t != nil {
		t.failed(err)
	}
	check := h.logger.Check
	if c := check(zap.DebugLevel, "request not served"); c != nil {
		c.Write(zap.String("path", r.URL.Path), zap.Error(err))
	}
	kvsteer.WriteError(w, r, err)
}

// asksReadiness reports whether a request is for one of the paths of readiness.
func (h *Handler) asksReadiness(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(h.ReadyPath, r.URL.Path)
}

func (h *Handler) tellReadiness(w http.ResponseWriter, r *http.Request) {
	leaving := false
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		v, _ := repl.Get("http.shutting_down")
		leaving, _ = v.(bool)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if leaving || h.room.fleet.fleet.Snapshot().Routable() == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready")
		return
	}
	fmt.Fprintln(w, "ok")
}
