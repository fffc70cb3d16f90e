package replica_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica"
)

var (
	epoch0 = time.Unix(1_700_000_000, 0)
	placeA = replica.Place{Instance: "a@1"}
)

func message(epoch, seq uint64, full bool, loads ...replica.Load) *replica.Message {
	return &replica.Message{Version: replica.Version, Router: "r", Epoch: epoch, Seq: seq, Full: full, Loads: loads}
}

func decodes(instance string, n int) replica.Load {
	return replica.Load{Instance: instance, DecodeRequests: n}
}

func take(t *testing.T, tab *replica.Table, m *replica.Message) []replica.Place {
	t.Helper()
	changed, err := tab.Take(m, epoch0)
	require.NoError(t, err)
	return changed
}

func TestAmountsAreAbsoluteAndSummed(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{Epoch: 9})
	first := replica.Load{
		Instance: "a@1", PrefillRequests: 2, PrefillTokens: 300, PrefillPairs: 4000, PrefillFor: 2 * time.Second,
		DecodeRequests: 1, OutputTokens: 10, ContextTokens: 500,
	}
	assert.Equal(t, []replica.Place{placeA}, take(t, tab, message(1, 1, false, first)))
	later := first
	later.PrefillFor = time.Second
	take(t, tab, message(2, 1, false, later))
	assert.Equal(t, replica.Share{
		PrefillRequests: 4, PrefillTokens: 600, PrefillPairs: 8000, PrefillSince: epoch0.Add(-2 * time.Second),
		DecodeRequests: 2, OutputTokens: 20, ContextTokens: 1000,
	}, tab.Share(placeA), "the oldest of both began two seconds ago")

	take(t, tab, message(1, 2, false, decodes("a@1", 1)))
	take(t, tab, message(2, 2, false, decodes("a@1", 0)))
	assert.Equal(t, replica.Share{DecodeRequests: 1}, tab.Share(placeA))
	assert.Zero(t, tab.Share(replica.Place{Instance: "a@1", Rank: 1}), "another rank")
	assert.Zero(t, tab.Share(replica.Place{Instance: "a@2"}), "another instance")
}

func TestAFullMessageSaysWhatIsNotThere(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{})
	take(t, tab, message(1, 1, false, decodes("a@1", 3), decodes("b@1", 4)))
	changed := take(t, tab, message(1, 2, true, decodes("b@1", 5)))
	assert.ElementsMatch(t, []replica.Place{placeA, {Instance: "b@1"}}, changed)
	assert.Zero(t, tab.Share(placeA))
	assert.Equal(t, 5, tab.Share(replica.Place{Instance: "b@1"}).DecodeRequests)
}

func TestLateMessagesChangeNothing(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{})
	take(t, tab, message(1, 1, true))
	take(t, tab, message(1, 3, false, decodes("a@1", 0)))
	take(t, tab, message(1, 2, false, decodes("a@1", 7), decodes("b@1", 1)))
	assert.Zero(t, tab.Share(placeA), "what is newer had been there")
	assert.Equal(t, 1, tab.Share(replica.Place{Instance: "b@1"}).DecodeRequests, "of this it is the newest")
	take(t, tab, message(1, 6, true, decodes("a@1", 2)))
	_, err := tab.Take(message(1, 5, true, decodes("a@1", 9)), epoch0)
	require.ErrorIs(t, err, replica.ErrLate)
	_, err = tab.Take(message(1, 6, true, decodes("a@1", 9)), epoch0)
	require.ErrorIs(t, err, replica.ErrLate, "the same once more")
	assert.Equal(t, 2, tab.Share(placeA).DecodeRequests)
	c := tab.Counts()
	assert.Equal(t, uint64(3), c.Late)
}

func TestWhatGoesAway(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{Expiry: 4 * time.Second})
	take(t, tab, message(1, 1, true, decodes("a@1", 3)))
	take(t, tab, message(2, 1, true, decodes("a@1", 4)))
	_, err := tab.Take(message(2, 2, true, decodes("a@1", 4)), epoch0.Add(3*time.Second))
	require.NoError(t, err)
	assert.Empty(t, tab.Expire(epoch0.Add(4*time.Second-1)))
	assert.Equal(t, []replica.Place{placeA}, tab.Expire(epoch0.Add(4*time.Second)), "the one without a word")
	assert.Equal(t, 4, tab.Share(placeA).DecodeRequests)
	assert.Equal(t, uint64(1), tab.Counts().Expired)

	bye := message(2, 3, false)
	bye.Bye = true
	assert.Equal(t, []replica.Place{placeA}, take(t, tab, bye))
	assert.Zero(t, tab.Share(placeA))
	_, err = tab.Take(message(2, 2, true, decodes("a@1", 4)), epoch0.Add(time.Second))
	require.ErrorIs(t, err, replica.ErrLate, "what was under way when it said good-bye")
	assert.Zero(t, tab.Len())

	// One that was only cut off is there again.
	_, err = tab.Take(message(1, 9, true, decodes("a@1", 1)), epoch0.Add(time.Minute))
	require.NoError(t, err)
	assert.Equal(t, 1, tab.Share(placeA).DecodeRequests)
}

