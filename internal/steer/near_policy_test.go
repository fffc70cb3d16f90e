package steer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

func compiled(t *testing.T, route policy.Route) *policy.Set {
	t.Helper()
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "p", Rules: []policy.Rule{{Name: "r", Route: route}}})
	require.NoError(t, err)
	return set
}

// What the policy does not allow, or only later, or puts behind for reasons of its own, is
// nobody's equal, and keeps nobody else from being levelled.
func TestNearEqualsAreThoseThatThePolicyAllows(t *testing.T) {
	t.Parallel()
	place := func(name string, ahead, own int) steer.Place {
		return steer.Place{Name: name, PrefillTokens: ahead, OwnPrefilling: own}
	}
	// Objectives: 100 ms for the best, some 50% more for b and c.
	places := []steer.Place{place("a", 0, 0), place("b", 50, 1), place("c", 51, 0), place("d", 400, 0)}
	drop := func(f *policy.Filter) policy.Policy {
		return compiled(t, policy.Route{Exclude: []policy.Exclusion{{Name: "x", Drop: *f}}})
	}
	stages := func(names ...[]string) policy.Policy {
		var list []policy.Stage
		for _, of := range names {
			var shares []policy.Share
			for _, name := range of {
				shares = append(shares, policy.Share{Name: name, Weight: 1})
			}
			list = append(list, policy.Stage{Weighted: shares})
		}
		return compiled(t, policy.Route{Select: list})
	}
	var wanderer, homebody, busy []steer.Place
	for i := range places {
		wanderer, homebody, busy = append(wanderer, places[i]), append(homebody, places[i]), append(busy, places[i])
	}
	wanderer[0].Home = true // best off where it may not go
	homebody[1].Home = true // best off of those where it may go
	busy[2].Prefilling = 5  // c

	for name, c := range map[string]struct {
		policy policy.Policy
		places []steer.Place
		first  int
		equals []int
	}{
		"all":                       {policy.Default{}, places, 0, nil},
		"the best is excluded":      {drop(&policy.Filter{Name: []string{"a"}}), places, 2, []int{1, 2}},
		"one of the equals is":      {drop(&policy.Filter{Name: []string{"a", "c"}}), places, 1, nil},
		"all but one are":           {drop(&policy.Filter{Name: []string{"a", "b", "c"}}), places, 3, nil},
		"excluded by what is going": {drop(&policy.Filter{PredictedTTFT: policy.LessThan(0.12)}), places, 2, []int{1, 2}},
		"the session's is excluded": {drop(&policy.Filter{Name: []string{"a"}}), wanderer, 2, []int{1, 2}},
		"a session stays":           {drop(&policy.Filter{Name: []string{"a"}}), homebody, 1, nil},
		"the best is of a later stage": {
			compiled(t, policy.Route{Select: []policy.Stage{{Order: []string{"d"}}, {}}}), places, 3, nil,
		},
		"equals are of a later stage": {stages([]string{"a", "d"}, []string{"b", "c"}), places, -1, nil},
		"listed":                      {compiled(t, policy.Route{Select: []policy.Stage{{Order: []string{"b", "c"}}}}), places, 1, []int{1, 2}},
		"something else is minimised": {
			compiled(t, policy.Route{
				Exclude: []policy.Exclusion{{Name: "x", Drop: policy.Filter{Name: []string{"a"}}}},
				Select:  []policy.Stage{{Minimize: policy.QueuedPrompts}},
			}), busy, 1, []int{1, 2}, // equal in time, which comes second here
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, equals := crowded(3, false, c.policy, slices.Clone(c.places)...)
			if c.first >= 0 { // else it is drawn by the policy
				require.Equal(t, c.first, first)
			}
			require.Equal(t, c.equals, equals)
		})
	}
}

// In a rush it is what the request adds at the best of those that are allowed.
func TestARushIsMeasuredByWhoIsAllowed(t *testing.T) {
	t.Parallel()
	p := compiled(t, policy.Route{Exclude: []policy.Exclusion{{Name: "x", Drop: policy.Filter{Name: []string{"holds"}}}}})
	first, equals := crowded(3, true, p,
		steer.Place{Name: "holds", Hit: hit(9)}, // adds 10 ms, the others 100
		steer.Place{Name: "b", OwnPrefilling: 1}, steer.Place{Name: "c", PrefillTokens: 50}, steer.Place{Name: "d", PrefillTokens: 51})
	require.Equal(t, []int{1, 2}, equals)
	require.Equal(t, 2, first)
}

