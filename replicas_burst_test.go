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

// Four routers, eight workers, a hundred requests from a cold start: four at once, none of
// which is known to another router when that chooses. How many come before the news of one
// of them is up to the machine if all are sent at once: each is counted by everybody, but
// how evenly they are spread says nothing.
func TestReplicasSpreadABurst(t *testing.T) {
	const routers, requests = 4, 100
	for name, atOnce := range map[string]int{"some at once": routers, "all at once": requests} {
		t.Run(name, func(t *testing.T) {
			// It stands still: on a slow machine the first would count as computed by now, or as late.
			now := time.Now()
			g := newGateways(t, gatewaysConfig{
				engines: 8, routers: routers, beat: time.Second,
				options: []kvsteer.Option{kvsteer.WithClock(func() time.Time { return now })},
				bus: replicatest.BusOptions{Seed: 3, Delay: func(r *rand.Rand) time.Duration {
					return time.Duration(r.IntN(int(2 * time.Millisecond)))
				}},
			})
			rng := rand.New(rand.NewPCG(3, 3))
			prompts, got := make([][]uint32, requests), make([]*kvsteer.Selection, requests)
			for i := range prompts {
				prompts[i] = unique(rng, 2000)
			}
			defer func() {
				for _, s := range got {
					if s != nil {
						s.Abort(errors.New("enough"))
					}
				}
			}()
			loads := map[string]int{}
			for first := 0; first < requests; first += atOnce {
				var wg sync.WaitGroup
				for i := first; i < first+atOnce; i++ {
					wg.Go(func() {
						got[i], _ = g.routers[i%routers].Select(t.Context(), &kvsteer.Request{
							API: kvsteer.Completions, Model: testModel, TokenIDs: prompts[i], Body: []byte(`{"model":"m","stream":true}`),
						})
					})
				}
				wg.Wait()
				for i, s := range got[first : first+atOnce] {
					require.NotNil(t, s, "request %d", first+i)
					loads[s.Target().Worker]++
				}
				for i := range g.routers { // all of them see the same in the end
					g.eventually(func() bool { return g.counts(i, loads) }, "each router counts all requests")
				}
			}
			least, most := requests, 0
			for _, n := range loads {
				least, most = min(least, n), max(most, n)
			}
			t.Logf("requests by worker: %v", loads)
			assert.Len(t, loads, 8)
			if atOnce == routers {
				assert.LessOrEqual(t, most-least, 3)
			}
		})
	}
}

// counts reports whether a router counts so many requests by worker, its own and others'.
func (g *gateways) counts(router int, loads map[string]int) bool {
	for _, m := range g.fleets[router].Snapshot().Members() {
		if m.Peers(0).Requests+m.InFlight(0).Requests != loads[m.Name()] {
			return false
		}
	}
	return true
}
