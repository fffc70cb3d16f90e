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

func TestFromTheStart(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.expectExact("an engine that has said nothing holds nothing")
		w.publish("S1,2", "S3", "R1")
		w.expectExact()
		w.expectBlocks(2, 3)
		w.publish("C", "S9")
		w.expectExact()
		assert.Equal(t, []string{"exact"}, w.trusts())
		s := w.f.Stats()
		assert.Equal(t, uint64(5), s.Messages)
		assert.Equal(t, uint64(5), s.Events)
		assert.Equal(t, uint64(5), s.Next)
	})
}

// First seq 57 -> replay from 0 before trusting.
func TestLateJoinReplaysEverything(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for range 57 {
			w.publish("S1", "R1", "S2")
		}
		tr := &tap{Transport: w.hub}
		w.cfg.Transport = tr
		w.start()
		w.expectExact()
		assert.Equal(t, []uint64{0}, tr.replays())
		w.publish("S3")
		w.expectExact()
	})
}

func TestLateJoinOfAWrappedHistory(t *testing.T) {
	t.Parallel()
	late := func(w *world) {
		w.open(follow.PipeOptions{ReplayBatches: 3})
		w.publish("S1", "S2", "S3", "S4", "S5")
		w.start()
		w.expectLess(follow.ReasonWrapped)
		w.expectBlocks(3, 4, 5)
		assert.Equal(t, uint64(1), w.f.Stats().Wraps)
		w.publish("S6")
		w.expectLess(follow.ReasonWrapped)
		w.pass(time.Hour)
		w.expectLess(follow.ReasonWrapped)
		w.expectBlocks(3, 4, 5, 6)
	}
	for name, heal := range map[string]func(w *world){
		"a clear":                  func(w *world) { w.publish("C", "S7") },
		"a restart":                func(w *world) { w.restart(w.pipe.Restart); w.publish("S7"); w.pass(time.Minute) },
		"a restart nobody noted":   func(w *world) { w.restart(w.pipe.RestartUnseen); w.publish("S7") },
		"the caller's word for it": func(w *world) { w.truth = setOf(3, 4, 5, 6); w.f.Promote(); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				late(w)
				heal(w)
				w.expectExact()
			})
		})
	}
}

func TestWithoutReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Endpoint.Replay = ""
		w.publish("S1")
		w.start()
		assert.Equal(t, kvcache.Blind, w.trust())
		assert.Equal(t, follow.ReasonNoReplay, w.f.Stats().Reason)
		w.publish("S2")
		w.expectLess(follow.ReasonNoReplay)
		w.publish("C", "S3")
		w.expectExact()

		w.pipe.Lose(1)
		w.publish("R3", "S4")
		w.expectLess(follow.ReasonLost)
		w.expectBlocks(4)

		w.restart(w.pipe.RestartUnseen)
		w.publish("S5")
		w.expectExact("number 0 is the start of a history")
		w.publish("S6")

		// Numbers that fall, but not to 0: the start was missed.
		w.restart(w.pipe.RestartUnseen)
		w.pipe.Burn()
		w.publish("S7")
		w.expectLess(follow.ReasonNoReplay)
		w.expectBlocks(7)

		// After a reconnection nothing proves that none was missed, even though
		// the next number fits.
		w.publish("C")
		w.expectExact()
		w.pipe.Disconnect()
		w.pass(time.Second)
		w.expectLess(follow.ReasonDisconnected)
		w.publish("S8")
		w.expectLess(follow.ReasonNoReplay)
		w.expectBlocks(8)
	})
}

// seq 0,1,4 -> gap of 2 counted, replay, not Exact until filled.
func TestGapIsFilled(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		tr := &tap{Transport: w.hub}
		w.cfg.Transport = tr
		w.start()
		w.publish("S0", "S1")
		during := kvcache.Blind
		tr.before = func(m follow.Message) {
			if m.Seq == 3 {
				during = w.trust()
			}
		}
		w.pipe.Lose(2)
		w.publish("R0", "S3", "S4")
		w.expectExact()
		w.expectBlocks(1, 3, 4)
		s := w.f.Stats()
		assert.Equal(t, uint64(1), s.Gaps)
		assert.Equal(t, uint64(2), s.Missing)
		assert.Zero(t, s.Lost)
		assert.Equal(t, []uint64{0, 0}, tr.replays(), "from what is known, which is the proof")
		assert.Equal(t, kvcache.Resyncing, during)
		assert.Equal(t, []string{"exact", "resyncing gap", "exact"}, w.trusts())
	})
}

