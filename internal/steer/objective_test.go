package steer_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// prefills predicts a millisecond for each token and is asked for nothing else.
type prefills struct{}

func (prefills) Predict(in []steer.Features, out []steer.Prediction) {
	for i := range in {
		own := time.Duration(in[i].Uncached) * time.Millisecond
		out[i] = steer.Prediction{
			TTFT: own + time.Duration(in[i].AheadTokens)*time.Millisecond, Prefill: own, Externality: own,
		}
	}
}

// choose runs a round over places for a prompt of 100 tokens.
func choose(r *steer.Round, waiting int, places ...steer.Place) {
	r.Reset()
	r.Waiting = waiting
	q := steer.Prompt{Tokens: 100}
	for i := range places {
		places[i].BlockSize, places[i].Trust = 10, kvcache.Exact
		r.Add(&q, &places[i])
	}
	r.Predict(prefills{})
	r.Choose(&q, policy.Default{})
}

func TestWhatAPrefillCostsOthers(t *testing.T) {
	t.Parallel()
	const own = 100 // ms, nothing cached
	for name, c := range map[string]struct {
		waiting int
		places  []steer.Place
		want    []float64 // milliseconds
	}{
		"nobody there":                 {0, []steer.Place{{}, {}}, []float64{0, 0}},
		"answers under way":            {0, []steer.Place{{Decoding: 3, OtherRunning: 2}, {}}, []float64{0.5 * own, 0}},
		"at most twice":                {0, []steer.Place{{Decoding: 300}, {}}, []float64{2 * own, 0}},
		"a queue while one is free":    {0, []steer.Place{{Prefilling: 9}, {}}, []float64{0, 0}},
		"all busy":                     {0, []steer.Place{{Prefilling: 9}, {OtherWaiting: 3}}, []float64{18 * own, 18 * own}},
		"waiting in the router":        {4, []steer.Place{{Prefilling: 1}, {Prefilling: 2}}, []float64{18 * own, 18 * own}},
		"waiting for one that is hot":  {400, []steer.Place{{Prefilling: 1}, {}}, []float64{0, 0}},
		"cached tokens aren't counted": {0, []steer.Place{{Prefilling: 1, Hit: hit(5)}, {Prefilling: 1}}, []float64{own, 2 * own}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r steer.Round
			choose(&r, c.waiting, c.places...)
			for i, want := range c.want {
				require.InDelta(t, want, float64(r.Candidates[i].Externality)/float64(time.Millisecond), 1e-6, "candidate %d", i)
			}
		})
	}
}

func TestObjectiveOfExperiments(t *testing.T) {
	t.Parallel()
	r := steer.Round{Objective: &steer.Objective{Constant: 3}}
	choose(&r, 0, steer.Place{Decoding: 50, Prefilling: 2})
	require.Equal(t, 300*time.Millisecond, r.Candidates[0].Externality)
	r.Objective = nil
	choose(&r, 9, steer.Place{Decoding: 5, Wanting: 3}, steer.Place{})
	require.Equal(t, 350*time.Millisecond, r.Candidates[0].Externality, "those that wait for it")
	choose(&r, 999, steer.Place{Decoding: 5, Wanting: 300}, steer.Place{Wanting: 290})
	require.Equal(t, 6450*time.Millisecond, r.Candidates[0].Externality, "some of them")
	require.Equal(t, 6400*time.Millisecond, r.Candidates[1].Externality)
	choose(&r, 9, steer.Place{Decoding: 5, Wanting: 3}, steer.Place{})
	require.Zero(t, r.Candidates[1].Externality)
	r.Objective = &steer.Objective{Constant: math.MaxFloat64}
	choose(&r, 0, steer.Place{})
	require.Equal(t, time.Duration(math.MaxInt64), r.Candidates[0].Externality, "never, not less than nothing")
}

// paced predicts an answer of a hundred tokens: 10 ms each, and one more for each
// answer under way.
type paced struct{}

func (paced) Predict(in []steer.Features, out []steer.Prediction) {
	prefills{}.Predict(in, out)
	for i := range out {
		out[i].E2E = out[i].TTFT + time.Duration(100*(10+in[i].Decoding))*time.Millisecond
	}
}

// Where many answers go on at once, each goes on more slowly: this one, too.
func TestWhatItsOwnAnswerTakes(t *testing.T) {
	t.Parallel()
	crowded, quiet := steer.Place{Decoding: 30, Hit: hit(8)}, steer.Place{Decoding: 10}
	waiting := steer.Place{Decoding: 10, Prefilling: 1, PrefillTokens: 1}
	for name, c := range map[string]struct {
		prompt    steer.Prompt
		objective *steer.Objective
		places    []steer.Place
		want      []float64 // milliseconds beyond what its prefill costs
	}{
		"by how much it is slower":          {steer.Prompt{}, nil, []steer.Place{crowded, quiet}, []float64{200, 0}},
		"one is free":                       {steer.Prompt{}, nil, []steer.Place{crowded, waiting}, []float64{200, 0}},
		"a line, in which answers will end": {steer.Prompt{}, nil, []steer.Place{{Decoding: 30, Prefilling: 1}, waiting}, []float64{0, 0}},
		"another answers":                   {steer.Prompt{Prefill: true}, nil, []steer.Place{crowded, quiet}, []float64{0, 0}},
		"left out":                          {steer.Prompt{}, &steer.Objective{NoAnswer: true}, []steer.Place{crowded, quiet}, []float64{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			externalities := func(p steer.Predictor) []time.Duration {
				r := steer.Round{Objective: c.objective}
				q := c.prompt
				q.Tokens = 100
				for _, place := range c.places {
					place.BlockSize, place.Trust = 10, kvcache.Exact
					r.Add(&q, &place)
				}
				r.Predict(p)
				var all []time.Duration
				for i := range r.Candidates {
					all = append(all, r.Candidates[i].Externality)
				}
				return all
			}
			with, without := externalities(paced{}), externalities(prefills{})
			for i, want := range c.want {
				require.InDelta(t, want, float64(with[i]-without[i])/float64(time.Millisecond), 1e-6, "candidate %d", i)
			}
		})
	}
}
