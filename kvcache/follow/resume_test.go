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

// succeed replaces the Follower by one of an index that was taken from this one,
// and runs meanwhile in between.
func (w *world) succeed(x *ledgerIndex, meanwhile func()) {
	w.t.Helper()
	blocks, positions := x.export()
	require.NoError(w.t, w.f.Close())
	meanwhile()
	x.restore(blocks, positions)
	w.changes = nil
	w.start()
}

func TestResume(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		tr := &tap{Transport: w.hub}
		w.cfg.Transport = tr
		w.start()
		w.publish("S1", "S2", "S3")
		w.pipe.Trim(2) // the start is forgotten, the place is not
		clears := x.clears
		w.succeed(x, func() { w.publishRank(-1, "R1"); w.publishRank(-1, "S4") })
		w.expectExact()
		w.expectBlocks(2, 3, 4)
		assert.Equal(t, clears, x.clears, "nothing was dropped")
		assert.Equal(t, uint64(2), tr.replays()[len(tr.replays())-1], "from its place on")
		assert.Equal(t, []string{"exact"}, w.trusts())
		s := w.f.Stats()
		assert.Equal(t, uint64(1), s.Resumed)
		assert.Equal(t, uint64(5), s.Next)
		assert.Zero(t, s.Restarts+s.Gaps+s.Wraps)
		w.publish("R2", "S5")
		w.expectExact()
		w.pass(time.Minute)
		w.expectExact()
	})
}

// An engine that says nothing more is followed all the same.
func TestResumeInSilence(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1")
		w.succeed(x, func() {})
		w.expectExact()
		w.expectBlocks(1)
	})
}

// Whatever is not the continuation of what was known is begun anew.
func TestResumeOfAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(w *world)
		want      []kvcache.EngineHash
		wrapped   bool
	}{
		"a restarted engine, empty": {func(w *world) { w.restart(w.pipe.Restart) }, nil, false},
		"a restarted engine, fewer messages": {func(w *world) {
			w.restart(w.pipe.Restart)
			w.publishRank(-1, "S8")
		}, []kvcache.EngineHash{8}, false},
		"a restarted engine, as many messages": {func(w *world) {
			w.restart(w.pipe.Restart)
			w.publishRank(-1, "S7")
			w.publishRank(-1, "S8")
		}, []kvcache.EngineHash{7, 8}, false},
		"a restarted engine, more messages": {func(w *world) {
			w.restart(w.pipe.Restart)
			w.publishRank(-1, "S7")
			w.publishRank(-1, "S8")
			w.publishRank(-1, "S9")
		}, []kvcache.EngineHash{7, 8, 9}, false},
		"a place that is forgotten": {func(w *world) {
			for _, text := range []string{"S3", "R1", "S4"} {
				w.publishRank(-1, text)
			}
			w.pipe.Trim(2)
		}, []kvcache.EngineHash{4}, true},
	} {
		inWorld(t, func(w *world) {
			x := w.withLedger()
			w.start()
			w.publish("S1", "S2")
			w.succeed(x, func() { test.meanwhile(w) })
			w.pass(2 * time.Second)
			assert.Zero(t, w.f.Stats().Resumed, name)
			w.expectBlocks(test.want...)
			if test.wrapped {
				w.expectLess(follow.ReasonWrapped)
				return
			}
			w.expectExact(name)
		})
	}
}

// Until the publisher has proven itself, trust is not raised, whatever else comes.
func TestResumeUnanswered(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1", "S2")
		w.succeed(x, func() { w.pipe.Mute(true); w.publishRank(-1, "R2") })
		w.pass(time.Minute)
		assert.Equal(t, kvcache.Approximate, w.trust(), "as the import left it")
		assert.Equal(t, follow.ReasonUnanswered, w.f.Stats().Reason)
		w.expectBlocks(1, 2)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
		w.expectBlocks(1)
		assert.Equal(t, uint64(1), w.f.Stats().Resumed)
	})
	// A message whose number fits proves nothing.
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1", "S2")
		w.succeed(x, func() {
			w.restart(w.pipe.Restart)
			w.pipe.Mute(true)
			w.publishRank(-1, "S7")
			w.publishRank(-1, "S8")
		})
		w.publishRank(-1, "S9")
		w.pass(time.Minute)
		require.NotEqual(t, kvcache.Exact, w.trust())
		w.pipe.Mute(false)
		w.pass(time.Minute)
		w.expectExact()
		w.expectBlocks(7, 8, 9)
	})
	// Nor does one that comes before the first check.
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		w.publish("S1", "S2")
		w.cfg.Transport = &tap{Transport: w.hub, shy: true}
		w.succeed(x, func() { w.restart(w.pipe.Restart) })
		w.pipe.Lose(2)
		w.publish("S7", "S8", "S9")
		w.expectExact()
		w.expectBlocks(7, 8, 9)
		assert.Equal(t, []string{"exact"}, w.trusts(), "trusted no sooner")
	})
}

func TestResumeWithoutReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.cfg.Endpoint.Replay = ""
		w.start()
		w.publish("S1", "S2")
		w.succeed(x, func() {})
		assert.Equal(t, kvcache.Approximate, w.trust())
		w.publish("S3")
		w.expectLess(follow.ReasonNoReplay)
		w.expectBlocks(3)
	})
}

// What was a lower bound stays one, unless the publisher remembers everything.
func TestResumeOfALowerBound(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{true, false} {
		inWorld(t, func(w *world) {
			x := w.withLedger()
			w.start()
			w.publish("S1", "S2", "S3")
			if !complete {
				w.pipe.Trim(2)
			}
			x.edit(w.owners[0], func(p *kvcache.Position) { p.Whole = false })
			x.lose(w.owners[0], kvcache.NoReason, 1)
			w.succeed(x, func() { w.publishRank(-1, "R2") })
			w.expectLess(follow.ReasonSnapshot)
			w.expectBlocks(3)
			w.pass(time.Minute)
			if complete {
				w.expectExact()
				w.expectBlocks(1, 3)
				return
			}
			w.expectLess(follow.ReasonSnapshot)
			w.expectBlocks(3)
			assert.Equal(t, uint64(1), w.f.Stats().Restores, "not again and again")
			w.publish("C", "S4")
			w.expectExact()
		})
	}
}

// Several ranks on one address: the others go on too if they stopped at the same
// place, and else are known from here on.
func TestResumeRanks(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		inWorld(t, func(w *world) {
			x := w.withLedger()
			w.start()
			w.publishRank(0, "S1")
			w.publishRank(1, "S2")
			w.publishRank(1, "S3")
			synctest.Wait()
			if !same {
				x.edit(w.owners[1], func(p *kvcache.Position) { p.Seq-- })
			}
			w.pipe.Trim(1)
			w.succeed(x, func() { w.publishRank(1, "R2") })
			w.publishRank(1, "S4")
			synctest.Wait()
			w.expectExact()
			w.expectBlocks(1)
			blocks, trust := x.state(w.owners[1])
			if same {
				assert.Equal(t, kvcache.Exact, trust)
				assert.Equal(t, setOf(3, 4), blocks)
				return
			}
			assert.Equal(t, kvcache.Standing{Trust: kvcache.Resyncing, Reason: "incomplete snapshot"}, x.stands(w.owners[1]))
			assert.Equal(t, setOf(4), blocks)
		})
	}
}

// A place is recorded for what is beyond doubt only.
func TestPositions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		w.start()
		at := func() (kvcache.Position, bool) { return x.Position(w.owners[0]) }
		_, ok := at()
		assert.False(t, ok, "nothing was published")
		w.publish("S1", "S2")
		p, ok := at()
		require.True(t, ok)
		assert.Equal(t, uint64(1), p.Seq)
		assert.True(t, p.Whole)
		w.publish("S3 M")
		p, _ = at()
		assert.Equal(t, uint64(2), p.Seq)
		assert.False(t, p.Whole)
		w.f.Promote()
		synctest.Wait()
		p, _ = at()
		assert.True(t, p.Whole)
		w.publishForged(0, "7|-1|S66")
		p, _ = at()
		assert.False(t, p.Whole, "two publishers")
		w.pass(time.Minute)

		// In doubt about the publisher there is no place, and one again afterwards.
		w.pipe.Mute(true)
		w.pipe.Disconnect()
		w.pass(time.Second)
		w.publish("S4")
		w.pass(2 * follow.DefaultReplayTimeout)
		_, ok = at()
		assert.False(t, ok)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		p, ok = at()
		require.True(t, ok)
		assert.Equal(t, uint64(3), p.Seq)
	})
}

// Blocks of before the first event of a rank are not taken for its own.
func TestRankWithAPast(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		x := w.withLedger()
		x.blocks[w.owners[1]] = setOf(99)
		w.start()
		w.publishRank(1, "S1")
		synctest.Wait()
		blocks, trust := x.state(w.owners[1])
		assert.Equal(t, kvcache.Exact, trust)
		assert.Equal(t, setOf(1), blocks)
	})
}
