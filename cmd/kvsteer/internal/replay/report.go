package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Report is what a replay found. Times are in milliseconds, costs in US dollars,
// shares in percent.
type Report struct {
	Files     []string `json:"files"`
	Runs      int      `json:"runs"`
	Policy    string   `json:"policy"`
	Version   string   `json:"policy_version,omitempty"`
	Predictor string   `json:"predictor"`
	// Recorded are the versions of policies that decided, and how often; "" is for
	// policies without one, such as the default.
	Recorded map[string]int `json:"recorded_versions"`

	// Decisions is Requests and Retries, their later attempts.
	Decisions int `json:"decisions"`
	Requests  int `json:"requests"`
	Retries   int `json:"retries"`
	Outcomes  int `json:"outcomes"`
	Changes
	// Models counts decisions to serve with another model than was, Prefill those that
	// have the prompt computed by another worker, Waits those that would wait.
	Models  int `json:"models_changed"`
	Prefill int `json:"prefill_changed"`
	Waits   int `json:"would_wait"`

	Prediction *Prediction `json:"prediction,omitempty"`
	Rules      []RuleRow   `json:"rules"`
	Moves      []MoveRow   `json:"rule_changes"`
	Tenants    []TenantRow `json:"tenants"`
	Top        []Different `json:"most_different"`
	Caveats    []Caveat    `json:"caveats"`
}

// Changes is what is different in a part of the decisions.
type Changes struct {
	Changed    int     `json:"routes_changed"`
	ChangedPct float64 `json:"routes_changed_pct"`

	RejectedBefore int `json:"rejected_before"`
	RejectedNow    int `json:"rejected_now"`
	NewlyRejected  int `json:"newly_rejected"`
	NewlyAdmitted  int `json:"newly_admitted"`

	// TTFT is the change of the predicted TTFT over all decisions that choose somebody
	// both times, ChangedTTFT over those that choose somebody else.
	TTFT        *Delta `json:"ttft_delta,omitempty"`
	ChangedTTFT *Delta `json:"ttft_delta_of_changed,omitempty"`
	// OthersMS is the mean change of what requests are expected to cost others.
	OthersMS float64 `json:"cost_to_others_delta_mean_ms"`
	Cost     *Cost   `json:"cost,omitempty"`
}

// Delta is a distribution of changes: below zero is sooner.
type Delta struct {
	Decisions int     `json:"decisions"`
	MeanMS    float64 `json:"mean_ms"`
	P50MS     float64 `json:"p50_ms"`
	P90MS     float64 `json:"p90_ms"`
}

// Cost is of the ended requests for which it is known both times.
type Cost struct {
	Requests  int     `json:"requests"`
	BeforeUSD float64 `json:"before_usd"`
	NowUSD    float64 `json:"now_usd"`
	DeltaUSD  float64 `json:"delta_usd"`
}

// Prediction compares two predictors for where requests went, by what was measured
// there.
type Prediction struct {
	Requests    int     `json:"requests"`
	BeforeError float64 `json:"recorded_median_ape_pct"`
	NowError    float64 `json:"replayed_median_ape_pct"`
}

// RuleRow is one rule. Changes are of the decisions that it was recorded for.
type RuleRow struct {
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule"`
	Before int    `json:"before"`
	Now    int    `json:"now"`
	Changes
}

// MoveRow counts decisions by the rule that decided and the one that would.
type MoveRow struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Decisions int    `json:"decisions"`
}

// TenantRow is one tenant.
type TenantRow struct {
	Tenant    string `json:"tenant"`
	Decisions int    `json:"decisions"`
	Changes
}

// Report tells what was found so far.
func (r *Replay) Report() *Report {
	t := &r.tally
	out := &Report{
		Files: t.files, Runs: len(t.runs), Policy: r.cfg.PolicyName, Predictor: r.cfg.PredictorName, Recorded: t.versions,
		Decisions: t.all.decisions, Requests: t.all.decisions - t.retries, Retries: t.retries, Outcomes: t.outcomes,
		Changes: t.all.changes(), Models: t.models, Prefill: t.prefill, Waits: t.waits,
		Rules: []RuleRow{}, Moves: []MoveRow{}, Tenants: []TenantRow{}, Top: t.top.top(), Caveats: t.caveats(),
	}
	if set, ok := r.judge.policy.(interface{ Version() string }); ok {
		out.Version = set.Version()
	}
	if n := len(t.againErrors); n > 0 {
		out.Prediction = &Prediction{
			n, rounded(percent*quantile(t.recordedErrors, half), milli), rounded(percent*quantile(t.againErrors, half), milli),
		}
	}
	out.rules(t)
	for m, n := range t.moves {
		if m.from != m.to {
			out.Moves = append(out.Moves, MoveRow{ruleName(m.from), ruleName(m.to), n})
		}
	}
	slices.SortFunc(out.Moves, func(a, b MoveRow) int {
		return cmp.Or(cmp.Compare(b.Decisions, a.Decisions), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	for _, name := range slices.Sorted(maps.Keys(t.tenants)) {
		g := t.tenants[name]
		out.Tenants = append(out.Tenants, TenantRow{name, g.decisions, g.changes()})
	}
	slices.SortStableFunc(out.Tenants, func(a, b TenantRow) int { return cmp.Compare(b.Decisions, a.Decisions) })
	return out
}

// rules lists every rule that decided or would.
func (r *Report) rules(t *tally) {
	all := map[rule]bool{}
	for one := range t.rules {
		all[one] = true
	}
	for one := range t.hits {
		all[one] = true
	}
	for one := range all {
		row := RuleRow{Policy: one.policy, Rule: one.name, Now: t.hits[one]}
		if g := t.rules[one]; g != nil {
			row.Before, row.Changes = g.decisions, g.changes()
		}
		r.Rules = append(r.Rules, row)
	}
	slices.SortFunc(r.Rules, func(a, b RuleRow) int {
		return cmp.Or(
			cmp.Compare(max(b.Before, b.Now), max(a.Before, a.Now)),
			cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Rule, b.Rule),
		)
	})
}

const (
	percent = 100
	half    = 0.5
	most    = 0.9
	milli   = 1e3
	nano    = 1e9
)

func (g *group) changes() Changes {
	c := Changes{
		Changed: g.changed, RejectedBefore: g.rejectedBefore, RejectedNow: g.rejectedNow,
		NewlyRejected: g.newlyRejected, NewlyAdmitted: g.newlyAdmitted,
		TTFT: deltaOf(g.deltas), ChangedTTFT: deltaOf(g.changedDeltas),
	}
	if g.decisions > 0 {
		c.ChangedPct = rounded(percent*float64(g.changed)/float64(g.decisions), milli)
	}
	if n := len(g.deltas); n > 0 {
		c.OthersMS = rounded(g.others/float64(n), milli)
	}
	if g.costed > 0 {
		c.Cost = &Cost{g.costed, rounded(g.costBefore, nano), rounded(g.costNow, nano), rounded(g.costNow-g.costBefore, nano)}
	}
	return c
}

// deltaOf returns nil for none.
func deltaOf(v []float64) *Delta {
	if len(v) == 0 {
		return nil
	}
	mid, high := quantile(v, half), quantile(v, most)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return &Delta{len(v), rounded(sum/float64(len(v)), milli), rounded(mid, milli), rounded(high, milli)}
}

// rounded cuts off what machines may compute differently, and nobody reads.
func rounded(x, unit float64) float64 { return math.Round(x*unit) / unit }

// quantile is the least of v that a share q of them does not exceed. It sorts v.
func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	return v[max(int(math.Ceil(q*float64(len(v))))-1, 0)]
}
