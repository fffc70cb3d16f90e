package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// Nine of ten first tokens come within the predicted 90th percentile, whatever the
// load is like: where all requests are alike, too, of which it once covered all.
func TestPredictionsCover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workload  *Workload
		blockSize int
		rate      float64
		users     int
		minutes   int
	}{
		"turns":             {MultiTurn(16, nil), 16, 0.22, 0, 60},
		"turns by users":    {MultiTurn(16, nil), 16, 0, 16, 20},
		"turns of a few":    {MultiTurn(1568, nil), 1568, 0.22, 0, 60},
		"shared":            {SharedPrefix(16, nil), 16, 0.22, 0, 60},
		"shared by users":   {SharedPrefix(1568, nil), 1568, 0, 24, 20},
		"nothing is shared": {Control(16, nil), 16, 0.2, 0, 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.workload.Reseed(1)
			res := runSmall(t, Config{
				Workers: []WorkerSpec{{Count: 3, BlockSize: c.blockSize}},
				Rate:    c.rate, Concurrency: c.users, Duration: time.Duration(c.minutes) * time.Minute, Seed: 1,
			}, c.workload, "kvsteer")
			t.Logf("%d requests, %.1f%% covered, median error %.1f%%", res.Requests, 100*res.Covered, 100*res.PredictionError)
			require.Greater(t, res.Requests, 600)
			require.InDelta(t, 0.9, res.Covered, 0.05)
			require.Less(t, res.PredictionError, 0.1)
		})
	}
}

// So do they where prompts are computed by other workers than those that answer, over a
// network that is not fast, and where one in ten of those that answer stalls for a prompt
// that it computes itself.
func TestPredictionsOfTwoLegsCover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		computing, answering int
		transfer, rate       float64
	}{
		"a slow network": {6, 2, 20_000, 2},
		"stalls":         {5, 3, 200_000, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := WorkerSpec{Count: c.computing, Role: fleet.RolePrefill, PrefillRate: 12000, CacheTokens: 1_000_000}
			d := p
			d.Count, d.Role = c.answering, fleet.RoleDecode
			w := LongPrompts(16, nil)
			w.Reseed(1)
			res := runSmall(t, Config{
				Workers: []WorkerSpec{p, d}, TransferRate: c.transfer, Rate: c.rate, Duration: 10 * time.Minute, Seed: 1,
			}, w, "kvsteer")
			t.Logf("%d requests, %.1f%% covered, median error %.1f%%", res.Requests, 100*res.Covered, 100*res.PredictionError)
			require.Greater(t, res.Requests, 600)
			require.InDelta(t, 0.9, res.Covered, 0.05)
			require.Less(t, res.PredictionError, 0.1)
		})
	}
}
