package prometheus

import (
	"strings"
	"sync"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
)

// Small sets for what comes from configuration or is said in words.
type (
	ruleSet     struct{ decisions, rejections prom.Counter }
	shadowSet   struct{ same, differs prom.Counter }
	limitSet    struct{ refused, soft prom.Counter }
	fallbackSet struct{ n prom.Counter }
	trustSet    struct{ n prom.Counter }
)

func (m *Metrics) newWords() {
	decisions := m.counter("kvsteer_rule_decisions_total", "Attempts that a rule of the policy decided.", "policy", "rule")
	rejections := m.counter("kvsteer_rule_rejections_total", "Requests that a rule of the policy left no candidate.", "policy", "rule")
	m.rules = words(maxRules, func(policy, rule string) *ruleSet {
		return &ruleSet{decisions.WithLabelValues(policy, rule), rejections.WithLabelValues(policy, rule)}
	})
	shadows := m.counter("kvsteer_shadow_decisions_total",
		"Attempts that a policy in shadow mode looked at, by whether it would have chosen the same.", "policy", "result")
	m.shadows = words(maxShadows, func(_, policy string) *shadowSet {
		return &shadowSet{shadows.WithLabelValues(policy, "same"), shadows.WithLabelValues(policy, "differs")}
	})
	refused := m.counter("kvsteer_limited_requests_total", "Requests that a limit refused, by its rule.", "rule")
	soft := m.counter("kvsteer_budget_soft_limits_total",
		"Budgets that reached their soft limit, by rule; see Metrics.BudgetNotice.", "rule")
	m.limits = words(maxLimits, func(_, rule string) *limitSet {
		return &limitSet{refused.WithLabelValues(rule), soft.WithLabelValues(rule)}
	})
	fallbacks := m.counter("kvsteer_prompt_fallbacks_total",
		"Decisions for which a source of token ids did not serve, by why.", "source", "reason")
	m.fallbacks = words(maxFallbacks, func(source, reason string) *fallbackSet {
		return &fallbackSet{fallbacks.WithLabelValues(source, reason)}
	})
	trust := m.counter("kvsteer_trust_changes_total",
		"Changes of the trust in workers' cache state, by what it became and why.", "to", "reason")
	m.trust = words(maxTrust, func(to, reason string) *trustSet { return &trustSet{trust.WithLabelValues(to, reason)} })
	m.reasons.newReasons(m.counter("kvsteer_degradations_total", "What was less than exact about decisions, by kind.", "reason"))
}

// words is a table whose values never end.
func words[T any](most int, create func(of, label string) *T) *table[T] {
	return newTable(most-1, create, func(string) {})
}

func (s *shadowSet) count(differs bool) {
	if differs {
		s.differs.Inc()
	} else {
		s.same.Inc()
	}
}

// OnTrust implements [kvsteer.HookTrust].
func (m *Metrics) OnTrust(c kvsteer.TrustChange) {
	m.trust.get(key{c.To.String(), c.Reason}).n.Inc()
}

// reasons sort the degradations of decisions, whose texts begin with a fixed phrase and may
// go on with anything.
type reasons struct {
	kinds *lazily

	mu sync.RWMutex
	// known are texts that were sorted before.
	known map[string]degradation
}

type degradation struct {
	kind     string
	fallback key // no name for what is no fallback
}

// maxKnown bounds the texts that are remembered. Those of more are sorted each time.
const maxKnown = 256

// kinds are the fixed phrases.
//
//nolint:gochecknoglobals // a table that nothing changes
var kinds = []struct{ begins, reason string }{
	{"token ids ", "token_ids"},
	{"cache unknown: ", "cache_blind"},
	{"cache approximate: ", "cache_approximate"},
	{"cache not counted on: ", "cache_suspect"},
	{"cache known in part, ", "cache_resyncing"},
	{"cache exact so far: ", "cache_problem"},
	{"cost: ", "cost"},
	{"limits: ", "limits"},
	{"previous response: ", "previous_response"},
	{"tags: ", "tags"},
	{notCarried, "not_carried_over"},
}

// notCarried begins what is only known when a provider has been sent the request: what of it
// its API has no place for.
const notCarried = "not carried over: "

func (m *Metrics) notCarried(d *kvsteer.Decision) {
	for _, text := range d.Degradations {
		if strings.HasPrefix(text, notCarried) {
			m.degraded(text)
		}
	}
}

func (r *reasons) newReasons(v *prom.CounterVec) {
	r.kinds, r.known = newLazily(v), map[string]degradation{}
	for _, k := range kinds {
		r.kinds.of(k.reason)
	}
}

func (m *Metrics) degraded(text string) {
	r := &m.reasons
	text = text[:min(len(text), maxName)]
	r.mu.RLock()
	d, ok := r.known[text]
	r.mu.RUnlock()
	if !ok {
		d = sorted(text)
		r.mu.Lock()
		if len(r.known) < maxKnown {
			r.known[strings.Clone(text)] = d
		}
		r.mu.Unlock()
	}
	r.kinds.of(d.kind).Inc()
	if d.fallback.name != "" {
		m.fallbacks.get(d.fallback).n.Inc()
	}
}

func sorted(text string) degradation {
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(text, k.begins)
		if !ok {
			continue
		}
		d := degradation{kind: k.reason}
		if k.reason == "token_ids" {
			d.fallback = fallback(rest)
		}
		return d
	}
	return degradation{kind: other}
}

// fallback reads "not from SOURCE: REASON". What follows a further colon may be a client's.
func fallback(text string) key {
	source, reason, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "not "), "from "), ": ")
	if !ok {
		return key{}
	}
	reason, _, _ = strings.Cut(reason, ":")
	return key{source, reason}
}
