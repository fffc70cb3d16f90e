package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Goroutines are remembered once: as many again cost nothing, more of them do.
func TestGoroutinesAreRememberedOnce(t *testing.T) {
	const n, least = 5000, 100.0 // bytes each
	peak(n)
	require.Less(t, peak(n), n*least)
	require.Greater(t, peak(3*n), n*least)
}
