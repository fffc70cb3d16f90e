package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// pace predicts a millisecond for each token and nothing else.
type pace struct{}

func (pace) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		own := time.Duration(in[i].Uncached) * time.Millisecond
		out[i] = kvsteer.Prediction{
			TTFT: own + time.Duration(in[i].AheadTokens)*time.Millisecond, Prefill: own, Externality: own,
		}
	}
}

func (pace) Observe(*kvsteer.Features, time.Duration) {}

// withPace makes a rule of the given parameters predict by pace.
func withPace(t *testing.T, params string) (Rule, *Steer) {
	t.Helper()
	rule, err := variant(params, 1)
	require.NoError(t, err)
	steer, ok := rule.(*Steer)
	switch rule := rule.(type) {
	case *Late:
		steer, ok = rule.Steer, true
	case *Together:
		steer, ok = rule.Steer, true
	}
	require.True(t, ok)
	steer.Predictor = pace{}
	return rule, steer
}

func TestObjectives(t *testing.T) {
	for name, c := range map[string]struct {
		params string
		state  *State
		want   []int // objectives in milliseconds
	}{
		// Own and ahead. The first has three answers under way, and the other nobody.
		"product":  {"", state(101, View{CachedBlocks: 5, PrefillTokens: 70, Decoding: 10}, View{}), []int{51 + 70 + 51, 101}},
		"constant": {"constant=2", state(101, View{CachedBlocks: 5}, View{}), []int{3 * 51, 3 * 101}},
		"running":  {"running=0.5+most=1", state(101, View{Decoding: 1}, View{Decoding: 9}), []int{101 + 50, 101 + 101}},
		"waiting": {
			"waiting=1", state(100, View{Prefilling: 2}, View{Prefilling: 3}), []int{100 + 400, 100 + 400},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, steer := withPace(t, c.params)
			steer.evaluate(c.state)
			for i, want := range c.want {
				got := steer.round.Candidates[i].Objective()
				require.InDelta(t, want, float64(got)/float64(time.Millisecond), 1, "worker %d", i)
			}
		})
	}
}

// What the time since it began has done of the prefill ahead is taken off.
func TestProgress(t *testing.T) {
	s := state(100, View{PrefillTokens: 1000, PrefillPairs: 2000, Prefilling: 1, PrefillSince: time.Second})
	for params, left := range map[string]int{"": 750, "progress=0": 1000} {
		s.Now = 1250 * time.Millisecond
		_, steer := withPace(t, params)
		steer.evaluate(s)
		require.Equal(t, left, steer.round.Features[0].AheadTokens, params)
	}
}

// A queue in the router gives the worker to the shortest, and the longest in
// time to a call that has waited for long.
func TestLate(t *testing.T) {
	for params, want := range map[string][]int{
		"queue=1+gather=0+aging=0":  {500, 100, 200, 300},
		"queue=1+gather=0+aging=10": {500, 300, 100, 200},
		// The first two come at the same moment.
		"queue=1+aging=0": {300, 100, 200, 500},
	} {
		rule, _ := withPace(t, params)
		at := 0
		prompts := []int{500, 300, 100, 200}
		delays := []time.Duration{0, 0, 400 * time.Millisecond, 401 * time.Millisecond}
		w := Trace("late", []*Call{})
		w.Session = func() []*Call {
			if at == len(prompts) {
				return nil
			}
			at++
			return []*Call{{Prompt: prompts[at-1], Output: 1, At: delays[at-1], Session: uint64(prompts[at-1])}}
		}
		var sent []int
		cfg := Config{Workers: []WorkerSpec{{PrefillRate: 100, BlockSize: 16}}, Seed: 1}
		_, err := Run(context.Background(), cfg, w, &witness{Late: rule.(*Late), sent: &sent})
		require.NoError(t, err)
		require.Equal(t, want, sent, params)
	}
}

type witness struct {
	*Late
	sent *[]int
}

func (w *witness) Booked(j *Job) {
	w.Late.Booked(j)
	*w.sent = append(*w.sent, j.Call.Prompt)
}

// A hot prefix that more calls want than the worker that has it can serve spreads
// to others, however many wait.
func TestLateDoesNotStarve(t *testing.T) {
	prefix := extend(nil, 16, 4096, kindShared, 1)
	n := uint64(0)
	w := Trace("hot", nil)
	w.Session = func() []*Call {
		if n == 400 {
			return nil
		}
		n++
		blocks := extend(append([]uint64(nil), prefix...), 16, 4096+256, kindUnique, n)
		return []*Call{{Prompt: 4096 + 256, Output: 2, Blocks: blocks, At: time.Duration(n) * 50 * time.Millisecond}}
	}
	cfg := Config{Workers: []WorkerSpec{{Count: 4, PrefillRate: 4000, CacheTokens: 200_000, BlockSize: 16}}, Seed: 1}
	rule, err := NewRule("kvsteer-queue", 1)
	require.NoError(t, err)
	r, err := Run(context.Background(), cfg, w, rule)
	require.NoError(t, err)
	require.Less(t, r.P99, 4.0, "twenty calls a second are served in turn by workers that take 14 a second each")
}

// Answers that contradict the index again and again, and it is not believed.
func TestAudit(t *testing.T) {
	s := state(100, View{CachedBlocks: 5}, View{})
	r := NewSteer(1)
	report := func(n, cached int) {
		for range n {
			r.Done(s, &Job{Leg: &Leg{}, Call: s.Call, note: expectation{indexed: 50, sure: 50}}, cached)
		}
	}
	report(11, 0)
	report(1, 45) // less than a block off
	r.evaluate(s)
	require.Equal(t, 50, r.round.Candidates[0].CachedTokens)
	report(2, 60)
	r.evaluate(s)
	require.Equal(t, kvcache.Suspect, r.round.Candidates[0].Trust)
	require.Zero(t, r.round.Candidates[0].CachedTokens)
	require.Equal(t, 100, r.round.Features[0].Uncached)
	require.Equal(t, kvcache.Exact, r.round.Candidates[1].Trust)
	report(11, 50)
	r.evaluate(s)
	require.Equal(t, 50, r.round.Candidates[0].CachedTokens)
}

// The rule leaves the choice to the policy, also whether there is one.
func TestRejectedByPolicy(t *testing.T) {
	r := NewSteer(1)
	r.Policy = nobody{}
	require.Equal(t, -1, r.Pick(state(100, View{})))
	cfg := small()
	cfg.Rate = 1
	_, err := Run(context.Background(), cfg, workloads(t, 1)["control"], r)
	require.ErrorContains(t, err, "chose worker -1")
}

type nobody struct{}

func (nobody) Evaluate(_ *policy.Request, _ []policy.Candidate, plan *policy.Plan) {
	plan.Order = plan.Order[:0]
}