func TestGapThatCannotBeFilled(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1", "S2")
		w.pipe.Burn()
		w.publish("S3")
		w.expectLess(follow.ReasonLost)
		w.expectBlocks(3)
		assert.Equal(t, uint64(1), w.f.Stats().Lost)
		w.publish("S4")
		w.pass(time.Minute)
		w.expectLess(follow.ReasonLost)
		w.expectBlocks(3, 4)
		w.publish("C", "S5")
		w.expectExact()
		w.pass(time.Minute)
		w.expectExact("the hole lies before the clear")
	})
}

// A gap within a replay is a gap all the same.
func TestHoleInHistory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.publish("S1")
		w.pipe.Burn()
		w.publish("S2")
		w.start()
		w.expectLess(follow.ReasonLost)
		w.expectBlocks(2)
	})
}

// A gap longer than the publisher remembers.
func TestGapBeyondTheBuffer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.open(follow.PipeOptions{ReplayBatches: 3})
		w.start()
		w.publish("S1")
		w.expectExact()
		w.pipe.Lose(5)
		w.publish("R1", "S2", "S3", "S4", "S5", "S6")
		w.expectLess(follow.ReasonWrapped)
		w.expectBlocks(4, 5, 6)
		assert.Equal(t, uint64(1), w.f.Stats().Wraps)
		assert.Zero(t, w.f.Stats().Restarts)
	})
}

// The last messages are lost and none comes after them.
// slow is a Follower's decoder on a busy machine.
type slow struct {
	textDecoder

	takes time.Duration
}

func (s slow) Decode(payload []byte) (*kvcache.Batch, error) {
	time.Sleep(s.takes) // the bubble's clock
	return s.textDecoder.Decode(payload)
}

// What a Follower takes to apply messages is no silence of the publisher's.
func TestReplayWaitsForTheFollower(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.open(follow.PipeOptions{})
		w.cfg.Decoder = slow{takes: 2 * follow.DefaultReplayTimeout}
		for range 40 { // far more than a replay that never stands still may take
			w.publish("S1")
		}
		w.start()
		w.pass(10 * time.Minute)
		w.expectExact()
		require.Zero(t, w.f.Stats().Unanswered)
	})
}

// A Follower that lags behind more messages than the publisher remembers loses
// nothing as long as they wait in the transport.
func TestLagBehindAShortMemory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.open(follow.PipeOptions{ReplayBatches: 3})
		w.cfg.Decoder = slow{takes: time.Second}
		w.start()
		w.publish("S1")
		w.pass(10 * time.Second)
		w.expectExact()
		clears := w.index.clears
		for range 30 {
			w.publishRank(-1, "S2,3 R3")
		}
		w.pass(15 * time.Second)
		require.Less(t, w.f.Stats().Next, uint64(27), "it lags")
		assert.Equal(t, kvcache.Resyncing, w.trust(), "nobody vouches for it now")
		w.expectBlocks(1, 2)
		w.pass(time.Minute)
		w.expectExact()
		assert.Equal(t, clears, w.index.clears)
		assert.Zero(t, w.f.Stats().Wraps+w.f.Stats().Restarts)

		// Where nothing waits the messages are lost.
		w.pipe.Lose(5)
		for range 5 {
			w.publishRank(-1, "R1")
		}
		w.pass(time.Minute)
		w.expectLess(follow.ReasonWrapped)
		assert.Equal(t, uint64(1), w.f.Stats().Wraps)
		w.expectBlocks()
	})
}

func TestLostTailIsFound(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1")
		w.pipe.Lose(2)
		w.publish("R1", "S2")
		w.expectBlocks(1)
		w.pass(follow.DefaultCheckEvery)
		w.expectExact()
		w.expectBlocks(2)
	})
}

func TestRestarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restart func(w *world)
		after   []string
		lose    int
	}{
		"seen, silent since":        {func(w *world) { w.pipe.Restart() }, nil, 0},
		"seen, fewer messages":      {func(w *world) { w.pipe.Restart() }, []string{"S7"}, 0},
		"seen, as many messages":    {func(w *world) { w.pipe.Restart() }, []string{"S7", "S8", "R7"}, 0},
		"seen, more messages":       {func(w *world) { w.pipe.Restart() }, []string{"S7", "S8", "S9", "R9", "S5"}, 0},
		"unseen":                    {func(w *world) { w.pipe.RestartUnseen() }, []string{"S7"}, 0},
		"unseen, the first lost":    {func(w *world) { w.pipe.RestartUnseen() }, []string{"S7", "S8"}, 1},
		"unseen, overtaken exactly": {func(w *world) { w.pipe.RestartUnseen() }, []string{"S7", "S8", "S9", "S5"}, 3},
		"unseen, overtaken far":     {func(w *world) { w.pipe.RestartUnseen() }, []string{"S7", "S8", "S9", "S5", "S6"}, 4},
		"unseen, all lost":          {func(w *world) { w.pipe.RestartUnseen() }, []string{"S7", "S8"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.start()
				w.publish("S1", "S2", "S3")
				w.expectExact()
				w.restart(func() { c.restart(w) })
				w.pipe.Lose(c.lose)
				w.publish(c.after...)
				w.pass(2 * follow.DefaultCheckEvery)
				w.expectExact()
				assert.Equal(t, uint64(1), w.f.Stats().Restarts)
				w.publish("S10", "R7")
				w.expectExact()
			})
		})
	}
}

