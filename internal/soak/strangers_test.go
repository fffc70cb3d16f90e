package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// In each generation there are as many sessions as the router remembers, those of the load
// included, whatever the rate: so its memory begins anew once in each.
func TestStrangersFillAGeneration(t *testing.T) {
	const generation, load = 30, 14_000
	s := newStrangers(generation)
	meet := func(from int) {
		for i := range load {
			for range 3 { // a session that is heard of again is the same
				s.meet(fmt.Sprintf("session-%d", from+i), "")
			}
		}
		s.meet("", "a request without one")
	}
	came := 0
	for n := range 3 * generation {
		if n%generation == 0 {
			came = 0
		}
		came += s.due(n, generation)
		if n%generation == 1 {
			meet(n)
		}
		if n%generation != generation-1 {
			continue
		}
		if n < generation {
			require.InDelta(t, half, came, generation, "nothing is known of the load yet")
		} else {
			require.InEpsilon(t, half, came+load, 0.02)
		}
	}
}

// The same session of another model is another one, and more of them than there is room for
// leave no room for strangers.
func TestStrangersStayAway(t *testing.T) {
	const generation = 10
	s := newStrangers(generation)
	for i := range 2 * half {
		s.meet("session", fmt.Sprintf("adapter-%d", i))
	}
	require.Greater(t, s.n, half)
	require.Zero(t, s.due(generation, generation))
	require.Equal(t, half/generation, s.due(2*generation, generation), "nobody came since")
}
