package follow_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestUndecodable(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1", "!", "S2")
		w.expectLess(follow.ReasonUndecodable)
		w.expectBlocks(2)
		assert.Equal(t, uint64(1), w.f.Stats().Undecodable)
		w.publish("C", "S3")
		w.expectExact()
	})
}

func TestMalformedAndUnknownEvents(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1 ? S2")
		w.expectExact("an event of an unknown type is not ours to understand")
		w.publish("S3 M S4")
		w.expectLess(follow.ReasonMalformed)
		w.expectBlocks(1, 2, 3, 4)
		s := w.f.Stats()
		assert.Equal(t, uint64(1), s.Malformed)
		assert.Equal(t, uint64(1), s.Unknown)
		w.publish("C")
		w.expectExact()
	})
}

func TestRefusedByTheIndex(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.index.refuse = map[kvcache.EngineHash]kvcache.Reason{
			7: kvcache.ReasonBlockSize, 8: kvcache.ReasonAttention,
		}
		w.start()
		w.publish("S8")
		assert.Equal(t, kvcache.Exact, w.trust(), "what no index takes is not missing")
		w.publish("R8", "S7")
		w.expectLess(follow.ReasonRefused)
	})
}

// Two ranks on one address: each keeps what the other removes.
func TestRanks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publishRank(0, "S1")
		w.publishRank(1, "S1,2")
		w.publishRank(1, "R1")
		w.publishRank(5, "S9")
		synctest.Wait()
		w.expectExact()
		w.expectBlocks(1)
		other, trust := w.index.state(w.owners[1])
		assert.Equal(t, setOf(2), other)
		assert.Equal(t, kvcache.Exact, trust)
		assert.Equal(t, uint64(1), w.f.Stats().Foreign)
		// A clear is of one rank.
		w.publishRank(1, "C")
		synctest.Wait()
		w.expectBlocks(1)
		// A hole is of both, and a clear makes up for it for one.
		w.pipe.Burn()
		w.publishRank(1, "C S3")
		synctest.Wait()
		w.expectLess(follow.ReasonLost)
		other, trust = w.index.state(w.owners[1])
		assert.Equal(t, setOf(3), other)
		assert.Equal(t, kvcache.Exact, trust)
	})
}

// A clear of one rank says nothing of another one that has not been heard of yet.
func TestClearBeforeAnotherRankIsHeardOf(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.open(follow.PipeOptions{ReplayBatches: 2})
		w.publishRank(1, "S1")
		w.publish("S2", "S3")
		w.start()
		w.publish("C")
		w.expectExact("rank 0")
		w.publishRank(1, "S5")
		synctest.Wait()
		other, trust := w.index.state(w.owners[1])
		assert.Equal(t, setOf(5), other, "S1 came too early")
		assert.Equal(t, kvcache.Resyncing, trust)
		w.publishRank(1, "C S6")
		synctest.Wait()
		_, trust = w.index.state(w.owners[1])
		assert.Equal(t, kvcache.Exact, trust)
	})
}

// While everything is replayed nothing is exact, also not what was before.
func TestNothingIsExactDuringARestart(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		tp := &tap{Transport: w.hub}
		w.cfg.Transport = tp
		w.start()
		w.publishRank(0, "S1")
		w.publishRank(1, "S2")
		synctest.Wait()
		w.publishForged(1, "7|0|S66") // a doubt that a replay of everything will settle
		w.publishRank(1, "C S7")
		synctest.Wait()
		_, trust := w.index.state(w.owners[1])
		assert.Equal(t, kvcache.Exact, trust)
		partly := false
		tp.mu.Lock()
		tp.before = func(follow.Message) {
			blocks, trust := w.index.state(w.owners[1])
			if !blocks.within(setOf(7)) || len(blocks) == 0 {
				partly = true
				assert.NotEqual(t, kvcache.Exact, trust)
			}
		}
		tp.mu.Unlock()
		w.pass(time.Minute)
		assert.True(t, partly)
		blocks, trust := w.index.state(w.owners[1])
		assert.Equal(t, setOf(7), blocks)
		assert.Equal(t, kvcache.Exact, trust)
		w.expectExact("rank 0")
	})
}

func TestConflictingPublishers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1", "S2", "S3")
		// The tap hands the Follower a message that the publisher never sent.
		w.publishForged(1, "7|-1|S66")
		w.expectLess(follow.ReasonConflict)
		assert.Equal(t, uint64(1), w.f.Stats().Conflicts)
		w.expectBlocks(1, 2, 3)
		w.pass(time.Minute)
		w.expectExact("it did not happen again")
	})
}

// publishForged slips a message with a number of its own between the engine's.
func (w *world) publishForged(seq uint64, payload string) {
	w.pipe.Forge(follow.Message{Seq: seq, Payload: []byte(payload)})
	synctest.Wait()
}

// Nothing comes: the time of the latest message tells.
func TestSilence(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		assert.True(t, w.f.Stats().LastMessage.IsZero())
		w.pass(time.Hour)
		assert.True(t, w.f.Stats().LastMessage.IsZero())
		w.publish("S1")
		at := time.Now()
		w.pass(time.Hour)
		assert.Equal(t, at, w.f.Stats().LastMessage)
	})
}

// The log names what happened and never what a message said.
func TestLog(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var out bytes.Buffer
		w.cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.start()
		w.publish("S1", "!canary", "S2")
		w.pipe.Burn()
		w.publish("S3")
		w.restart(w.pipe.RestartUnseen)
		w.publish("S4")
		w.pipe.Disconnect()
		w.pass(time.Second)
		require.NoError(w.t, w.f.Close())
		for _, text := range []string{"undecodable", "gap", "lost", "began anew", "disconnected", "trust changed", w.pipe.Addr()} {
			assert.Contains(t, out.String(), text)
		}
		assert.NotContains(t, out.String(), "canary")
	})
}
