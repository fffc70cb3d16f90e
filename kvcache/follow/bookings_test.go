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

// Clear drops bookings too, so there has to be a reason for it: an engine that
// has said nothing gives none, however often it is asked.
func TestNoClearWithoutReason(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.pass(time.Hour)
		w.expectExact()
		assert.Zero(t, w.index.clears)
		s := w.f.Stats()
		assert.LessOrEqual(t, s.Replays, uint64(time.Hour/follow.DefaultCheckEvery)+3, "once a second is too often")
		w.publish("S1")
		w.pass(time.Hour)
		w.expectExact()
		assert.Zero(t, w.index.clears)
		w.pipe.Burn()
		w.publish("S2")
		assert.Equal(t, 1, w.index.clears, "what was applied has to go")
	})
	// The first answer to a Follower that has applied nothing, whatever it is.
	inWorld(t, func(w *world) {
		w.open(follow.PipeOptions{ReplayBatches: 2})
		w.publish("S1", "S2", "S3")
		w.start()
		w.expectLess(follow.ReasonWrapped)
		assert.Zero(t, w.index.clears)
	})
	for name, silent := range map[string]func(w *world){
		"reconnections": func(w *world) { w.pipe.Disconnect() },
		"restarts":      func(w *world) { w.pipe.Restart() },
		"resyncs":       func(w *world) { w.f.Resync() },
		"staleness": func(w *world) {
			require.NoError(w.t, w.pipe.Close())
			w.pass(2 * follow.DefaultStaleAfter)
			w.pipe = nil
			w.open(follow.PipeOptions{})
		},
	} {
		inWorld(t, func(w *world) {
			w.start()
			for range 3 {
				silent(w)
				w.pass(time.Minute)
				w.expectExact(name)
			}
			assert.Zero(t, w.index.clears, name)
		})
	}
}

// The real index: bookings outlive the wait for an engine's first event, and what
// it held before the Follower came, from a snapshot or a predecessor, does not.
func TestBookingsSurviveTheStart(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"bookings": false, "blocks of before": true} {
		synctest.Test(t, func(t *testing.T) {
			index := kvcache.NewIndex(kvcache.Options{})
			owner := index.Join("w")
			keys := []kvcache.Key{11, 22, 33}
			index.Book(owner, keys, time.Hour)
			if known {
				tokens := []uint32{1, 2, 3, 4}
				index.Apply(owner, &kvcache.Event{
					Kind: kvcache.Stored, BlockSize: len(tokens), Tokens: tokens, Hashes: []kvcache.EngineHash{5},
				})
				require.Equal(t, len(keys)+1, index.Resident(owner))
			}
			hub := follow.NewHub()
			pipe, err := hub.Open("engine", follow.PipeOptions{})
			require.NoError(t, err)
			f, err := follow.Start(t.Context(), follow.Config{
				Transport: hub, Endpoint: pipe.Endpoint(0), Index: index,
				Owner: func(int) (kvcache.Owner, bool) { return owner, true },
			})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, f.Close()) })
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, kvcache.Exact, index.Trust(owner), name)
			want := len(keys)
			if known {
				want = 0
			}
			assert.Equal(t, want, index.Resident(owner), name)
		})
	}
}
