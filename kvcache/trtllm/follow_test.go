package trtllm

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// followed is an index that is kept in step with an engine.
type followed struct {
	t      *testing.T
	engine *engine
	index  *kvcache.Index
	owners []kvcache.Owner
	f      []*follow.Follower
}

func newFollowed(t *testing.T, e *engine, ranks int) *followed {
	t.Helper()
	x := &followed{t: t, engine: e, index: kvcache.NewIndex(kvcache.Options{})}
	tr := &Transport{Client: e.client()}
	for range ranks {
		x.owners = append(x.owners, x.index.Join("w"))
	}
	for rank := range ranks {
		f, err := follow.Start(t.Context(), follow.Config{
			Transport: tr, Decoder: &Decoder{TokensPerBlock: 4}, Index: x.index,
			Endpoint: follow.Endpoint{Events: address, Rank: rank},
			Owner: func(rank int) (kvcache.Owner, bool) {
				if rank >= ranks {
					return kvcache.Owner{}, false
				}
				return x.owners[rank], true
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		x.f = append(x.f, f)
	}
	return x
}

// settle lets a few polls pass.
func (x *followed) settle() { time.Sleep(3 * DefaultInterval) }

// hit returns how many blocks of a prompt made of the given ones are known.
func (x *followed) hit(rank int, blocks ...int) kvcache.Hit {
	var tokens []uint32
	for _, b := range blocks {
		for i := range 4 {
			tokens = append(tokens, uint32(10*b+i))
		}
	}
	keys := kvcache.Hasher{BlockSize: 4}.Keys(nil, tokens, kvcache.Scope{}, nil)
	hits := make([]kvcache.Hit, 1)
	x.index.Match(keys, x.owners[rank:rank+1], hits)
	return hits[0]
}

func (x *followed) is(trust kvcache.Trust, reason follow.Reason, hit int, blocks ...int) {
	x.t.Helper()
	x.settle()
	s := x.f[0].Stats()
	assert.Equal(x.t, trust.String(), s.Trust.String())
	assert.Equal(x.t, trust, x.index.Trust(x.owners[0]))
	assert.Equal(x.t, reason, s.Reason)
	assert.EqualValues(x.t, hit, x.hit(0, blocks...).Blocks)
}

func parent(b int) string { return fmt.Sprint(hashOf(b)) }

func TestFollowFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created)
		x := newFollowed(t, e, 1)
		x.is(kvcache.Exact, follow.ReasonNone, 0, 1, 2, 3)
		e.add(stored("null", 1, 2), stored(parent(2), 3))
		x.is(kvcache.Exact, follow.ReasonNone, 3, 1, 2, 3)
		e.add(removed(3))
		x.is(kvcache.Exact, follow.ReasonNone, 2, 1, 2, 3)
		// Checks without a replay address change nothing.
		time.Sleep(time.Minute)
		x.is(kvcache.Exact, follow.ReasonNone, 2, 1, 2, 3)
	})
}

func TestFollowLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, stored("null", 1))
		e.drop(2)
		x := newFollowed(t, e, 1)
		x.is(kvcache.Blind, follow.ReasonNoReplay, 0, 1)
		e.add(stored("null", 5), stored(parent(1), 2))
		x.is(kvcache.Resyncing, follow.ReasonNoReplay, 1, 5)
		assert.Zero(t, x.hit(0, 1, 2).Blocks, "what is known is a lower bound")
		// A restart makes it whole.
		e.restart()
		e.add(created)
		x.is(kvcache.Exact, follow.ReasonNone, 0, 5)
		assert.EqualValues(t, 1, x.f[0].Stats().Restarts)
	})
}

func TestFollowGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, stored("null", 1))
		x := newFollowed(t, e, 1)
		x.is(kvcache.Exact, follow.ReasonNone, 1, 1)
		// The buffer overflowed, or another consumer was faster.
		e.miss(2, removed(1), stored("null", 2), stored("null", 3))
		x.is(kvcache.Resyncing, follow.ReasonLost, 0, 1)
		assert.EqualValues(t, 1, x.hit(0, 3).Blocks)
		s := x.f[0].Stats()
		assert.EqualValues(t, 1, s.Gaps)
		assert.EqualValues(t, 2, s.Missing)
		assert.EqualValues(t, 1, s.Lost)
	})
}

