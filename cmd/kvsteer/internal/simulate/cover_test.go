package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
