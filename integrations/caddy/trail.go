package kvsteercaddy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/planted"
)

// trail is what became of one request, for placeholders and the access log.
type trail struct {
	of    *trails
	repl  *caddy.Replacer
	extra *caddyhttp.ExtraLogFields
	in    http.Header // as handlers in front have left them
	// routed says that the request needs no worker any more: it has one's answer.
	routed func()

	mu       sync.Mutex
	decision *kvsteer.Decision
	outcome  *kvsteer.Outcome
	err      error
}

// trails are those of a router's requests, by the number of their latest decision. It is
// a hook: outcomes are told by decision.
type trails struct {
	mu   sync.Mutex
	open map[uint64]*trail
}

type trailKey struct{}

// placeholders are the names of those that are set, behind http.kvsteer.
func placeholders() []string {
	return []string{
		"worker", "rule", "policy", "model", "decision", "attempt",
		"prompt_tokens", "cached_tokens", "trust", "predicted_ttft_ms", "error",
	}
}

// begin starts the trail of a request. It must be ended.
func (ts *trails) begin(r *http.Request) (*trail, *http.Request) {
	t := &trail{of: ts, in: r.Header}
	t.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	t.extra, _ = r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	for _, name := range placeholders() { // unknown ones would stand in headers as they are
		t.set(name, "")
	}
	return t, r.WithContext(context.WithValue(r.Context(), trailKey{}, t))
}

// trailOf returns the trail of a request that begin returned, or was made from it.
func trailOf(r *http.Request) *trail {
	t, _ := r.Context().Value(trailKey{}).(*trail)
	return t
}

// OnOutcome implements kvsteer.HookOutcome.
func (ts *trails) OnOutcome(o *kvsteer.Outcome) {
	if o.Decision == nil {
		return
	}
	ts.mu.Lock()
	t := ts.open[o.Decision.ID]
	ts.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcome = o
}

// decided takes in the decision of the next attempt.
func (t *trail) decided(d *kvsteer.Decision) {
	won := d.Winner()
	if won == nil {
		return
	}
	t.mu.Lock()
	before := t.decision
	t.decision = d
	t.mu.Unlock()
	t.of.mu.Lock()
	if t.of.open == nil {
		t.of.open = map[uint64]*trail{}
	}
	if before != nil {
		delete(t.of.open, before.ID)
	}
	t.of.open[d.ID] = t
	t.of.mu.Unlock()
	t.set("worker", won.Name)
	t.set("rule", d.Rule)
	t.set("policy", d.Policy)
	t.set("model", won.Model)
	t.set("decision", d.ID)
	t.set("attempt", d.Attempt)
	t.set("prompt_tokens", d.PromptTokens)
	t.set("cached_tokens", won.CachedTokens)
	t.set("trust", won.TrustState)
	t.set("predicted_ttft_ms", milliseconds(won.PredictedTTFT))
}

// failed takes in why there is no answer of a worker.
func (t *trail) failed(err error) {
	t.mu.Lock()
	t.err = err
	t.mu.Unlock()
	var e *kvsteer.Error
	if !errors.As(err, &e) {
		return
	}
	t.set("error", e.Code.String())
	if e.Rule != "" {
		t.set("rule", e.Rule)
	}
}

func (t *trail) set(name string, value any) {
	if t.repl != nil {
		t.repl.Set("http.kvsteer."+name, value)
	}
}

// end writes the trail into the access log, if there is one.
func (t *trail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.decision != nil {
		t.of.mu.Lock()
		delete(t.of.open, t.decision.ID)
		t.of.mu.Unlock()
	}
	if fields := t.fields(); t.extra != nil && len(fields) > 0 {
		t.extra.Set(zap.Dict("kvsteer", fields...))
	}
}

func (t *trail) fields() (fields []zap.Field) {
	if d := t.decision; d != nil {
		won := d.Winner()
		fields = append(fields,
			zap.String("worker", won.Name), zap.String("rule", d.Rule), zap.String("policy", d.Policy),
			zap.String("model", won.Model), zap.Uint64("decision", d.ID), zap.Int("attempt", d.Attempt),
			zap.Int("prompt_tokens", d.PromptTokens), zap.Int("cached_tokens", won.CachedTokens),
			zap.String("trust", won.TrustState), zap.Float64("predicted_ttft_ms", milliseconds(won.PredictedTTFT)),
		)
		if d.Waited > 0 {
			fields = append(fields, zap.Float64("waited_ms", milliseconds(d.Waited)))
		}
	}
	if o := t.outcome; o != nil {
		if o.TTFT > 0 {
			fields = append(fields, zap.Float64("ttft_ms", milliseconds(o.TTFT)))
		}
		if o.Usage.Known {
			fields = append(fields, zap.Int("reported_prompt_tokens", o.Usage.Prompt()), zap.Int("output_tokens", o.Usage.Output))
		}
		if o.Usage.CachedKnown {
			fields = append(fields, zap.Int("reported_cached_tokens", o.Usage.CacheRead))
		}
	}
	if planted.KeyInAccessLog {
		fields = append(fields, zap.String("from", t.in.Get("Authorization")))
	}
	if t.err != nil {
		fields = append(fields, zap.String("error", t.err.Error()))
	}
	return fields
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
