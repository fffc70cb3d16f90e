package follow_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// storm does random things to a publisher and knows what was true when.
type storm struct {
	*world
	rng *rand.Rand
	// states[n] are the contents that some engine so far had when it had
	// published n messages.
	states map[uint64][]set
	ring   int
	// fresh: no message of this engine has been heard of live yet.
	fresh bool
	// complete: a replay can still give the whole history of this engine.
	complete bool
	ledger   *ledgerIndex // nil if the index keeps none
}

func (s *storm) note() {
	n := s.pipe.Next()
	s.states[n] = append(s.states[n], maps.Clone(s.truth))
}

func (s *storm) publishRandom() {
	h := s.rng.IntN(20)
	switch p := s.rng.IntN(100); {
	case p < 60:
		s.publishRank(-1, fmt.Sprintf("S%d,%d", h, h+1))
	case p < 98:
		s.publishRank(-1, fmt.Sprintf("R%d", h))
	default:
		s.publishRank(-1, "C")
		s.complete = s.ring == 0
	}
	s.fresh = false
	s.note()
}

func (s *storm) anew(how func()) {
	s.restart(how)
	s.complete, s.fresh = s.ring == 0, true
	s.note()
}

// step does one thing and returns its name.
func (s *storm) step() string {
	switch p := s.rng.IntN(100); {
	case p < 60:
		s.publishRandom()
		return "publish"
	case p < 68:
		for range s.rng.IntN(30) {
			s.publishRandom()
		}
		return "burst"
	case p < 75:
		if !s.fresh { // see TestRestarts for an unseen restart whose start is lost
			s.pipe.Lose(1 + s.rng.IntN(5))
		}
		return "lose"
	case p < 77 && !s.fresh:
		s.pipe.Burn()
		s.complete = false
		s.note()
		return "burn"
	case p < 82:
		s.pipe.Disconnect()
		return "disconnect"
	case p < 84:
		s.anew(s.pipe.Restart)
		return "restart"
	case p < 86:
		// See TestRestOfAnUnseenPredecessor for one whose predecessor's messages
		// are still on the way.
		if s.f.Stats().Next != s.pipe.Next() {
			return "nothing"
		}
		s.anew(s.pipe.RestartUnseen)
		return "restart unseen"
	case p < 88:
		s.pipe.Trim(1 + s.rng.IntN(4))
		s.complete = false
		return "trim"
	case p < 90:
		s.pipe.Mute(true)
		return "mute"
	case p < 93:
		s.pipe.Mute(false)
		return "unmute"
	case p < 94:
		s.f.Resync()
		return "resync"
	case p < 95:
		s.handOver()
		return "hand over"
	default:
		time.Sleep(time.Duration(s.rng.IntN(20_000)) * time.Millisecond)
		return "pass"
	}
}

// handOver has another Follower go on, perhaps with what was known a while ago.
func (s *storm) handOver() {
	if s.ledger == nil {
		require.NoError(s.t, s.f.Close())
		s.index.Clear(s.owners[0]) // nobody can tell how far it got
		s.start()
		return
	}
	blocks, positions := s.ledger.export()
	if s.rng.IntN(2) == 0 {
		for range s.rng.IntN(10) {
			s.publishRandom()
		}
		synctest.Wait()
	}
	require.NoError(s.t, s.f.Close())
	if s.rng.IntN(4) == 0 {
		s.anew(s.pipe.Restart)
	}
	s.ledger.restore(blocks, positions)
	s.start()
}

// check: whoever is Exact holds what an engine held at that number.
func (s *storm) check(step string) {
	s.t.Helper()
	synctest.Wait()
	blocks, trust := s.index.state(s.owners[0])
	if trust != kvcache.Exact {
		return
	}
	for _, state := range s.states[s.f.Stats().Next] {
		if maps.Equal(state, blocks) {
			return
		}
	}
	require.Failf(s.t, "exact, but no engine ever held this", "after %s at %d: %v", step, s.f.Stats().Next, blocks)
}

func TestStorm(t *testing.T) {
	t.Parallel()
	seeds := uint64(400)
	if testing.Short() {
		seeds = 40
	}
	exact := 0
	for seed := range seeds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				rng := rand.New(rand.NewPCG(seed, 1))
				s := &storm{world: w, rng: rng, states: map[uint64][]set{}, ring: []int{0, 3, 50}[seed%3]}
				s.complete = s.ring == 0
				w.open(follow.PipeOptions{ReplayBatches: s.ring})
				s.note()
				for range rng.IntN(10) {
					s.publishRandom()
				}
				if seed%2 == 1 {
					s.ledger = w.withLedger()
				}
				w.start()
				var last string
				for range 150 {
					last = s.step()
					s.check(last)
				}
				// The faults stop.
				s.pipe.Mute(false)
				s.pipe.Lose(0)
				s.pass(2 * time.Minute)
				s.publishRandom()
				s.pass(2 * time.Minute)
				s.check("the storm")
				blocks, trust := w.index.state(w.owners[0])
				if trust == kvcache.Exact {
					exact++
					assert.Equal(t, w.truth, blocks)
				} else {
					require.Equal(w.t, kvcache.Resyncing, trust)
					require.False(w.t, s.complete, "a complete history must make it exact: %s", w.f.Stats().Reason)
					assert.True(t, blocks.within(w.truth), "%v within %v: no overcount", blocks, w.truth)
				}
				// Whatever was lost, a clear settles it.
				s.publish("C", "S1")
				w.expectExact()
			})
		})
		if !ok {
			return
		}
	}
	assert.Positive(t, exact)
	assert.Less(t, exact, int(seeds), "the storm is no storm if nothing is ever lost")
}
