package follow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// What the index's bounds took away is named, and won back when there is room.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, why := range []kvcache.Reason{kvcache.ReasonEvicted, kvcache.ReasonBudget, kvcache.ReasonOrphanBound} {
		inWorld(t, func(w *world) {
			x := w.withLedger()
			tr := &tap{Transport: w.hub}
			w.cfg.Transport = tr
			w.start()
			w.publish("S1", "S2", "S3")
			tr.before = func(follow.Message) {
				if blocks, trust := x.state(w.owners[0]); len(blocks) < 2 {
					assert.Equal(t, kvcache.Resyncing, trust, "in the middle of it")
				}
			}
			x.fill(ledgerBudget-100, 2)
			x.lose(w.owners[0], why, 1, 2)
			w.publish("S4")
			s := w.f.Stats()
			assert.Equal(t, kvcache.Resyncing, s.Trust)
			assert.Equal(t, follow.Reason(why.String()), s.Reason)
			assert.Equal(t, kvcache.Standing{Trust: kvcache.Exact}, x.stands(w.owners[0]), "the index lowers it itself")
			if why != kvcache.ReasonOrphanBound {
				w.pass(time.Hour)
				assert.Zero(t, w.f.Stats().Restores, "there is no room")
				w.expectBlocks(3, 4)
				x.fill(0, 2)
			}
			w.pass(2 * follow.DefaultCheckEvery)
			w.expectExact(why)
			w.expectBlocks(1, 2, 3, 4)
			assert.Equal(t, uint64(1), w.f.Stats().Restores)
			w.pass(time.Hour)
			assert.Equal(t, uint64(1), w.f.Stats().Restores)
		})
	}
}

// A budget that is too small for all does not make the engine repeat itself for
// ever: the attempts become rare.
func TestRestoreBecomesRare(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1", "S2")
		const day = 24 * time.Hour
		for began := time.Now(); time.Since(began) < day; {
			x.lose(w.owners[0], kvcache.ReasonEvicted, 1)
			w.pass(follow.DefaultCheckEvery)
		}
		s := w.f.Stats()
		assert.InDelta(t, 29, s.Restores, 3, "after 1, 2, 4, ... minutes, then once an hour")
		assert.Zero(t, s.Lost+s.Restarts+s.Unanswered)
		// After a long time of peace they begin anew.
		w.pass(3 * time.Hour)
		w.expectExact()
		before := w.f.Stats().Restores
		for range 30 {
			x.lose(w.owners[0], kvcache.ReasonEvicted, 1)
			w.pass(follow.DefaultCheckEvery)
		}
		assert.Greater(t, w.f.Stats().Restores, before+1)
	})
}

// What is lost of a history that the publisher no longer has is not made worse.
func TestRestoreOfAWrappedHistory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1", "S2", "S3")
		w.pipe.Trim(1)
		x.lose(w.owners[0], kvcache.ReasonEvicted, 1)
		w.pass(30 * time.Minute)
		w.expectBlocks(2, 3)
		s := w.f.Stats()
		assert.Equal(t, follow.ReasonEvicted, s.Reason)
		assert.Equal(t, uint64(1), s.Restores)
		assert.Zero(t, s.Wraps)
		w.publish("S4")
		w.expectBlocks(2, 3, 4)
		// It is over when the engine clears its cache.
		w.publish("C", "S5")
		x.mu.Lock()
		delete(x.short, w.owners[0])
		x.mu.Unlock()
		w.publish("S6")
		w.expectExact()
	})
}

// Nothing is replayed for an owner that would not be whole afterwards.
func TestNoRestoreInVain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1", "S2 M")
		x.lose(w.owners[0], kvcache.ReasonEvicted, 1)
		w.pass(time.Hour)
		assert.Zero(t, w.f.Stats().Restores)
		w.expectLess(follow.ReasonMalformed)
	})
}

// Whoever finds the index wrong may say so as often as he likes.
func TestResyncIsLimited(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.ResyncEvery, w.cfg.CheckEvery = 5*time.Minute, time.Hour
		w.start()
		w.publish("S1", "S2")
		before := w.index.clears
		w.f.Resync()
		synctest.Wait()
		require.Equal(t, before+1, w.index.clears, "the first is heeded at once")
		for range 100 {
			w.f.Resync()
			w.pass(time.Second)
		}
		assert.Equal(t, before+1, w.index.clears)
		w.expectExact()
		w.pass(5 * time.Minute)
		assert.Equal(t, before+2, w.index.clears, "the others count as one")
		w.index.mu.Lock()
		w.index.blocks[w.owners[0]][99] = true
		w.index.mu.Unlock()
		w.f.Resync()
		w.pass(time.Minute)
		blocks, _ := w.index.state(w.owners[0])
		require.True(t, blocks[99])
		w.pass(4 * time.Minute)
		w.expectExact("the next is not forgotten")
	})
}
