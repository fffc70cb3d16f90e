package kvsteer_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// An engine restarts and its Discoverer does not tell: one router finds out, the other one
// does not look. They go on telling each other what they have there, and what they sent.
func TestRoutersAgreeAfterARestartThatOneHasSeen(t *testing.T) {
	for name, declared := range map[string]bool{"declared epoch": true, "no epoch": false} {
		t.Run(name, func(t *testing.T) {
			g := newGateways(t, gatewaysConfig{
				engines: 1, routers: 2,
				worker: func(w *fleet.Worker) {
					if w.Events = nil; !declared { // whose restarts would drop what is booked
						w.Epoch = ""
					}
				},
				fleet: func(router int, o *fleet.Options) {
					if router == 1 {
						o.ProbeInterval = time.Hour
					}
				},
			})
			before := [2]*fleet.Member{g.fleets[0].Snapshot().Member("w0"), g.fleets[1].Snapshot().Member("w0")}
			rng := rand.New(rand.NewPCG(7, 7))
			held := g.pick(1, unique(rng, 1600))
			require.NoError(t, g.engines[0].Kill())
			g.eventually(func() bool { return g.fleets[0].Snapshot().Routable() == 0 }, "one router sees that it is away")
			require.NoError(t, g.engines[0].Revive())
			g.eventually(func() bool {
				m := g.fleets[0].Snapshot().Member("w0")
				return m.Routable() && m.ID() != before[0].ID()
			}, "and takes it for another instance when it is back")
			g.eventually(func() bool { return g.peers(0)["w0"] == 1 }, "of which it knows what the other one has there")
			require.Same(t, before[1], g.fleets[1].Snapshot().Member("w0"), "the other one does not")

			held.Abort(errors.New("enough"))
			g.eventually(func() bool { return len(g.peers(0)) == 0 }, "and no longer has")
			for _, from := range []int{0, 1} {
				to := 1 - from
				ids := unique(rng, 1600)
				s := g.pick(from, ids)
				g.eventually(func() bool { return g.peers(to)["w0"] == 1 }, "what is in flight is known")
				g.eventually(func() bool {
					d, err := g.routers[to].Explain(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids})
					return err == nil && d.Candidates[0].CachedTokens > 0
				}, "and which prompt it is")
				s.Abort(errors.New("enough"))
				g.eventually(func() bool { return len(g.peers(to)) == 0 }, "and its end")
				assert.Zero(t, g.routers[to].Stats().Replicas.Unknown)
			}
		})
	}
}
