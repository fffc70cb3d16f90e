package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goroutines are remembered once: the first take memory, as many again cost nothing. That
// takes a process that has had none yet.
func TestGoroutinesAreRememberedOnce(t *testing.T) {
	const alone = "KVSTEER_SOAK_ALONE"
	if os.Getenv(alone) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // itself
		c.Env = append(os.Environ(), alone+"=1")
		text, err := c.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return
	}
	const n, least = 5000, 100.0 // bytes each
	require.Greater(t, peak(n), n*least)
	require.Less(t, peak(n), n*least)
}
