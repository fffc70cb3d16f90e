package policy_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// split counts where requests go first, by draws one after the other.
func split(p policy.Policy, n int, cands ...policy.Candidate) map[string]float64 {
	got := map[string]float64{}
	var plan policy.Plan
	for i := range n {
		p.Evaluate(&policy.Request{Model: "glm", Draw: uint64(i), Attempt: 1}, cands, &plan)
		if len(plan.Order) > 0 {
			got[cands[plan.Order[0]].Name] += 1 / float64(n)
		}
	}
	return got
}

func canary(shares ...policy.Share) *policy.Spec {
	return route(policy.Route{
		Consider: []policy.Consider{{Models: []string{"glm", "glm-next"}}},
		Select:   []policy.Stage{{Weighted: shares}},
	})
}

func TestWeightedSplits(t *testing.T) {
	t.Parallel()
	set := compile(t, canary(
		policy.Share{Name: "stable", Weight: 70}, policy.Share{Name: "canary", Weight: 20}, policy.Share{Model: "glm-next", Weight: 10},
	))
	cands := []policy.Candidate{worker("stable", "glm", 9), worker("canary", "glm", 1), worker("next", "glm-next", 1)}
	const draws, near = 20000, 0.02
	got := split(set, draws, cands...)
	assert.InDelta(t, 0.7, got["stable"], near)
	assert.InDelta(t, 0.2, got["canary"], near)
	assert.InDelta(t, 0.1, got["next"], near)

	// A share without candidates sends nothing into a hole: the others take over by
	// their weights.
	got = split(set, draws, cands[0], cands[2])
	assert.InDelta(t, 0.875, got["stable"], near)
	assert.InDelta(t, 0.125, got["next"], near)
	got = split(set, draws, cands[1])
	assert.InDelta(t, 1, got["canary"], near)
	assert.Empty(t, split(set, draws), "nobody")
}

// Who was sent to a share that is there stays there when another comes or goes.
func TestWeightedKeepsSessionsWhereTheyAre(t *testing.T) {
	t.Parallel()
	set := compile(t, canary(
		policy.Share{Name: "a", Weight: 5}, policy.Share{Name: "b", Weight: 3}, policy.Share{Name: "c", Weight: 2},
	))
	cands := []policy.Candidate{worker("a", "glm", 1), worker("b", "glm", 1), worker("c", "glm", 1)}
	moved := 0
	for draw := range uint64(2000) {
		all := ask(set, policy.Request{Model: "glm", Draw: draw}, cands...)
		again := ask(set, policy.Request{Model: "glm", Draw: draw}, cands...)
		require.Equal(t, all.order, again.order)
		without := ask(set, policy.Request{Model: "glm", Draw: draw}, cands[0], cands[2])
		if all.order[0] == "b" {
			moved++
			continue
		}
		require.Equal(t, all.order[0], without.order[0])
	}
	require.Greater(t, moved, 400)
}

func TestWeightedOrder(t *testing.T) {
	t.Parallel()
	set := compile(t, canary(
		policy.Share{Labels: map[string]string{"track": "stable"}, Weight: 1}, policy.Share{Name: "spare", Weight: 0},
		policy.Share{Model: "glm-next", Weight: 1},
	))
	stable := labels("track", "stable")
	cands := []policy.Candidate{
		worker("next", "glm-next", 5), worker("slow", "glm", 9, stable), worker("spare", "glm", 1), worker("fast", "glm", 2, stable),
		worker("nobody's", "glm", 1),
	}
	seen := map[string]bool{}
	for draw := range uint64(64) {
		v := ask(set, policy.Request{Model: "glm", Draw: draw}, cands...)
		seen[fmt.Sprint(v.order)] = true
		require.Contains(t, v.dropped["nobody's"], "in no stage: weighted 1 to label track=stable, 0 to name spare, 1 to model glm-next")
	}
	require.Equal(t, map[string]bool{"[fast slow next spare]": true, "[next fast slow spare]": true}, seen,
		"the drawn share, the others, those without weight")
	require.Equal(t, []string{"spare"}, ask(set, policy.Request{Model: "glm"}, cands[2]).order, "better than nothing")
}

func TestSwitchOnlyIf(t *testing.T) {
	t.Parallel()
	build := func(m policy.Margin, by policy.Metric) *policy.Set {
		return compile(t, route(policy.Route{
			Consider: []policy.Consider{{Models: []string{"glm", "qwen"}}},
			Select:   []policy.Stage{{Minimize: by, SwitchOnlyIf: &m}},
		}))
	}
	e2e := func(ms int) func(*policy.Candidate) {
		return func(c *policy.Candidate) { c.PredictedE2E = time.Duration(ms) * time.Millisecond }
	}
	for _, c := range []struct {
		name   string
		margin policy.Margin
		metric policy.Metric
		cands  []policy.Candidate
		want   []string
	}{
		{
			"not by enough",
			policy.Margin{By: 200 * time.Millisecond},
			0,
			[]policy.Candidate{worker("q", "qwen", 301), worker("g", "glm", 500), worker("g2", "glm", 900)},
			[]string{"g", "g2", "q"},
		},
		{
			"by just enough",
			policy.Margin{By: 200 * time.Millisecond},
			0,
			[]policy.Candidate{worker("q", "qwen", 300), worker("g", "glm", 500), worker("q2", "qwen", 400)},
			[]string{"q", "g", "q2"},
		},
		{
			"by a share",
			policy.Margin{Percent: 50},
			0,
			[]policy.Candidate{worker("q", "qwen", 250), worker("q2", "qwen", 251), worker("g", "glm", 500)},
			[]string{"q", "g", "q2"},
		},
		{
			"by both",
			policy.Margin{By: 10 * time.Millisecond, Percent: 50},
			0,
			[]policy.Candidate{worker("q", "qwen", 8), worker("q2", "qwen", 5), worker("g", "glm", 16)},
			[]string{"q2", "g", "q"},
		},
		{
			"requested model is not there",
			policy.Margin{By: time.Hour},
			0,
			[]policy.Candidate{worker("q", "qwen", 20), worker("q2", "qwen", 10)},
			[]string{"q2", "q"},
		},
		{
			"faster to the end",
			policy.Margin{By: time.Second},
			policy.PredictedE2E,
			[]policy.Candidate{worker("g", "glm", 1, e2e(5000)), worker("q", "qwen", 900, e2e(4000)), worker("q2", "qwen", 1, e2e(4001))},
			[]string{"q", "g", "q2"},
		},
		{
			"than what nobody knows",
			policy.Margin{Percent: 1},
			policy.PredictedE2E,
			[]policy.Candidate{worker("g", "glm", 1), worker("q", "qwen", 1, e2e(1))},
			[]string{"g", "q"},
		},
		{
			"less queued is not faster",
			policy.Margin{By: 50 * time.Millisecond},
			policy.QueuedPrompts,
			[]policy.Candidate{worker("g", "glm", 100, queued(9)), worker("q", "qwen", 100), worker("q2", "qwen", 50, queued(7))},
			[]string{"q2", "g", "q"},
		},
	} {
		assert.Equal(t, c.want, ask(build(c.margin, c.metric), policy.Request{Model: "glm"}, c.cands...).order, c.name)
	}
}

