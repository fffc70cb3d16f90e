package steer_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// crowded runs a round of a router that has peers, and returns the first of the order
// and the near equals.
func crowded(peers int, rush bool, p policy.Policy, places ...steer.Place) (first int, equals []int) {
	var r steer.Round
	r.Peers, r.Rush = peers, rush
	q := steer.Prompt{Tokens: 100}
	for i := range places {
		places[i].BlockSize, places[i].Trust = 10, kvcache.Exact
		r.Add(&q, &places[i])
	}
	r.Predict(prefills{})
	r.Choose(&q, p)
	for i := range r.Candidates {
		if r.Candidates[i].Near != 0 {
			equals = append(equals, i)
		}
	}
	return r.Plan.Order[0], equals
}

// Objectives of a prompt of 100 tokens are 100 ms and what is ahead, here.
func TestNearEquals(t *testing.T) {
	t.Parallel()
	ahead := func(tokens, own int, tie uint32) steer.Place {
		return steer.Place{PrefillTokens: tokens, OwnPrefilling: own, Tie: tie}
	}
	for name, c := range map[string]struct {
		peers  int
		rush   bool
		places []steer.Place
		first  int
		equals []int
	}{
		"alone":                      {0, true, []steer.Place{ahead(0, 5, 9), ahead(1, 0, 0)}, 0, nil},
		"a percent":                  {3, false, []steer.Place{ahead(0, 0, 9), ahead(1, 0, 0)}, 1, []int{0, 1}},
		"beyond the share":           {3, false, []steer.Place{ahead(0, 0, 9), ahead(6, 0, 0)}, 0, nil},
		"the fewest of its own":      {3, false, []steer.Place{ahead(0, 2, 0), ahead(1, 1, 9), ahead(2, 3, 0)}, 1, []int{0, 1, 2}},
		"in a rush":                  {3, true, []steer.Place{ahead(0, 1, 0), ahead(50, 0, 0), ahead(51, 0, 0)}, 1, []int{0, 1}},
		"less than a third cached":   {3, true, []steer.Place{{Hit: hit(3), OwnPrefilling: 1}, {}}, 1, []int{0, 1}},
		"more than a third cached":   {3, true, []steer.Place{{Hit: hit(4), OwnPrefilling: 1}, {}}, 0, nil},
		"one of its length is ahead": {3, true, []steer.Place{ahead(0, 1, 0), {Prefilling: 1, PrefillTokens: 100}}, 0, nil},
		"a session stays":            {3, true, []steer.Place{{OwnPrefilling: 2, Home: true}, ahead(1, 0, 0)}, 0, nil},
		"one":                        {3, true, []steer.Place{ahead(0, 1, 0)}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, equals := crowded(c.peers, c.rush, policy.Default{}, c.places...)
			require.Equal(t, c.first, first)
			require.Equal(t, c.equals, equals)
		})
	}
}

// The draw is among equals and no others, and requests in flight do not decide it:
// all routers see the same of those.
func TestNearEqualsAreDrawn(t *testing.T) {
	t.Parallel()
	count := map[int]int{}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		first, equals := crowded(1, false, policy.Default{},
			steer.Place{Prefilling: 3, Tie: rng.Uint32()}, steer.Place{PrefillTokens: 2, Tie: rng.Uint32()},
			steer.Place{PrefillTokens: 50}, steer.Place{PrefillTokens: 1, Tie: rng.Uint32()})
		require.Equal(t, []int{0, 1, 3}, equals)
		count[first]++
	}
	require.Len(t, count, 3)
	for i, n := range count {
		require.Greater(t, n, 60, "candidate %d", i)
	}
}

// A predictor that says "never" overflows nothing, and an empty round is one.
func TestNearEqualsAtTheEdge(t *testing.T) {
	t.Parallel()
	var r steer.Round
	r.Peers, r.Rush = 1, true
	r.Predict(never{})
	require.Empty(t, r.Candidates)
	q := steer.Prompt{Tokens: 100}
	r.Add(&q, &steer.Place{OwnPrefilling: 1})
	r.Add(&q, &steer.Place{Tie: 1})
	r.Predict(never{})
	r.Choose(&q, policy.Default{})
	require.Equal(t, []int{1, 0}, r.Plan.Order)
	require.False(t, func() bool { r.Reset(); return r.Rush || r.Peers > 0 }(), "it is of one choice")
}

type never struct{}

func (never) Predict(_ []steer.Features, out []steer.Prediction) {
	for i := range out {
		out[i] = steer.Prediction{TTFT: 1<<63 - 1, Prefill: 1<<63 - 1, Externality: 1<<63 - 1}
	}
}

func TestRush(t *testing.T) {
	t.Parallel()
	var r steer.Rush
	now := time.Unix(1e9, 0)
	require.False(t, r.On(now), "nobody ever chose")
	r.Note(now)
	require.True(t, r.On(now))
	require.True(t, r.On(now.Add(9*time.Millisecond)))
	require.False(t, r.On(now.Add(11*time.Millisecond)))
}
