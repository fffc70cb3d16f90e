package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// TestFakeEngines reads what the fake engines of both dialects tell, over real
// sockets, and follows one through a crash.
func TestFakeEngines(t *testing.T) {
	for name, c := range map[string]struct {
		dialect fleettest.Dialect
		want    fleet.Engine
	}{"vllm": {fleettest.VLLM, fleet.EngineVLLM}, "sglang": {fleettest.SGLang, fleet.EngineSGLang}} {
		t.Run(name, func(t *testing.T) {
			e := fleettest.New(t, fleettest.Config{
				Name: "w", Dialect: c.dialect, Ranks: 2, BlockSize: 32, Adapters: []fleettest.Adapter{{Name: "lora"}},
			})
			w := e.Worker()
			w.Engine, w.Epoch = "", "" // to be found out
			f := start(t, fleet.Options{
				Discoverer:    fleet.Static(w),
				ProbeInterval: 20 * time.Millisecond, ScrapeInterval: 20 * time.Millisecond, ProbeTimeout: 30 * time.Second,
			})
			ready(t, f)
			m := f.Snapshot().Member("w")
			require.Eventually(t, func() bool { return m.Load() != nil }, 30*time.Second, 5*time.Millisecond)
			assert.Equal(t, c.want, m.Engine())
			assert.Equal(t, 32, m.BlockSize())
			assert.Len(t, m.Load().Ranks, 2)
			assert.True(t, m.Load().Ranks[1].Known)
			assert.True(t, m.Pressure(1, time.Now()).OthersKnown)
			base, ok := m.Adapter("lora")
			assert.True(t, ok)
			assert.Equal(t, fleettest.DefaultModel, base)
			assert.Positive(t, m.MaxModelLen("lora"))
			assert.Empty(t, m.Health().Problems)

			require.NoError(t, e.Kill())
			require.Eventually(t, func() bool { return !m.Healthy() }, 30*time.Second, 5*time.Millisecond)
			assert.Same(t, m, f.Snapshot().Member("w"), "down is not gone")
			require.NoError(t, e.Revive())
			ready(t, f)
			assert.NotSame(t, m, f.Snapshot().Member("w"), "what came back is another instance")
			assert.True(t, m.Gone())
		})
	}
}
