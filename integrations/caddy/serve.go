package kvsteercaddy

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/kvsteer/kvsteer"
)

func (h *Handler) newProxy(logger *slog.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: forwarded, Transport: h.transport, ErrorHandler: h.fail,
		// It says that an answer broke off, and why.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// forwarded says for whom the request is, as reverse_proxy does: only a proxy that the
// server trusts may say for whom it was before. The Transport sets the destination.
func forwarded(r *httputil.ProxyRequest) {
	if trusted, _ := caddyhttp.GetVar(r.In.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}
	r.SetXForwarded()
}

// describe tells the router what Caddy has established about a request.
func (h *Handler) describe(r *http.Request, q *kvsteer.Request) {
	q.Tenant, q.QoS, q.Pool = h.value(r, "tenant", h.Tenant), h.value(r, "qos", h.QoS), h.value(r, "pool", h.Pool)
}

// value is what an option's placeholders say about a request.
func (h *Handler) value(r *http.Request, option, text string) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if text == "" || !ok {
		return text
	}
	v, err := repl.ReplaceOrErr(text, false, true)
	if err == nil {
		return v
	}
	if !h.warned.Swap(true) {
		h.logger.Warn("nothing fills in a placeholder, which counts as empty; is the handler that does in front of this one?",
			zap.String("option", option), zap.Error(err))
	}
	return repl.ReplaceAll(text, "")
}

// decided is told where a request goes.
func (*Handler) decided(r *http.Request, d *kvsteer.Decision) {
	if t := trailOf(r); t != nil {
		t.decided(d)
	}
}

// fail answers a request that no worker has answered.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
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
