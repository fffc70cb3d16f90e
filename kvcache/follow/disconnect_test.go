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

func TestDisconnection(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1", "S2")
		w.pipe.Disconnect()
		w.publish("R1", "S3") // nobody is connected
		w.expectLess2(follow.ReasonDisconnected)
		w.expectBlocks(1, 2)
		w.pass(time.Second)
		w.expectExact()
		assert.Equal(t, []string{"exact", "resyncing disconnected", "exact"}, w.trusts())
		s := w.f.Stats()
		assert.Equal(t, uint64(1), s.Disconnects)
		assert.Zero(t, s.Restarts+s.Gaps)
	})
}

// expectLess2 is expectLess while removals may be missed.
func (w *world) expectLess2(why follow.Reason) {
	w.t.Helper()
	require.Equal(w.t, kvcache.Resyncing, w.trust())
	require.Equal(w.t, why, w.f.Stats().Reason)
}

// What is queued when the connection breaks counts before the break does.
func TestQueuedBeforeDisconnection(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publishRank(-1, "S1")
		w.publishRank(-1, "S2")
		w.pipe.Disconnect()
		synctest.Wait()
		w.expectBlocks(1, 2)
		w.pass(time.Second)
		w.expectExact()
		assert.Equal(t, uint64(2), w.f.Stats().Messages)
	})
}

func TestStaleKnowledge(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1")
		require.NoError(w.t, w.pipe.Close())
		synctest.Wait()
		w.pass(follow.DefaultStaleAfter / 2)
		w.expectBlocks(1)
		assert.Equal(t, kvcache.Resyncing, w.trust())
		w.pass(follow.DefaultStaleAfter)
		w.expectBlocks()
		assert.Equal(t, kvcache.Blind, w.trust())
		assert.Equal(t, follow.ReasonStale, w.f.Stats().Reason)

		w.restart(func() { w.pipe = nil; w.open(follow.PipeOptions{}) })
		w.publish("S2")
		w.pass(time.Minute)
		w.expectExact()
		w.expectBlocks(2)
	})
}

// The engine comes up after its follower, as it does whenever both start at once.
func TestPublisherComesLater(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		require.NoError(w.t, w.pipe.Close())
		w.start()
		w.pass(time.Minute)
		assert.Equal(t, kvcache.Blind, w.trust())
		w.pipe = nil
		w.open(follow.PipeOptions{})
		w.publish("S1", "S2")
		w.expectExact()
	})
}

// A replay reaches the new engine while the old one's last messages still wait
// on the broken connection, and their numbers fit behind it.
func TestRestOfABrokenConnection(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		tr := &tap{Transport: w.hub}
		w.cfg.Transport = tr
		w.start()
		w.publish("S1")
		tr.asked = func() {
			tr.asked = nil
			w.publishRank(-1, "S2")
			w.publishRank(-1, "S3")
			w.restart(w.pipe.Restart)
			w.publishRank(-1, "S8")
		}
		w.f.Resync()
		w.pass(time.Minute)
		w.expectExact()
		w.expectBlocks(8)
	})
}

// The same behind a relay, where the connection does not break: it lasts until
// the next proof, which is soon.
func TestRestOfAnUnseenPredecessor(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		tr := &tap{Transport: w.hub}
		w.cfg.Transport = tr
		w.start()
		w.publish("S1")
		tr.asked = func() {
			tr.asked = nil
			w.publishRank(-1, "S2")
			w.publishRank(-1, "S3")
			w.restart(w.pipe.RestartUnseen)
			w.publishRank(-1, "S8")
		}
		w.f.Resync()
		w.pass(3 * time.Second)
		w.expectExact()
		w.expectBlocks(8)
	})
}

func TestManyReconnections(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		for i := range 100 {
			if i%3 == 0 {
				w.restart(w.pipe.Restart)
			} else {
				w.pipe.Disconnect()
			}
			w.publish("S1", "S2", "R1")
			w.pass(time.Second)
			w.expectExact(i)
			assert.Equal(t, 1, w.pipe.Subscribers())
		}
		assert.Equal(t, uint64(33), w.f.Stats().Restarts, "the first had nothing to lose")
	})
}

func TestCloseIsPrompt(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]func(w *world){
		"idle":      func(w *world) { w.start() },
		"replaying": func(w *world) { w.pipe.Mute(true); w.start() },
		"redialling": func(w *world) {
			w.start()
			for range 10 {
				w.pipe.Disconnect()
				synctest.Wait()
			}
		},
		"without a publisher": func(w *world) { require.NoError(w.t, w.pipe.Close()); w.start() },
	} {
		inWorld(t, func(w *world) {
			busy(w)
			begin := time.Now()
			require.NoError(w.t, w.f.Close(), name)
			require.NoError(w.t, w.f.Close(), name)
			assert.Zero(t, time.Since(begin), name)
			assert.Equal(t, kvcache.Blind, w.trust(), name)
			assert.Zero(t, w.pipe.Subscribers(), name)
			assert.Equal(t, follow.ReasonClosed, w.f.Stats().Reason, name)
			w.f.Resync() // no effect and no harm
			w.f.Promote()
		})
	}
}
