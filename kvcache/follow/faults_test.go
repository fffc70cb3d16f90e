package follow_test

import (
	"bytes"
	"context"
	"log/slog"
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
