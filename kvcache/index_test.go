package kvcache_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

// Long runs of the comparison with the model:
//
//	go test ./kvcache -run TestIndexAgainstModel -kvcache.ops 10000000 -timeout 0
var (
	modelOps  = flag.Int("kvcache.ops", 200_000, "random operations to compare with the model")
	modelSeed = flag.Uint64("kvcache.seed", 1, "seed of the random operations")
)

// ops is fewer under the race detector, which finds nothing in a comparison that
// runs on one goroutine.
func ops() int {
	if raceEnabled {
		return *modelOps / 10
	}
	return *modelOps
}

func newIndex(o kvcache.Options) kvcachetest.IndexLike { return kvcache.NewIndex(o) }

// checked is an index that looks itself over now and then.
type checked struct {
	*kvcache.Index
	t *testing.T
	n int
}

// checkEvery is the number of events between two looks.
const checkEvery = 997

func (c *checked) Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	out := c.Index.Apply(o, e)
	if c.n++; c.n%checkEvery == 0 {
		c.Shuffle(c.n)
		require.NoError(c.t, c.Check())
	}
	return out
}

func TestIndexSuite(t *testing.T) {
	t.Parallel()
	kvcachetest.TestIndex(t, newIndex)
}

// Half of the operations on short prompts with much branching, the other half on
// prompts that are longer than anything the index stores in one piece.
func TestIndexAgainstModel(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]kvcachetest.RandomIndex{
		"wide": {Seed: *modelSeed, Ops: ops() * 9 / 10},
		"deep": {Seed: *modelSeed, Ops: ops() / 10, Deep: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, kvcachetest.CompareIndex(func(o kvcache.Options) kvcachetest.IndexLike {
				return &checked{Index: kvcache.NewIndex(o), t: t}
			}, r))
		})
	}
}

// starved is an index that is refused memory now and then, as if its budget had
// been used up that moment.
type starved struct {
	*kvcache.Index
	t *testing.T
	r *rand.Rand
	n int
}

func (s *starved) Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	var out kvcache.Outcome
	if s.r.IntN(50) == 0 {
		out = s.ApplyStarved(o, e)
	} else {
		out = s.Index.Apply(o, e)
	}
	if s.n++; s.n%checkEvery == 0 {
		require.NoError(s.t, s.Check())
	}
	return out
}

func (s *starved) Book(o kvcache.Owner, keys []kvcache.Key, ttl time.Duration) {
	if s.r.IntN(20) == 0 {
		s.BookStarved(o, keys, ttl)
	} else {
		s.Index.Book(o, keys, ttl)
	}
	if s.n++; s.n%checkEvery == 0 {
		require.NoError(s.t, s.Check())
	}
}

// Whatever allocation fails, the index stays whole and claims nothing false.
func TestIndexWithoutMemory(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]kvcachetest.RandomIndex{
		"wide": {Seed: *modelSeed, Ops: ops() / 4, Forgets: true},
		"deep": {Seed: *modelSeed, Ops: ops() / 20, Forgets: true, Deep: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var x *starved
			require.NoError(t, kvcachetest.CompareIndex(func(o kvcache.Options) kvcachetest.IndexLike {
				x = &starved{Index: kvcache.NewIndex(o), t: t, r: rand.New(rand.NewPCG(r.Seed, 1))}
				return x
			}, r))
			assert.Positive(t, x.Stats().Evicted)
			assert.Positive(t, x.Stats().Ignored[kvcache.ReasonBudget])
		})
	}
}

// FuzzIndex looks for a seed that sets the index and the model apart.
func FuzzIndex(f *testing.F) {
	f.Add(uint64(1), 40)
	f.Add(uint64(2), 1200)
	f.Fuzz(func(t *testing.T, seed uint64, deep int) {
		r := kvcachetest.RandomIndex{Seed: seed, Ops: 2000, Deep: 8 + int(uint(deep)%2000)}
		require.NoError(t, kvcachetest.CompareIndex(func(o kvcache.Options) kvcachetest.IndexLike {
			return &checked{Index: kvcache.NewIndex(o), t: t}
		}, r))
	})
}
