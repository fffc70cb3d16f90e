package kvsteer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// Of an engine that announces nothing no more is believed than it has room for: its
// evictions are never heard of, and a booking that an answer has confirmed lasts long.
func TestASilentEngineHoldsNoMoreThanItHasRoomFor(t *testing.T) {
	const blocks, prompts, words = 32, 40, 200
	r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) { c.Hub, c.Blocks = nil, blocks }})
	m := r.fleet.Snapshot().Members()[0]
	require.Eventually(t, func() bool {
		l := m.Load()
		return l != nil && l.Total.GPUBlocks == blocks
	}, 30*time.Second, time.Millisecond, "its metrics are read")
	for i := range prompts {
		prompt := strings.Repeat(fmt.Sprintf("w%d ", i), words)
		require.Equal(t, 200, r.post("/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":%q}`, testModel, prompt)).status)
	}
	require.Eventually(t, func() bool { return r.router.InFlight() == 0 }, 30*time.Second, time.Millisecond)
	held := r.router.Stats().Caches[0].Ranks[0]
	require.Greater(t, held.Booked, uint64(2*blocks))
	require.Positive(t, held.Pairs)
	require.LessOrEqual(t, held.Pairs, blocks)
}
