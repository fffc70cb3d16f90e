package follow_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// gate is a transport whose live subscriptions are not made while it is shut;
// replays work.
type gate struct {
	follow.Transport
	mu      sync.Mutex
	err     error
	changed chan struct{}
}

// shut makes connections that are not up yet, and new ones, fail because of err.
func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	if g.changed != nil {
		close(g.changed)
	}
	g.changed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = nil
	close(g.changed)
	g.changed = nil
}

func (g *gate) state() (chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed, g.err
}

func (g *gate) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	c, err := g.Transport.Dial(ctx, ep)
	return &gated{Conn: c, gate: g}, err
}

type gated struct {
	follow.Conn
	gate *gate
	mu   sync.Mutex
	up   bool
}

func (c *gated) Link() follow.Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.gate.state()
	if c.up = c.up || changed == nil; c.up {
		return follow.Link{Up: true}
	}
	return follow.Link{Err: err, Changed: changed}
}

func (c *gated) Recv(ctx context.Context) (follow.Message, error) {
	for {
		l := c.Link()
		if l.Up {
			return c.Conn.Recv(ctx)
		}
		select {
		case <-l.Changed:
		case <-ctx.Done():
			return follow.Message{}, ctx.Err()
		}
	}
}

var errRefused = errors.New("connection refused")

func (w *world) gate() *gate {
	g := &gate{Transport: w.hub}
	w.cfg.Transport = g
	return g
}

// A replay address that answers does not make up for events that don't come.
func TestNotExactWithoutLiveEvents(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"refused": errRefused, "slow": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				g := w.gate()
				g.shut(why)
				w.publish("S1")
				w.start()
				w.pass(2 * time.Second)
				w.expectLess(follow.ReasonNotConnected)
				w.expectBlocks(1)

				w.pipe.Lose(1)
				w.publish("R1 S2")
				w.pass(time.Hour)
				w.expectLess(follow.ReasonNotConnected)
				w.expectBlocks(2)

				w.pipe.Lose(1)
				w.publish("R2 S3") // just before the subscription is in force
				g.open()
				synctest.Wait()
				w.expectExact()
				assert.Equal(t, []string{"resyncing not connected", "exact"}, w.trusts())
				w.pipe.Lose(1)
				w.publish("S4") // or just after it: a publisher takes a moment
				w.pass(2 * time.Second)
				w.expectExact()
				w.expectBlocks(3, 4)
			})
		})
	}
}

// The same for an engine that has said nothing, whose owner would be Exact.
func TestNotExactWithoutLiveEventsOfASilentEngine(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.gate()
		g.shut(errRefused)
		w.start()
		w.pass(time.Hour)
		w.expectLess(follow.ReasonNotConnected)
		g.open()
		synctest.Wait()
		w.expectExact()
		assert.Zero(t, w.index.clears)
	})
}

// What was missed before the connection stood can't be proven harmless while
// replays go unanswered.
func TestConnectedWithoutProof(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.gate()
		g.shut(errRefused)
		w.publish("S1")
		w.start()
		w.pipe.Mute(true)
		w.pipe.Lose(1)
		w.publish("R1")
		g.open()
		w.pass(2 * follow.DefaultReplayTimeout)
		require.Equal(t, kvcache.Resyncing, w.trust())
		assert.Equal(t, follow.ReasonUnanswered, w.f.Stats().Reason)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
		w.expectBlocks()
	})
}

// After a loss: the replay address is back at once, the events are not.
func TestNotConnectedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.gate()
		w.start()
		w.publish("S1")
		w.expectExact()
		g.shut(errRefused)
		w.pipe.Disconnect()
		synctest.Wait()
		w.expectLess2(follow.ReasonDisconnected)
		w.pass(time.Hour)
		w.expectLess(follow.ReasonNotConnected)
		w.expectBlocks(1)
		g.open()
		synctest.Wait()
		w.expectExact()
	})
}

// Nothing answers at all.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		require.NoError(t, w.pipe.Close())
		w.start()
		w.pass(time.Hour)
		assert.Equal(t, kvcache.Blind, w.trust())
		assert.Equal(t, follow.ReasonNotConnected, w.f.Stats().Reason)
	})
}
