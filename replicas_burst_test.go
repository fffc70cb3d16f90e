package kvsteer_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// Four routers, eight workers, a hundred requests at once from a cold start.
func TestReplicasSpreadABurst(t *testing.T) {
	g := newGateways(t, gatewaysConfig{
		engines: 8, routers: 4, beat: time.Second,
		bus: replicatest.BusOptions{Seed: 3, Delay: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(int(2 * time.Millisecond))) }},
	})
	rng := rand.New(rand.NewPCG(3, 3))
	prompts := make([][]uint32, 100)
	for i := range prompts {
		prompts[i] = unique(rng, 2000)
	}
	var wg sync.WaitGroup
	got := make([]*kvsteer.Selection, len(prompts))
	for i := range prompts {
		wg.Go(func() {
			got[i], _ = g.routers[i%4].Select(t.Context(), &kvsteer.Request{
				API: kvsteer.Completions, Model: testModel, TokenIDs: prompts[i], Body: []byte(`{"model":"m","stream":true}`),
			})
		})
	}
	wg.Wait()
	defer func() {
		for _, s := range got {
			if s != nil {
				s.Abort(errors.New("enough"))
			}
		}
	}()
	loads := map[string]int{}
	for i, s := range got {
		require.NotNil(t, s, "request %d", i)
		loads[s.Target().Worker]++
	}
	least, most := len(prompts), 0
	for _, n := range loads {
		least, most = min(least, n), max(most, n)
	}
	t.Logf("requests by worker: %v", loads)
	assert.Len(t, loads, 8)
	assert.LessOrEqual(t, most-least, 3)
	// And all of them see the same in the end.
	for i := range g.routers {
		g.eventually(func() bool {
			total := 0
			for _, m := range g.fleets[i].Snapshot().Members() {
				total += m.Peers(0).Requests + m.InFlight(0).Requests
				if m.Peers(0).Requests+m.InFlight(0).Requests != loads[m.Name()] {
					return false
				}
			}
			return total == len(prompts)
		}, "each router counts all requests")
	}
}
