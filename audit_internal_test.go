package kvsteer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A remedy that doesn't help is tried ever more rarely.
func TestResyncPause(t *testing.T) {
	t.Parallel()
	var a auditor
	start := time.Unix(1_000_000, 0)
	var done []time.Duration
	for at := time.Duration(0); at < 5*time.Hour; at += 30 * time.Second {
		if a.mayResync(start.Add(at)) {
			done = append(done, at/time.Minute)
		}
	}
	require.Equal(t, []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}, done)
	require.True(t, a.mayResync(start.Add(24*time.Hour)))
	require.Equal(t, resyncPause, a.pause, "much later it is another trouble")
}
