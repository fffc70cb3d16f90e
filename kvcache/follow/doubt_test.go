package follow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// A message is a sign that a replay may work now, however often it did not.
func TestFirstMessageAsksAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		require.NoError(w.t, w.pipe.Close())
		w.start()
		w.pass(time.Hour)
		w.pipe = nil
		w.open(follow.PipeOptions{})
		w.pipe.Lose(1)
		w.publish("S1", "S2")
		w.expectExact()
	})
}

func TestReplayUnanswered(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.publish("S1")
		w.pipe.Mute(true)
		w.start()
		w.pass(time.Minute)
		assert.Equal(t, kvcache.Blind, w.trust())
		assert.Equal(t, follow.ReasonUnanswered, w.f.Stats().Reason)

		// Live messages count even so, and the first comes through in time.
		w.publish("S2")
		w.pass(2 * follow.DefaultReplayTimeout)
		w.expectLess(follow.ReasonUnanswered)
		w.expectBlocks(2)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
		w.expectBlocks(1, 2)

		// A gap while it is mute costs what is known, until it speaks again.
		w.pipe.Mute(true)
		w.pipe.Lose(1)
		w.publish("R1", "S3")
		w.pass(follow.DefaultReplayTimeout)
		w.expectLess(follow.ReasonUnanswered)
		w.expectBlocks(3)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()

		// Silence that nobody vouches for is not exact.
		w.pipe.Mute(true)
		w.pass(time.Minute)
		w.expectLess(follow.ReasonUnanswered)
		w.publish("S4")
		w.pass(follow.DefaultReplayTimeout) // a check may be waiting just then
		w.expectExact("a message in its turn is a sign of life")
		w.pass(time.Minute)
		w.expectLess(follow.ReasonUnanswered)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
	})
}

// After a clear there is nothing for a replay to mend.
func TestClearEndsTheNeedForReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.publish("S1")
		w.pipe.Mute(true)
		w.start()
		w.publish("S2", "C", "S3")
		w.pass(3 * follow.DefaultReplayTimeout)
		w.expectExact()
		clears := w.index.clears
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
		assert.Equal(t, clears, w.index.clears)
	})
}

// A reconnection that the publisher has not yet confirmed leaves a doubt, which
// later messages don't settle.
func TestDoubtAfterReconnection(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1")
		w.restart(w.pipe.Restart)
		w.pipe.Mute(true)
		w.publishRank(-1, "S5") // takes the number of "S1"
		w.pass(time.Second + follow.DefaultReplayTimeout)
		w.publish("S6") // fits behind "S1"
		w.pass(follow.DefaultReplayTimeout)
		w.expectLess2(follow.ReasonUnanswered)
		w.pipe.Mute(false)
		w.pass(3 * follow.DefaultCheckEvery)
		w.expectExact()
		w.expectBlocks(5, 6)
	})
}

// The doubt lasts however much of the new engine was taken for the old one's.
func TestDoubtIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 2000} {
		inWorld(t, func(w *world) {
			w.start()
			w.publish("S1")
			w.restart(w.pipe.Restart)
			w.pipe.Mute(true)
			w.publishRank(-1, "S5")
			w.pass(time.Second + follow.DefaultReplayTimeout)
			for range n {
				w.publishRank(-1, "S6")
			}
			w.pass(follow.DefaultReplayTimeout)
			w.expectLess2(follow.ReasonUnanswered)
			w.pipe.Mute(false)
			w.pass(time.Minute)
			w.expectExact()
			w.expectBlocks(5, 6)
		})
	}
}

func TestResync(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1", "S2")
		w.index.mu.Lock()
		w.index.blocks[w.owners[0]][99] = true // as if by a fault of ours
		w.index.mu.Unlock()
		w.f.Resync()
		w.f.Resync()
		synctest.Wait()
		w.expectExact()
		assert.Equal(t, []string{"exact", "resyncing starting", "exact"}, w.trusts())

		w.pass(follow.DefaultResyncEvery)
		w.pipe.Mute(true)
		w.f.Resync()
		w.pass(follow.DefaultReplayTimeout)
		w.expectLess(follow.ReasonUnanswered)
		w.expectBlocks(1, 2)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
	})
	inWorld(t, func(w *world) {
		w.cfg.Endpoint.Replay = ""
		w.start()
		w.publish("S1")
		w.expectExact()
		w.f.Resync()
		synctest.Wait()
		w.expectBlocks()
		w.expectLess(follow.ReasonNoReplay)
		w.publish("S2")
		w.expectLess(follow.ReasonNoReplay)
		w.expectBlocks(2)
	})
}

// A publisher that restarts in the middle of every replay does not hold the
// Follower for ever.
func TestRestartWithinReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.publish("S1", "S2", "S3")
		w.cfg.Transport = fickle{w.hub}
		w.start()
		assert.Equal(t, kvcache.Resyncing, w.trust())
		assert.Equal(t, uint64(3), w.f.Stats().Replays)
		w.pass(time.Minute)
		assert.Equal(t, kvcache.Resyncing, w.trust())
	})
}

// fickle replays in a falling order.
type fickle struct{ follow.Transport }

type fickleConn struct{ follow.Conn }

func (f fickle) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	c, err := f.Transport.Dial(ctx, ep)
	return fickleConn{c}, err
}

func (c fickleConn) Replay(_ context.Context, _ uint64, fn func(follow.Message) error) error {
	for _, seq := range []uint64{5, 6, 2} {
		if err := fn(follow.Message{Seq: seq, Payload: []byte("1|-1|S9")}); err != nil {
			return err
		}
	}
	return nil
}

// Whoever asked for a Resync is told when it is done, once, and not before.
func TestResyncIsToldOf(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		done := 0
		w.cfg.OnResync = func() { done++ }
		w.start()
		w.publish("S1")
		w.f.Resync()
		synctest.Wait()
		assert.Equal(t, 1, done)
		w.pipe.Lose(1)
		w.publish("S2", "S3")
		w.pass(time.Minute)
		w.expectExact()
		assert.Equal(t, 1, done, "a gap is none")

		w.pass(follow.DefaultResyncEvery)
		w.pipe.Mute(true)
		w.f.Resync()
		w.pass(follow.DefaultReplayTimeout)
		w.expectLess(follow.ReasonUnanswered)
		assert.Equal(t, 1, done, "nobody answered")
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
		assert.Equal(t, 2, done)
	})
}
