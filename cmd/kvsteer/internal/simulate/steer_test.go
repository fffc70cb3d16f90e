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
	if late, is := rule.(*Late); is {
		steer, ok = late.Steer, true
	}
	require.True(t, ok)
	steer.Predictor = pace{}
	return rule, steer
}

func TestObjectives(t *testing.T) {
	full := func(s *State, i int) { // fill the cache of worker i
		keys := kvcache.Hasher{BlockSize: indexBlock}.Keys(nil, tokensOf(nil, extend(nil, 10, 1000, kindShared, 99)), kvcache.Scope{}, nil)
		s.Index.Book(s.Workers[i].Owner, keys, time.Hour)
	}
	for name, c := range map[string]struct {
		params string
		state  *State
		full   bool
		want   []int // objectives in milliseconds
	}{
		// Own and ahead, and own again.
		"product":        {"", state(101, View{CachedBlocks: 5, PrefillTokens: 70}, View{}), false, []int{51 + 70 + 51, 101 + 101}},
		"no externality": {"externality=0", state(101, View{CachedBlocks: 5, PrefillTokens: 70}, View{}), false, []int{121, 101}},
		"twice":          {"externality=2", state(101, View{CachedBlocks: 5}, View{}), false, []int{3 * 51, 3 * 101}},
		// The second has fifty tokens less.
		"spread": {"spread=1", state(101, View{CachedBlocks: 5}, View{}), false, []int{2 * 51, 2*101 + 50}},
		"decode": {"decode=0.5", state(101, View{Decoding: 4}, View{}), false, []int{101 + 3*101, 2 * 101}},
		// Only where the cache is full.
		"evict": {"evict=1", state(101, View{}, View{}), true, []int{3 * 101, 2 * 101}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.full {
				full(c.state, 0)
			}
			_, steer := withPace(t, c.params)
			steer.evaluate(c.state)
			for i, want := range c.want {
				require.Equal(t, time.Duration(want)*time.Millisecond, steer.cands[i].Objective(), "worker %d", i)
			}
		})
	}
}

// What the time since it began has done of the prefill ahead is taken off.
func TestProgress(t *testing.T) {
	s := state(100, View{PrefillTokens: 1000, PrefillPairs: 2000, Prefilling: 1, PrefillSince: time.Second})
	for at, want := range map[time.Duration]int{
		time.Second: 1000, 1250 * time.Millisecond: 750, 2 * time.Second: 0, 3 * time.Second: 0,
		time.Minute: 1000, // it hangs
	} {
		s.Now = at
		f := kvsteer.Features{AheadTokens: 1000, AheadPairs: 2000}
		refine(pace{}, s, &f, &s.Workers[0])
		require.Equal(t, want, f.AheadTokens, "at %s", at)
		require.InDelta(t, 2*float64(want), f.AheadPairs, 1e-9)
	}
}

// A queue in the router gives the worker to the shortest, and the longest in
// time to a call that has waited for long.
func TestLate(t *testing.T) {
	for params, want := range map[string][]int{
		"hold=0.001":        {500, 100, 200, 300},
		"hold=0.001+age=10": {500, 300, 100, 200},
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

func (w *witness) Booked(j *Job, worker int) {
	w.Late.Booked(j, worker)
	*w.sent = append(*w.sent, j.Call.Prompt)
}

// Ten answers in a row that contradict the index, and it is not believed.
func TestAudit(t *testing.T) {
	s := state(100, View{CachedBlocks: 5}, View{})
	r := NewSteer(1)
	report := func(n, cached int) {
		for range n {
			r.Done(s, &Job{Call: s.Call, worker: 0, cached: 50}, cached)
		}
	}
	report(9, 0)
	report(1, 45) // less than a block off
	report(9, 60)
	r.evaluate(s)
	require.Equal(t, 50, r.cands[0].CachedTokens)
	report(1, 0)
	r.evaluate(s)
	require.Equal(t, kvcache.Suspect, r.cands[0].Trust)
	require.Zero(t, r.cands[0].CachedTokens)
	require.Equal(t, 100, r.feats[0].Uncached)
	require.Equal(t, kvcache.Exact, r.cands[1].Trust)
	report(10, 50)
	r.evaluate(s)
	require.Equal(t, 50, r.cands[0].CachedTokens)
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