// A restarted engine that repeats its predecessor's events byte for byte.
func TestFollowRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, stored("null", 1), stored("null", 2), stored("null", 3))
		x := newFollowed(t, e, 1)
		x.is(kvcache.Exact, follow.ReasonNone, 1, 3)
		e.restart()
		e.add(created, stored("null", 1))
		x.is(kvcache.Exact, follow.ReasonNone, 1, 1)
		assert.Zero(t, x.hit(0, 2).Blocks+x.hit(0, 3).Blocks, "of the process before")
		s := x.f[0].Stats()
		assert.EqualValues(t, 1, s.Restarts)
		assert.Zero(t, s.Duplicates)

		// One that says no more than the last one's last.
		e.restart()
		e.add(created)
		x.is(kvcache.Exact, follow.ReasonNone, 0, 1)
		e.restart()
		e.add(created)
		x.is(kvcache.Exact, follow.ReasonNone, 0, 1)
		assert.EqualValues(t, 3, x.f[0].Stats().Restarts)

		// One whose first events were lost.
		e.add(stored("null", 1), stored("null", 2))
		x.is(kvcache.Exact, follow.ReasonNone, 1, 2)
		e.restart()
		e.miss(1, created, stored("null", 3))
		x.is(kvcache.Resyncing, follow.ReasonNoReplay, 0, 2)
		assert.EqualValues(t, 1, x.hit(0, 3).Blocks)
	})
}

func TestFollowUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, stored("null", 1))
		x := newFollowed(t, e, 1)
		x.is(kvcache.Exact, follow.ReasonNone, 1, 1)
		e.set(func() fault { return fault{refuse: true} })
		time.Sleep(DefaultPatience + time.Second)
		x.is(kvcache.Resyncing, follow.ReasonDisconnected, 1, 1)
		time.Sleep(2 * follow.DefaultStaleAfter)
		assert.Equal(t, kvcache.Blind, x.index.Trust(x.owners[0]))
		assert.Zero(t, x.hit(0, 1).Blocks)
		e.set(nil)
		e.restart()
		e.add(created, stored("null", 4))
		time.Sleep(2 * follow.DefaultRetryMax)
		x.is(kvcache.Exact, follow.ReasonNone, 1, 4)
	})
}

func TestFollowRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		for rank := range 3 {
			e.addTo(rank, created, stored("null", 7))
		}
		e.addTo(1, removed(7))
		e.addTo(2, stored("null", 8))
		x := newFollowed(t, e, 3)
		x.is(kvcache.Exact, follow.ReasonNone, 1, 7)
		assert.Zero(t, x.hit(1, 7).Blocks)
		assert.EqualValues(t, 1, x.hit(2, 8).Blocks)
		assert.Zero(t, x.hit(0, 8).Blocks)
		for _, f := range x.f {
			assert.Equal(t, kvcache.Exact, f.Stats().Trust)
		}
		e.restart()
		for rank := range 3 {
			e.addTo(rank, created)
		}
		x.is(kvcache.Exact, follow.ReasonNone, 0, 7)
		assert.Zero(t, x.hit(2, 8).Blocks)
	})
}

func TestFollowTiers(t *testing.T) {
	eachManager(t, func(t *testing.T, v2 bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.v2 = v2
			e.add(created, stored("null", 1, 2))
			move := func(block, from, to int) string {
				return fmt.Sprintf(`{"type":"updated","block_hash":%d,"cache_level":{"type":"event_diff","new_value":%d,"old_value":%d},"priority":null}`,
					hashOf(block), to, from)
			}
			x := newFollowed(t, e, 1)
			e.add(move(1, 0, 1), move(2, 0, 1))
			x.is(kvcache.Exact, follow.ReasonNone, 2, 1, 2)
			assert.EqualValues(t, 2, x.hit(0, 1, 2).Tiers[kvcache.TierCPU])
			e.add(move(1, 1, 0))
			x.is(kvcache.Exact, follow.ReasonNone, 2, 1, 2)
			assert.EqualValues(t, 1, x.hit(0, 1, 2).Tiers[kvcache.TierGPU])
			// A removal names no tier, and leaves nothing in any.
			e.add(removed(2, 1))
			x.is(kvcache.Exact, follow.ReasonNone, 0, 1, 2)
			e.add(stored("null", 1))
			x.is(kvcache.Exact, follow.ReasonNone, 1, 1)
		})
	})
}