func TestWhatATableRefuses(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{Epoch: 9, MaxPeers: 2})
	_, err := tab.Take(message(9, 1, true, decodes("a@1", 1)), epoch0)
	require.ErrorIs(t, err, replica.ErrOwn)
	foreign := message(1, 1, true, decodes("a@1", 1))
	foreign.Version++
	_, err = tab.Take(foreign, epoch0)
	require.ErrorIs(t, err, replica.ErrVersion)
	_, err = tab.Take(message(1, 1, true, decodes("a@1", -1)), epoch0)
	require.ErrorIs(t, err, replica.ErrBounds)
	take(t, tab, message(1, 1, true))
	take(t, tab, message(2, 1, true))
	_, err = tab.Take(message(3, 1, true, decodes("a@1", 1)), epoch0)
	require.ErrorIs(t, err, replica.ErrPeers)
	assert.Zero(t, tab.Share(placeA))
	assert.Equal(t, replica.Counts{Received: 2, Own: 1, Foreign: 1, Refused: 2}, tab.Counts())
}

// A peer that names ever new workers and never says what is left of them does not fill
// the memory.
func TestATableIsBounded(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{})
	refused := false
	for seq := uint64(1); seq < 40; seq++ {
		var loads []replica.Load
		for i := range 1000 {
			loads = append(loads, replica.Load{Instance: "w" + string(rune('a'+seq)), Rank: i % 1000, DecodeRequests: 1})
		}
		if _, err := tab.Take(message(1, seq, false, loads...), epoch0); err != nil {
			require.ErrorIs(t, err, replica.ErrBounds)
			refused = true
			break
		}
	}
	assert.True(t, refused)
	assert.Zero(t, tab.Len())
}

func TestSumsStopAtTheGreatest(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{})
	most := replica.Load{Instance: "a@1", PrefillRequests: replica.MaxAmount, PrefillTokens: replica.MaxAmount, PrefillPairs: replica.MaxPairs}
	for epoch := uint64(1); epoch < 20; epoch++ {
		take(t, tab, message(epoch, 1, true, most))
	}
	s := tab.Share(placeA)
	assert.Equal(t, replica.MaxAmount, s.PrefillTokens)
	assert.Equal(t, replica.MaxPairs, s.PrefillPairs)
}

func TestLostIsCounted(t *testing.T) {
	tab := replica.NewTable(replica.TableOptions{})
	take(t, tab, message(1, 5, true)) // it was there before us
	take(t, tab, message(1, 6, false, decodes("a@1", 1)))
	take(t, tab, message(1, 9, false, decodes("a@1", 1)))
	assert.Equal(t, uint64(2), tab.Counts().Lost)
	take(t, tab, message(1, 8, false, decodes("b@1", 1)))
	take(t, tab, message(1, 8, false, decodes("b@1", 1)))
	c := tab.Counts()
	assert.Equal(t, [2]uint64{2, 2}, [2]uint64{c.Lost, c.Late}, "counters never fall: one was only late, and came twice")
}

// Whatever the way does to messages, after the next full one the table says what the
// peers have.
func TestTheNextFullMessageMendsEverything(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tab := replica.NewTable(replica.TableOptions{})
		names := []string{"a@1", "b@1", "c@1"}
		truth := map[uint64]map[string]int{1: {}, 2: {}}
		seqs := map[uint64]uint64{}
		var way []*replica.Message
		for range 200 {
			epoch := uint64(1 + rng.IntN(2))
			seqs[epoch]++
			m := message(epoch, seqs[epoch], rng.IntN(10) == 0)
			name := names[rng.IntN(3)]
			truth[epoch][name] = rng.IntN(4)
			m.Loads = []replica.Load{decodes(name, truth[epoch][name])}
			if m.Full {
				m.Loads = nil
				for name, n := range truth[epoch] {
					if n > 0 {
						m.Loads = append(m.Loads, decodes(name, n))
					}
				}
			}
			switch rng.IntN(6) {
			case 0: // lost
			case 1:
				way = append(way, m, m)
			default:
				way = append(way, m)
			}
			for len(way) > 5 {
				i := rng.IntN(len(way)) // in any order
				_, _ = tab.Take(way[i], epoch0)
				way = append(way[:i], way[i+1:]...)
			}
		}
		for epoch, has := range truth {
			seqs[epoch]++
			m := message(epoch, seqs[epoch], true)
			for name, n := range has {
				if n > 0 {
					m.Loads = append(m.Loads, decodes(name, n))
				}
			}
			way = append([]*replica.Message{m}, way...) // before what is still under way
		}
		for _, m := range way {
			_, _ = tab.Take(m, epoch0)
		}
		for _, name := range names {
			require.Equal(t, truth[1][name]+truth[2][name], tab.Share(replica.Place{Instance: name}).DecodeRequests, "seed %d, %s", seed, name)
		}
	}
}
