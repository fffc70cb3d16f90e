package replay

import (
	"math"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

// tally counts what verdicts say.
type tally struct {
	cfg   *Config
	blind blindness

	files    []string
	runs     map[string]bool
	versions map[string]int // of policies, as recorded
	outcomes int

	all     group
	retries int
	models  int // decisions whose request would be served with another model
	prefill int
	waits   int
	rules   map[rule]*group // by the recorded rule
	hits    map[rule]int    // of the replay
	moves   map[move]int
	tenants map[string]*group
	top     ranking

	// recordedErrors and againErrors are of predictions for where requests went, as
	// shares of what was measured.
	recordedErrors, againErrors []float64
}

// rule is a rule of a policy.
type rule struct{ policy, name string }

// move is from the recorded rule to that of the replay.
type move struct{ from, to rule }

// group is a part of the decisions.
type group struct {
	decisions, changed           int
	rejectedBefore, rejectedNow  int
	newlyRejected, newlyAdmitted int
	// deltas are those of the predicted TTFT in milliseconds, of decisions that chose
	// somebody both times; others are the cost to other requests.
	deltas, changedDeltas []float64
	others                float64
	costed                int
	costBefore, costNow   float64
}

func (t *tally) start(c *Config, p policy.Policy) {
	t.cfg = c
	t.runs, t.versions = map[string]bool{}, map[string]int{}
	t.rules, t.hits, t.moves = map[rule]*group{}, map[rule]int{}, map[move]int{}
	t.tenants = map[string]*group{}
	t.top.most = c.Top
	t.blind.start(p)
}

func (t *tally) header(h *record.Header) {
	t.runs[h.Run] = true
	t.blind.recorded[h.Run] = h.Headers
	t.blind.sample = max(t.blind.sample, h.Sample)
	t.blind.hashed = t.blind.hashed || h.HashedTenants || h.HashedLabels
}

// of returns the group of a key, made if it is new.
func of[K comparable](m map[K]*group, k K) *group {
	g := m[k]
	if g == nil {
		g = new(group)
		m[k] = g
	}
	return g
}

// decision counts a verdict.
func (t *tally) decision(v *verdict, e *record.Entry) {
	d := v.d
	was, is := rule{d.Policy, d.Rule}, rule{v.plan.Policy, v.plan.Rule}
	for _, g := range []*group{&t.all, of(t.rules, was), of(t.tenants, d.Request.Tenant)} {
		g.add(v)
	}
	t.hits[is]++
	t.moves[move{was, is}]++
	t.versions[d.PolicyVersion]++
	if d.Attempt > 1 {
		t.retries++
	}
	if v.was >= 0 && v.is >= 0 && v.candidates[v.was].Model != v.candidates[v.is].Model {
		t.models++
	}
	if v.prefill {
		t.prefill++
	}
	if v.is < 0 && v.plan.Empty.Action == policy.Wait {
		t.waits++
	}
	t.blind.decision(v, t.cfg, e.Run)
	t.top.add(v, e.Line)
}

const millisecond = float64(time.Millisecond)

func (g *group) add(v *verdict) {
	g.decisions++
	if v.was != v.is {
		g.changed++
	}
	if v.was < 0 {
		g.rejectedBefore++
	}
	if v.is < 0 {
		g.rejectedNow++
	}
	switch {
	case v.was >= 0 && v.is < 0:
		g.newlyRejected++
	case v.was < 0 && v.is >= 0:
		g.newlyAdmitted++
	case v.was >= 0:
		delta := float64(v.delta()) / millisecond
		g.deltas = append(g.deltas, delta)
		g.others += (float64(v.candidates[v.is].Externality) - float64(v.candidates[v.was].Externality)) / millisecond
		if v.was != v.is {
			g.changedDeltas = append(g.changedDeltas, delta)
		}
	}
}

// delta is how much later the first token is expected where the request would go
// than where it went, by the same predictor.
func (v *verdict) delta() time.Duration {
	a, b := v.candidates[v.was].PredictedTTFT, v.candidates[v.is].PredictedTTFT
	return b - a // neither is negative, so this can't overflow
}

// measured compares both predictions with what came.
func (t *tally) measured(ttft, recorded, again time.Duration) {
	actual := float64(ttft)
	t.recordedErrors = append(t.recordedErrors, math.Abs(float64(recorded)-actual)/actual)
	t.againErrors = append(t.againErrors, math.Abs(float64(again)-actual)/actual)
}

// cost counts what an ended request cost and would have.
func (t *tally) cost(d *kvsteer.Decision, before, now float64) {
	for _, g := range []*group{&t.all, of(t.rules, rule{d.Policy, d.Rule}), of(t.tenants, d.Request.Tenant)} {
		g.costed++
		g.costBefore += before
		g.costNow += now
	}
}
