package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However long the line in the router is, somebody in it takes a worker that is free. It
// once looked only at those at the head, as the router doesn't: hundreds behind them made
// all these wait for the same worker, and a fleet that could not keep up did a third of what
// it could.
func TestALongLineLeavesNobodyIdle(t *testing.T) {
	t.Parallel()
	mean := func(rule string) float64 {
		w := LongPrompts(16, nil)
		w.Reseed(1)
		return runSmall(t, Config{
			Workers: []WorkerSpec{{Count: 4, PrefillRate: 12_000, CacheTokens: 200_000}},
			Rate:    4, Duration: 5 * time.Minute, Seed: 1,
		}, w, rule).Mean
	}
	queued, sent := mean("kvsteer-queue"), mean("kvsteer")
	t.Logf("mean %.0f s, %.0f s without a queue", queued, sent)
	require.Greater(t, sent, 60.0, "no overload")
	require.Less(t, queued, 1.05*sent)
}
