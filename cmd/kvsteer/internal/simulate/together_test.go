package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bursts are calls of several lengths that come at one instant, every three seconds, each
// the same as some that came before.
func bursts(n, each int) *Workload {
	rng := stream(1, streamWorkload)
	made := 0
	return &Workload{Name: "bursts", SLO: time.Second, Turns: 1, Trace: true, Session: func() []*Call {
		if made == n*each {
			return nil
		}
		at := time.Duration(made/each) * 3 * time.Second
		about := uint64(rng.IntN(128))
		made++
		prompt := 500 + int(about)%12*500
		return []*Call{{At: at, Prompt: prompt, Output: 20, Blocks: extend(nil, 16, prompt+20, kindShared, about)}}
	}}
}

func TestCallsOfOneInstantAreLookedAtTogether(t *testing.T) {
	t.Parallel()
	mean := map[string]float64{}
	for _, rule := range []string{"kvsteer:gather=0", "kvsteer"} {
		res := runSmall(t, Config{
			Workers: []WorkerSpec{{Count: 4, BlockSize: 16, PrefillRate: 4000, CacheTokens: 100_000}}, Seed: 1,
		}, bursts(200, 8), rule)
		require.Equal(t, 1600, res.Requests)
		mean[rule] = res.Mean
	}
	t.Log(mean)
	require.Less(t, mean["kvsteer"], 0.9*mean["kvsteer:gather=0"])
}

// A call that is alone goes at once: the times are the same to a nanosecond each.
func TestACallAloneDoesNotWait(t *testing.T) {
	t.Parallel()
	var means []float64
	for _, rule := range []string{"kvsteer:gather=0", "kvsteer"} {
		w := SharedPrefix(16, nil)
		w.Reseed(1)
		res := runSmall(t, Config{
			Workers: []WorkerSpec{{Count: 3, BlockSize: 16}}, Rate: 0.3, Duration: 20 * time.Minute, Seed: 1,
		}, w, rule)
		means = append(means, res.Mean)
	}
	require.InDelta(t, means[0], means[1], 1e-6)
}
