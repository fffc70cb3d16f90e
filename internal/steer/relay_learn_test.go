package steer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// asked keeps what it was asked about.
type asked struct {
	startUp

	classes []string
	known   int
}

func (a *asked) Predict(in []steer.Features, out []steer.Prediction) {
	a.classes = a.classes[:0]
	for i := range in {
		a.classes = append(a.classes, in[i].Class)
	}
	a.startUp.Predict(in, out)
	for i := range out {
		out[i].Observations = a.known
	}
}

// Each leg is learned apart from workers that do all by themselves, and the time of
// fetching, which the prediction adds, is not learned.
func TestWhatIsLearnedOfTwoLegs(t *testing.T) {
	t.Parallel()
	q := steer.Prompt{Tokens: 1000, Prefill: true}
	var before, r steer.Round
	a := asked{known: 20}
	before.Add(&q, &steer.Place{Name: "p", Class: "h100", BlockSize: 10, Trust: kvcache.Exact})
	before.Predict(&a)
	require.Equal(t, []string{"h100 (prefill)"}, a.classes)

	q.Prefill = false
	r.Relay = &steer.Relay{By: &before.Candidates[0], Pace: 9900}
	r.Add(&q, &steer.Place{Name: "d", Class: "h100", BlockSize: 10, Trust: kvcache.Exact, Decoding: 20, Follows: true})
	r.Add(&q, &steer.Place{Name: "whole", Class: "h100", BlockSize: 10, Trust: kvcache.Exact, Decoding: 20})
	r.Predict(&a)
	require.Equal(t, []string{"h100", "h100", "h100 (relayed)"}, a.classes)
	require.Equal(t, "p", r.Candidates[0].PrefillOn)
	require.Equal(t, "h100 (relayed)", r.Features[0].Class, "what is observed is learned there")
	require.Equal(t, 100*time.Millisecond, r.Fetching(0))
	require.Zero(t, r.Fetching(1))

	require.Equal(t, 30*time.Millisecond, steer.Fetched(130*time.Millisecond, r.Fetching(0)))
	require.Equal(t, time.Millisecond, steer.Fetched(90*time.Millisecond, r.Fetching(0)), "sooner than expected")
	require.Equal(t, 130*time.Millisecond, steer.Fetched(130*time.Millisecond, 0))
	require.Positive(t, steer.Fetched(0, 0))

	a.known = 19
	q.Prefill = true
	before.Reset()
	before.Add(&q, &steer.Place{Name: "p", Class: "h100", BlockSize: 10, Trust: kvcache.Exact})
	before.Predict(&a)
	require.Equal(t, []string{"h100"}, a.classes, "too little is known of the leg")
	require.Equal(t, "h100 (prefill)", before.Features[0].Class)

	r.Reset()
	r.Add(&q, &steer.Place{Name: "d", BlockSize: 10, Trust: kvcache.Exact})
	r.Predict(&a)
	require.Zero(t, r.Fetching(0))
}

// A prompt that is computed keeps those waiting that come to the same worker, so it is
// left to another rather.
func TestThoseThatComeCount(t *testing.T) {
	t.Parallel()
	cost := func(coming int) time.Duration {
		q := steer.Prompt{Tokens: 1000}
		var r steer.Round
		r.Add(&q, &steer.Place{Name: "d", BlockSize: 10, Trust: kvcache.Exact, Decoding: 10, Coming: coming})
		r.Predict(startUp{})
		return r.Candidates[0].Externality
	}
	require.Equal(t, time.Second, cost(0))
	require.Equal(t, 4*time.Second, cost(3))
}

// While all that compute prompts for others are at one, a further one costs those that
// come no more than the prompts that are computed where they are answered instead.
func TestComputingForOthersCostsNoMoreThanInstead(t *testing.T) {
	t.Parallel()
	cost := func(beside ...steer.Place) time.Duration {
		q := steer.Prompt{Tokens: 1000, Prefill: true}
		var r steer.Round
		for range 2 { // the second time nothing is left of the first
			r.Reset()
			r.Add(&q, &steer.Place{Name: "p", BlockSize: 10, Trust: kvcache.Exact, Prefilling: 2})
			for i := range beside {
				r.Beside(&beside[i])
			}
			r.Predict(startUp{})
		}
		return r.Candidates[0].Externality
	}
	require.Equal(t, 8*time.Second, cost(), "2 w², as everywhere")
	require.Equal(t, 8*time.Second, cost(steer.Place{Prefilling: 3}))
	require.Equal(t, 2*time.Second, cost(steer.Place{Prefilling: 1}))
	require.Zero(t, cost(steer.Place{}), "who is idle could do it")
	require.Equal(t, 500*time.Millisecond, cost(steer.Place{Decoding: 5}), "those that are answered there")
	require.Equal(t, 4500*time.Millisecond, cost(steer.Place{Decoding: 5, Coming: 3, Wanting: 1}))
	require.Equal(t, 500*time.Millisecond, cost(steer.Place{Decoding: 9}, steer.Place{Decoding: 5, Prefilling: 1}, steer.Place{Decoding: 5}))
}