func TestMinimize(t *testing.T) {
	t.Parallel()
	late := worker("never", "glm", 0, func(c *policy.Candidate) { c.PredictedTTFT = math.MaxInt64 })
	for _, c := range []struct {
		metric policy.Metric
		cands  []policy.Candidate
		want   []string
	}{
		{policy.PredictedTTFT, []policy.Candidate{late, worker("b", "glm", 2), worker("a", "glm", 1)}, []string{"a", "b", "never"}},
		{
			policy.QueuedPrompts,
			[]policy.Candidate{worker("c", "glm", 1, queued(2)), worker("b", "glm", 9), worker("a", "glm", 8)},
			[]string{"a", "b", "c"},
		},
		{
			policy.KVCacheUsage,
			[]policy.Candidate{worker("b", "glm", 1, usage(0.5)), worker("a", "glm", 9, usage(0.25))},
			[]string{"a", "b"},
		},
		{
			policy.Cost,
			[]policy.Candidate{worker("unknown", "glm", 1), provider("b", "glm", 1, price(0.5)), worker("a", "glm", 9, price(0))},
			[]string{"a", "b", "unknown"},
		},
	} {
		set := compile(t, route(policy.Route{Select: []policy.Stage{{Minimize: c.metric}}}))
		assert.Equal(t, c.want, ask(set, policy.Request{Model: "glm"}, c.cands...).order, c.metric.String())
	}
}

// Of one name on a preference list there may be several candidates.
func TestOrderOfOneName(t *testing.T) {
	t.Parallel()
	set := compile(t, route(policy.Route{Select: []policy.Stage{{Order: []string{"b", "a"}, Minimize: policy.QueuedPrompts}}}))
	var plan policy.Plan
	cands := []policy.Candidate{
		worker("a", "glm", 1), worker("b", "glm", 1, queued(4)), worker("b", "glm", 1, queued(3), rank(1)), worker("c", "glm", 1),
	}
	set.Evaluate(&policy.Request{Model: "glm"}, cands, &plan)
	require.Equal(t, []int{2, 1, 0}, plan.Order)
}

// Candidates between which nothing makes a difference stay in order, however many.
func TestEqualCandidatesStayInOrder(t *testing.T) {
	t.Parallel()
	const groups, each = 3, 40
	cands := make([]policy.Candidate, groups*each)
	var want []int
	for i := range cands {
		cands[i].Model, cands[i].InFlight = "glm", i%groups
		want = append(want, groups*i%len(cands)+i/each)
	}
	for _, set := range []*policy.Set{compile(t), compile(t, route(policy.Route{}))} {
		var plan policy.Plan
		set.Evaluate(&policy.Request{Model: "glm"}, cands, &plan)
		require.Equal(t, want, plan.Order)
	}
}

// What comes first by more than numbers may be reordered among itself only.
func TestHead(t *testing.T) {
	t.Parallel()
	set := compile(t, canary(policy.Share{Model: "glm", Weight: 1}, policy.Share{Model: "glm-next", Weight: 0}))
	cands := []policy.Candidate{worker("a", "glm", 3), worker("next", "glm-next", 1), worker("b", "glm", 2)}
	v := ask(set, policy.Request{Model: "glm"}, cands...)
	require.Equal(t, []string{"b", "a", "next"}, v.order)
	require.Equal(t, 2, v.Head())

	set = compile(t, route(policy.Route{
		Consider: []policy.Consider{{Models: []string{"glm", "glm-next"}}},
		Select: []policy.Stage{
			{Type: policy.ProviderOnly}, {SwitchOnlyIf: &policy.Margin{By: time.Second}, Order: []string{"b", "a", "next"}}, {},
		},
	}))
	v = ask(set, policy.Request{Model: "glm"}, append(cands, worker("c", "glm", 1))...)
	require.Equal(t, []string{"b", "a", "next", "c"}, v.order)
	require.Equal(t, 2, v.Head(), "a preference list is not more than numbers")

	v = ask(compile(t), policy.Request{Model: "glm"}, cands...)
	require.Equal(t, 2, v.Head())
	require.Equal(t, 2, (&policy.Plan{Order: []int{4, 5, 6}, Stages: []int{1, 1, 2}}).Head())
}