// A provider's time is not the predictor's, and this router has never sent it anything.
func TestProvidersAreNotLevelled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		local    int
		remote   time.Duration
		first    int
		levelled bool
	}{
		{"provider first", 101, 100 * time.Millisecond, 2, false},
		{"provider near", 100, 101 * time.Millisecond, 1, true},
	} {
		var r steer.Round
		r.Peers = 1
		q := steer.Prompt{Model: "m", Tokens: c.local} // a millisecond each
		for own := range 2 {
			r.Add(&q, &steer.Place{BlockSize: 10, Trust: kvcache.Exact, OwnPrefilling: 1 - own, Tie: uint32(own)})
		}
		r.Predict(prefills{})
		r.Outside(&policy.Candidate{Name: "cloud", Type: policy.Provider, Model: "m", PredictedTTFT: c.remote})
		r.Choose(&q, compiled(t, policy.Route{Select: []policy.Stage{{}}}))
		require.Equal(t, c.first, r.Plan.Order[0], c.name)
		require.Equal(t, c.levelled, r.Candidates[0].Near > 0 && r.Candidates[1].Near > 0, c.name)
		require.Zero(t, r.Candidates[2].Near, c.name)
	}
}

// Who is expected to miss a target is no equal of who meets it.
func TestTargetsComeBeforeNearEquals(t *testing.T) {
	t.Parallel()
	var r steer.Round
	r.Peers = 1
	q := steer.Prompt{Tokens: 100, TargetTTFT: 102 * time.Millisecond}
	for i, ahead := range []int{0, 1, 2, 3} {
		r.Add(&q, &steer.Place{BlockSize: 10, Trust: kvcache.Exact, PrefillTokens: ahead, OwnPrefilling: 3 - i})
	}
	r.Predict(prefills{})
	r.Choose(&q, policy.Default{})
	require.Equal(t, []int{2, 1, 0, 3}, r.Plan.Order)
	require.Zero(t, r.Candidates[3].Near)
}

// counting is a policy that counts its choices, as its contract has it, and answers with
// what the candidates look like to it.
type counting struct{ asked, counted int }

func (c *counting) Evaluate(req *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	c.asked++
	if !req.DryRun {
		c.counted++
	}
	policy.Default{}.Evaluate(req, candidates, plan)
}

func TestAPolicyCountsEachChoiceOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peers, workers int
		dry            bool
		asked, counted int
	}{
		"alone":                 {0, 2, false, 1, 1},
		"alone, a question":     {0, 2, true, 1, 0},
		"with others":           {1, 2, false, 2, 1},
		"with others, one":      {1, 1, false, 2, 1},
		"with others, none":     {1, 0, false, 2, 1},
		"a question, levelled":  {1, 2, true, 2, 0},
		"a question, not":       {1, 1, true, 1, 0},
		"a question about none": {1, 0, true, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r steer.Round
			r.Peers = c.peers
			q := steer.Prompt{Tokens: 100, DryRun: c.dry}
			for range c.workers {
				r.Add(&q, &steer.Place{BlockSize: 10, Trust: kvcache.Exact})
			}
			r.Predict(prefills{})
			var p counting
			r.Choose(&q, &p)
			require.Equal(t, counting{c.asked, c.counted}, p)
			require.Len(t, r.Plan.Order, c.workers)
		})
	}
}

// What was levelled for one answer is not left over when the policy is asked again.
func TestLevellingBeginsAnew(t *testing.T) {
	t.Parallel()
	var r steer.Round
	r.Peers = 1
	q := steer.Prompt{Tokens: 100, DryRun: true}
	for i, name := range []string{"a", "b", "c"} {
		r.Add(&q, &steer.Place{Name: name, BlockSize: 10, Trust: kvcache.Exact, PrefillTokens: i, OwnPrefilling: 2 - i})
	}
	r.Predict(prefills{})
	for _, c := range []struct {
		without string
		order   []int
	}{{"", []int{2, 1, 0}}, {"c", []int{1, 0}}, {"a", []int{2, 1}}, {"", []int{2, 1, 0}}} {
		var without []policy.Exclusion
		if c.without != "" {
			without = []policy.Exclusion{{Name: "x", Drop: policy.Filter{Name: []string{c.without}}}}
		}
		r.Choose(&q, compiled(t, policy.Route{Exclude: without}))
		require.Equal(t, c.order, r.Plan.Order, "without %q", c.without)
		for i := range r.Candidates {
			require.Equal(t, slices.Contains(c.order, i), r.Candidates[i].Near > 0, "without %q: %d", c.without, i)
		}
	}
}
