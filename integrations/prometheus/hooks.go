package prometheus

import (
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

// OnDecision implements [kvsteer.HookDecision].
func (m *Metrics) OnDecision(d *kvsteer.Decision) {
	w := d.Winner()
	if w == nil {
		return
	}
	s := m.models.get(only(w.Model))
	if d.Attempt > 1 {
		s.retries.Inc()
	}
	if w.PrefillOn != "" {
		s.relayed.Inc()
	}
	m.passedOver(d)
	if w.Type == policy.Provider {
		s.decisions[external].Inc()
		m.providers.get(only(w.Name)).decisions.Inc()
	} else {
		s.decisions[min(int(w.Trust), numTrusts-1)].Inc()
		m.worker(w.Name).decisions.Inc()
	}
	if d.Attempt == 1 {
		m.requests.selecting[sourceOf(d.TokenSource)].Observe(d.Took.Seconds())
		if d.Waited > 0 {
			m.requests.waited.Observe(d.Waited.Seconds())
		}
		s.promptLen.Observe(float64(d.PromptTokens))
	}
	if d.TenantLabel != "" && d.Attempt == 1 {
		m.tenantCame(d.TenantLabel, d.Took+d.Waited)
	}
	m.rules.get(key{d.Policy, d.Rule}).decisions.Inc()
	for i := range d.Shadows {
		h := &d.Shadows[i]
		m.shadows.get(only(h.Policy)).count(h.Differs)
	}
	for _, g := range d.Degradations {
		m.degraded(g)
	}
}

// OnRefusal implements [kvsteer.HookRefusal].
func (m *Metrics) OnRefusal(f *kvsteer.Refusal) {
	m.requests.rejected.of(f.Err.Code.String()).Inc() // of a fixed vocabulary
	if f.TenantLabel != "" && f.Err.Code != kvsteer.CodeCanceled {
		m.tenantRefused(f)
	}
}

// OnRejection implements [kvsteer.HookRejection].
func (m *Metrics) OnRejection(d *kvsteer.Decision, err *kvsteer.Error) {
	switch err.Code {
	case kvsteer.CodeLimited, kvsteer.CodeTooLarge:
		m.limits.get(only(err.Rule)).refused.Inc()
	case kvsteer.CodeRejectedByPolicy:
		m.rules.get(key{d.Policy, err.Rule}).rejections.Inc()
	default:
	}
	m.passedOver(d)
	for _, g := range d.Degradations {
		m.degraded(g)
	}
}

// OnOutcome implements [kvsteer.HookOutcome].
func (m *Metrics) OnOutcome(o *kvsteer.Outcome) {
	d := o.Decision
	if d == nil || d.Winner() == nil {
		return // no router says that
	}
	w, end := d.Winner(), endOf(o)
	model := w.Model
	if o.Moved {
		m.requests.moved.Inc()
		if o.Served.Model != "" {
			model = o.Served.Model
		}
	}
	s := m.models.get(only(model))
	s.ends[end].Inc()
	m.tokens(s, o)
	m.times(s, o, end)
	if d.TenantLabel != "" {
		m.tenantEnded(d.TenantLabel, o, end)
	}
	switch {
	case o.Moved && o.Served.Provider != "":
		m.providers.get(only(o.Served.Provider)).ends[end].Inc()
	case w.Type == policy.Provider:
		m.providers.get(only(w.Name)).ends[end].Inc()
		m.notCarried(d)
	case o.Moved && o.Served.Worker == "":
	case o.Moved:
		m.worker(o.Served.Worker).ends[end].Inc()
	default:
		m.worker(w.Name).outcome(o, end)
	}
}

// tokens counts what the engine reported.
func (m *Metrics) tokens(s *modelSet, o *kvsteer.Outcome) {
	s.cost.Add(units(o.Cost))
	u := &o.Usage
	if !u.Known {
		if o.Err == nil {
			s.unreported.Inc()
		}
		return
	}
	countPrompt(&s.prompt, u)
	add(s.output, u.Output)
	add(s.reasoning, u.Reasoning)
	if o.Err == nil {
		s.outputLen.Observe(float64(u.Output))
	}
	if u.CachedKnown && !o.Moved && o.Decision.Winner().Type != policy.Provider {
		add(s.predicted, o.CachedPredicted)
		add(s.reported, u.CacheRead)
		add(s.compared, u.Prompt())
	}
}

// countPrompt sorts a prompt's tokens. An engine that reports no cached tokens has not said
// that there were none.
func countPrompt(to *[numToks]prom.Counter, u *kvsteer.Usage) {
	if !u.CachedKnown {
		add(to[tokUnknown], u.Prompt())
		return
	}
	add(to[tokUncached], u.Uncached)
	add(to[tokCached], u.CacheRead)
	add(to[tokWritten], u.CacheWrite)
}

// times observes how long things took.
func (m *Metrics) times(s *modelSet, o *kvsteer.Outcome, end int) {
	d := o.Decision
	if end == endOK {
		s.duration.Observe(o.Duration.Seconds())
	}
	if o.TTFT <= 0 {
		return // nobody saw it
	}
	first := d.Took + d.Waited + o.TTFT
	s.ttft.Observe(first.Seconds())
	if t := d.Targets; t != nil && t.TTFT > 0 {
		m.target(0, first <= t.TTFT)
	}
	if w := d.Winner(); d.Attempt == 1 && !o.Moved && w.PredictedTTFT > 0 {
		s.ratio.Observe(w.PredictedTTFT.Seconds() / o.TTFT.Seconds())
		if w.Type != policy.Provider {
			m.worker(w.Name).predicted(w.PredictedTTFT, o.TTFT)
		}
	}
	// Of later attempts it is not known when they began.
	if end != endOK || d.Attempt > 1 || !o.Usage.Known || o.Usage.Output < 2 {
		return
	}
	itl := max(o.Duration-first, 0) / time.Duration(o.Usage.Output-1)
	s.itl.Observe(itl.Seconds())
	if t := d.Targets; t != nil && t.ITL > 0 {
		m.target(1, itl <= t.ITL)
	}
}

func (m *Metrics) target(what int, met bool) {
	how := 0
	if !met {
		how = 1
	}
	m.requests.targets[what][how].Inc()
}

// OnPromptMismatch implements [kvsteer.HookPrompt].
func (m *Metrics) OnPromptMismatch(p *prompt.Mismatch) {
	m.requests.mismatch.of(sourceName(min(int(p.Source), prompt.NumSources-1))).Inc()
}

// OnReap implements [kvsteer.HookReap].
func (m *Metrics) OnReap(uint64, time.Duration) { m.requests.reaped.Inc() }

func endOf(o *kvsteer.Outcome) int {
	switch {
	case o.Reaped:
		return endReaped
	case o.Err == nil:
		return endOK
	case o.Left:
		return endCanceled
	default:
		return endFailed
	}
}

// sourceOf is the kind of a decision's TokenSource.
func sourceOf(name string) int {
	for k := range prompt.NumSources {
		if sourceName(k) == name {
			return k
		}
	}
	return int(prompt.SourceNone)
}

// add adds what an engine reported, which may be anything.
func add(c prom.Counter, n int) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// units are those of the currency of so many millionths.
func units(millionths int64) float64 {
	const millionth = 1e-6
	return float64(max(millionths, 0)) * millionth
}
