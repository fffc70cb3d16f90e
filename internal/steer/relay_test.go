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

// startUp predicts what pace does, and 30 ms for an empty prompt.
type startUp struct{}

func (startUp) Predict(in []steer.Features, out []steer.Prediction) {
	pace{}.Predict(in, out)
	for i := range out {
		out[i].TTFT += 30 * time.Millisecond
		out[i].P90 = 2 * out[i].TTFT
		out[i].E2E = out[i].TTFT + time.Second
	}
}

// relay lets two workers that decode choose between computing a prompt of 1,000
// tokens themselves and going on from where p has computed it.
func relay(p, d *steer.Place, paceOver float64) *steer.Round { return relayAsWide(p, d, paceOver, 0) }

// relayAsWide is relay after so much was learned of how widely both scatter.
func relayAsWide(p, d *steer.Place, paceOver, wide float64) *steer.Round {
	q := steer.Prompt{Tokens: 1000}
	prefill := q
	prefill.Prefill = true
	objective := steer.Objective{Running: 0.1, MostRunning: 2}
	before := steer.Round{Objective: &objective}
	before.Add(&prefill, p)
	before.Predict(startUp{})
	r := &steer.Round{Objective: &objective, Relay: &steer.Relay{By: &before.Candidates[0], Pace: paceOver, Wide: wide}}
	d.Follows = true
	r.Add(&q, d)
	r.Add(&q, &steer.Place{Name: "whole", BlockSize: 10, Decoding: 100, OtherWaiting: 1, Trust: kvcache.Exact})
	r.Predict(startUp{})
	return r
}

func TestRelayWhereItPays(t *testing.T) {
	t.Parallel()
	held := hit(90)
	for name, c := range map[string]struct {
		p, d steer.Place
		pace float64
		on   string
		ttft int // ms
		todo int // tokens on the worker that answers
	}{
		// Alone on its worker, a prompt disturbs nobody.
		"idle": {steer.Place{}, steer.Place{}, 0, "", 1030, 1000},
		// Twenty answers would come to a halt for it: 2 ms for each.
		"busy": {steer.Place{}, steer.Place{Decoding: 20}, 0, "p", 1030 + 40, 10},
		// A tenth of a second for handing over 990 tokens.
		"slow network": {steer.Place{}, steer.Place{Decoding: 20}, 9900, "p", 1030 + 40 + 100, 10},
		"no network":   {steer.Place{}, steer.Place{Decoding: 20}, 1, "", 1030, 1000},
		// What p holds is computed there in no time.
		"warm": {steer.Place{Hit: held}, steer.Place{}, 0, "p", 130 + 40, 10},
		// What d holds is not handed over.
		"warm here": {steer.Place{}, steer.Place{Hit: held}, 0, "", 130, 100},
		"both warm": {steer.Place{Hit: held}, steer.Place{Hit: held, Decoding: 20}, 900, "p", 130 + 40 + 100, 10},
		// Whoever computes it disturbs as many.
		"p busy": {steer.Place{Decoding: 30}, steer.Place{Decoding: 20}, 0, "", 1030, 1000},
		"queue":  {steer.Place{Prefilling: 3, PrefillTokens: 5000}, steer.Place{Decoding: 20}, 0, "", 1030, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range []*steer.Place{&c.p, &c.d} {
				w.BlockSize, w.Trust = 10, kvcache.Exact
			}
			c.p.Name, c.d.Name = "p", "d"
			r := relay(&c.p, &c.d, c.pace)
			got := r.Candidates[0]
			require.Equal(t, c.on, got.PrefillOn)
			require.Equal(t, time.Duration(c.ttft)*time.Millisecond, got.PredictedTTFT)
			require.Equal(t, c.todo, r.Features[0].Uncached)
			require.Greater(t, got.PredictedP90, got.PredictedTTFT)
			if c.on != "" { // each leg is late by as much as it takes, rarely both
				own := float64(30+c.todo) * float64(time.Millisecond)
				late := math.Hypot(float64(r.Relay.By.PredictedTTFT), own)
				require.InDelta(t, late, float64(got.PredictedP90-got.PredictedTTFT), float64(time.Microsecond))
			}
			require.Equal(t, got.PredictedTTFT+time.Second, got.PredictedE2E)
			require.Len(t, r.Features, 2)
			require.Len(t, r.Predictions, 2)
			require.Empty(t, r.Candidates[1].PrefillOn, "it serves whole requests")
		})
	}
}

// "Never" is not sooner than ever.
func TestRelayDoesNotOverflow(t *testing.T) {
	t.Parallel()
	never := policy.Candidate{Name: "p", PredictedTTFT: math.MaxInt64, Externality: math.MaxInt64, PredictedP90: math.MaxInt64}
	r := steer.Round{Relay: &steer.Relay{By: &never, Pace: 1}}
	q := steer.Prompt{Tokens: 1000}
	r.Add(&q, &steer.Place{Follows: true, BlockSize: 10, Trust: kvcache.Exact, Decoding: 50})
	r.Predict(startUp{})
	require.Empty(t, r.Candidates[0].PrefillOn)
	require.Equal(t, 1030*time.Millisecond, r.Candidates[0].PredictedTTFT)
}

// Nothing of a choice with a relay is left for the next one.
func TestRelayIsForgotten(t *testing.T) {
	t.Parallel()
	r := relay(&steer.Place{BlockSize: 10, Trust: kvcache.Exact}, &steer.Place{BlockSize: 10, Trust: kvcache.Exact, Decoding: 20}, 0)
	require.NotEmpty(t, r.Candidates[0].PredictedTTFT)
	r.Reset()
	q := steer.Prompt{Tokens: 1000}
	r.Add(&q, &steer.Place{Follows: true, BlockSize: 10, Trust: kvcache.Exact, Decoding: 20})
	r.Predict(startUp{})
	require.Empty(t, r.Candidates[0].PrefillOn)
	require.Len(t, r.Predictions, 1)
	require.Len(t, r.Features, 1)
}