// A restart behind a relay with nothing said since can't be told from a publisher
// that remembers nothing: what is known goes, and the next message settles it.
func TestEmptyReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.publish("S1", "S2")
		w.restart(w.pipe.RestartUnseen)
		w.pass(2 * follow.DefaultCheckEvery)
		w.expectLess(follow.ReasonUnanswered)
		w.expectBlocks()
		w.publish("S3")
		w.expectExact()
		w.pass(2 * follow.DefaultCheckEvery)
		w.publish("S4")
		w.expectExact()
		w.pipe.Lose(1)
		w.publish("S5", "S6")
		w.expectExact("the new publisher does remember")
	})
	inWorld(t, func(w *world) {
		w.open(follow.PipeOptions{ReplayBatches: -1})
		w.start()
		w.publish("S1", "S2")
		w.pass(2 * follow.DefaultCheckEvery)
		w.publish("S3")
		w.pass(time.Hour)
		w.publish("S4")
		w.expectLess(follow.ReasonUnanswered)
		w.expectBlocks(3, 4)
		w.restart(w.pipe.RestartUnseen)
		w.publish("S5")
		w.expectExact("number 0 is the start of a history")
	})
}

// Live Removed(A) arrives while a replay that contains an older Stored(A) runs.
func TestRemovalDuringReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.publish("S1", "S2", "S3")
		tr := &tap{Transport: w.hub}
		w.cfg.Transport = tr
		tr.before = func(m follow.Message) {
			if m.Seq == 1 {
				w.publishRank(-1, "R2")
				w.publishRank(-1, "R3")
			}
		}
		w.start()
		w.expectExact()
		w.expectBlocks(1)
	})
}

// What a replay covered comes live as well: it counts once.
func TestOverlapOfReplayAndLive(t *testing.T) {
	t.Parallel()
	// The longer overlap is more than a Follower remembers one by one.
	for _, n := range []int{4, 3000} {
		inWorld(t, func(w *world) {
			tr := &tap{Transport: w.hub}
			w.cfg.Transport = tr
			w.publish("S1", "S2")
			tr.asked = func() {
				tr.asked = nil
				for i := range n {
					w.publishRank(-1, []string{"S3 R1", "R3 S1"}[i%2])
				}
			}
			w.start()
			w.expectExact()
			w.expectBlocks(1, 2)
			s := w.f.Stats()
			assert.Equal(t, uint64(n), s.Messages)
			assert.Equal(t, uint64(n), s.Duplicates)
			assert.Equal(t, uint64(2+2*n), s.Events)
			assert.Zero(t, s.Restarts+s.Gaps)
			assert.LessOrEqual(t, s.Replays, uint64(2))
			w.publish("S4")
			w.expectExact()
		})
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	good := follow.Config{
		Transport: hub, Endpoint: follow.Endpoint{Events: "inproc://x"}, Index: kvcache.NewIndex(kvcache.Options{}),
		Owner: func(int) (kvcache.Owner, bool) { return kvcache.Owner{}, false },
	}
	for name, spoil := range map[string]func(*follow.Config){
		"Transport": func(c *follow.Config) { c.Transport = nil },
		"Events":    func(c *follow.Config) { c.Endpoint.Events = "" },
		"Index":     func(c *follow.Config) { c.Index = nil },
		"Owner":     func(c *follow.Config) { c.Owner = nil },
	} {
		cfg := good
		spoil(&cfg)
		_, err := follow.Start(context.Background(), cfg)
		require.ErrorIs(t, err, follow.ErrConfig)
		require.ErrorContains(t, err, name)
	}
	bad := good
	bad.Endpoint.Events = "tcp://127.0.0.1:1"
	_, err := follow.Start(context.Background(), bad)
	require.ErrorIs(t, err, follow.ErrAddress)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = follow.Start(ended, good)
	require.ErrorIs(t, err, context.Canceled)
	f, err := follow.Start(context.Background(), good)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
