package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gapsOf are the first n gaps that so many processes make.
func gapsOf(processes, n int, rate float64) []time.Duration {
	a := newArrivals(stream(1, streamArrival), processes)
	gaps := make([]time.Duration, n)
	last := time.Duration(0)
	for i := range gaps {
		at := a.next(rate)
		gaps[i], last = at-last, at
	}
	return gaps
}

// Processes with the same seed draw the same gaps, and each comes as often as there are
// processes, in turn.
func TestProcessesDrawTheSameGaps(t *testing.T) {
	t.Parallel()
	one := gapsOf(1, 50, 1000)
	four := gapsOf(4, 200, 1000)
	for i, gap := range four {
		require.Equal(t, one[i/4], gap, "gap %d", i)
	}
}

// At a low rate a process draws no sooner than a moment before its request is due.
func TestProcessesWakeInTime(t *testing.T) {
	t.Parallel()
	a := newArrivals(stream(1, streamArrival), 3)
	for range 300 {
		at := a.next(0.1)
		for _, p := range a.processes {
			require.LessOrEqual(t, p.wake, max(at-sleeps, 0))
		}
	}
	mean := 0.0
	gaps := gapsOf(3, 9000, 0.1)
	for _, g := range gaps {
		mean += g.Seconds() / float64(len(gaps))
	}
	require.InEpsilon(t, 10, mean, 0.1)
}

// When calls come is one thing, and what else is drawn another.
func TestArrivalSeed(t *testing.T) {
	t.Parallel()
	run := func(seed, arrivals uint64) *Result {
		cfg := small()
		cfg.Rate, cfg.Seed, cfg.ArrivalSeed = 4, seed, arrivals
		return runSmall(t, cfg, workloads(t, 1)["control"], "random")
	}
	require.Equal(t, run(3, 0).Row, run(3, 3).Row)
	require.Equal(t, run(4, 3).Requests, run(3, 3).Requests)
	require.NotEqual(t, run(4, 3).Row, run(3, 3).Row)
	require.NotEqual(t, run(3, 5).Row, run(3, 3).Row)
}