// Pools in any order: the greatest window counts, whichever comes first.
func TestFollowWindows(t *testing.T) {
	eachManager(t, func(t *testing.T, v2 bool) {
		t.Helper()
		in := func(window int, data string) string { return data + fmt.Sprintf(`,"window_size":%d`, window) }
		put := func(e *engine, id int, text string) {
			e.put(fmt.Sprintf(`{"event_id":%d,"data":%s}`, id, text))
		}
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.v2 = v2
			put(e, 0, in(16, created))
			put(e, 1, in(64, created))
			put(e, 2, in(16, stored("null", 1)))
			put(e, 3, in(64, stored("null", 2)))
			x := newFollowed(t, e, 1)
			// What it needs of the small pool is not known: all of it, at worst.
			const unsure = follow.Reason("attention of unknown kind")
			x.is(kvcache.Approximate, unsure, 0, 2)
			assert.Zero(t, x.hit(0, 1).Blocks)
			// The same blocks in both pools; they leave the small one first.
			put(e, 4, in(64, stored("null", 1)))
			x.is(kvcache.Approximate, unsure, 1, 1)
			put(e, 5, in(16, removed(1)))
			put(e, 6, in(16, stored("null", 2)))
			x.is(kvcache.Approximate, unsure, 0, 1)
			x.is(kvcache.Approximate, unsure, 1, 2)
			put(e, 7, in(16, removed(2)))
			x.is(kvcache.Approximate, unsure, 0, 2)

			// A successor with one pool of a smaller window is not held against it.
			put(e, 0, in(32, created))
			put(e, 1, in(32, stored("null", 5)))
			x.is(kvcache.Exact, follow.ReasonNone, 1, 5)
		})
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.v2 = v2
			put(e, 90, in(16, stored("null", 1)))
			put(e, 91, in(64, stored("null", 2)))
			put(e, 92, in(16, stored("null", 3)))
			put(e, 93, in(16, stored("null", 2)))
			x := newFollowed(t, e, 1)
			x.is(kvcache.Resyncing, follow.ReasonMalformed, 1, 2)
			assert.Zero(t, x.hit(0, 1).Blocks+x.hit(0, 3).Blocks)
		})
	})
}

// What can't be read lowers trust; what is new is passed over.
func TestFollowOddEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, `{"type":"news"}`, stored("null", 1))
		x := newFollowed(t, e, 1)
		x.is(kvcache.Exact, follow.ReasonNone, 1, 1)
		e.add(strings.Replace(stored("null", 2), `"block_hash":`, `"block_hash":1.5,"x":`, 1))
		x.is(kvcache.Resyncing, follow.ReasonMalformed, 1, 1)
	})
}

// A block that isn't full, salts and adapters.
func TestFollowIdentities(t *testing.T) {
	eachManager(t, func(t *testing.T, v2 bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.v2 = v2
			with := func(block int, more string) string {
				return strings.Replace(stored("null", block), `"cache_level"`, more+`,"cache_level"`, 1)
			}
			partial := strings.Replace(stored(parent(1), 9), `{"type":"unique_token","token_id":93,"token_extra_id":0}`, "", 1)
			partial = strings.Replace(partial, `},]`, `}]`, 1)
			e.add(created, stored("null", 1), partial,
				with(2, `"cache_salt":"s"`), with(3, `"lora_id":4`), with(4, `"mm_keys":[{"hash":"aa","start_offset":0}]`))
			x := newFollowed(t, e, 1)
			x.is(kvcache.Exact, follow.ReasonNone, 1, 1, 9)
			for _, b := range []int{2, 3, 4} {
				assert.Zero(t, x.hit(0, b).Blocks, "block %d is not the plain prompt's", b)
			}
			keys := kvcache.Hasher{BlockSize: 4}.Keys(nil, []uint32{20, 21, 22, 23}, kvcache.Scope{Salt: "s"}, nil)
			hits := make([]kvcache.Hit, 1)
			x.index.Match(keys, x.owners, hits)
			assert.EqualValues(t, 1, hits[0].Blocks)
			items := []kvcache.Item{{ID: "aa", Offset: 0, Length: 4}}
			keys = kvcache.Hasher{BlockSize: 4}.Keys(nil, []uint32{40, 41, 42, 43}, kvcache.Scope{}, items)
			x.index.Match(keys, x.owners, hits)
			assert.EqualValues(t, 1, hits[0].Blocks)
		})
	})
}
