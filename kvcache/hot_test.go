package kvcache_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// chain is the keys of n blocks that start as seed says; those from own blocks on differ
// with tail.
func chain(seed, tail uint32, own, n int) []kvcache.Key {
	h := kvcache.Hasher{BlockSize: 1}
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = seed
		if i >= own {
			tokens[i] = tail
		}
	}
	return h.Keys(nil, tokens, kvcache.Scope{}, nil)
}

// warmed is an index of which an owner holds keys.
type warmed struct {
	*kvcache.Index
	a, b kvcache.Owner
	now  time.Time
}

func newWarmed() *warmed {
	w := &warmed{now: time.Unix(1000, 0)}
	w.Index = kvcache.NewIndex(kvcache.Options{Now: func() time.Time { return w.now }})
	w.a, w.b = w.Join("a"), w.Join("b")
	w.HotPrefixes(nil, 1)
	return w
}

func (w *warmed) look(keys []kvcache.Key) {
	var hits [2]kvcache.Hit
	w.Match(keys, []kvcache.Owner{w.a, w.b}, hits[:])
	w.Note(keys, hits[:])
}

func TestHotPrefixesBeginWithTheFirstCall(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("a")
	keys := chain(1, 1, 8, 8)
	x.Book(o, keys, time.Hour)
	var hit [1]kvcache.Hit
	x.Match(keys, []kvcache.Owner{o}, hit[:])
	x.Note(keys, hit[:])
	require.Empty(t, x.HotPrefixes([]kvcache.Owner{o}, 10))
	require.Empty(t, x.HotPrefixes([]kvcache.Owner{o}, 10), "what was served before was counted")
	x.Match(keys, []kvcache.Owner{o}, hit[:])
	require.Empty(t, x.HotPrefixes([]kvcache.Owner{o}, 10), "to look something up is not to serve it")
	x.Note(keys, hit[:])
	require.Len(t, x.HotPrefixes([]kvcache.Owner{o}, 10), 1)
}

func TestHotPrefixesAreWhatPromptsShare(t *testing.T) {
	w := newWarmed()
	w.Book(w.a, chain(1, 1, 20, 20), time.Hour)
	w.Book(w.b, chain(1, 1, 20, 20)[:5], time.Hour)
	w.Book(w.b, chain(2, 2, 8, 8), time.Hour)
	for i := range uint32(10) { // 20 blocks in common, then each its own
		w.look(chain(1, 100+i, 20, 30))
	}
	for i := range uint32(10) {
		w.look(chain(2, 200+i, 8, 9))
	}
	w.look(chain(3, 3, 9, 9)) // nobody holds any
	hot := w.HotPrefixes([]kvcache.Owner{w.a, w.b}, 10)
	require.Len(t, hot, 2)
	require.Equal(t, chain(1, 1, 20, 20)[19], hot[0].Key)
	require.Equal(t, 20, hot[0].Blocks)
	require.InDelta(t, 10, hot[0].Lookups, 1e-9)
	require.EqualValues(t, 20, hot[0].Hits[0].Blocks)
	require.EqualValues(t, 5, hot[0].Hits[1].Blocks)
	require.Equal(t, chain(2, 2, 8, 8)[7], hot[1].Key)
	require.EqualValues(t, 0, hot[1].Hits[0].Blocks)
	require.EqualValues(t, 8, hot[1].Hits[1].Blocks)

	require.Len(t, w.HotPrefixes(nil, 1), 1)
	require.Empty(t, w.HotPrefixes(nil, 0))
	require.Empty(t, w.HotPrefixes(nil, -1))
	require.InDelta(t, 10, w.HotPrefixes([]kvcache.Owner{w.a}, 1)[0].Lookups, 1e-9, "asking is no lookup")

	w.Leave(w.a)
	require.EqualValues(t, 0, w.HotPrefixes([]kvcache.Owner{w.a}, 1)[0].Hits[0].Blocks, "what has left holds nothing")
}

// Who only looks on keeps nothing in the index: under pressure it forgets the same.
func TestToWatchKeepsNothing(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const size, blocks = 2, 20
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	o := []kvcache.Owner{x.Join("w")}
	r := rand.New(rand.NewPCG(21, 22))
	tokens := randomTokens(r, blocks*size)
	for _, e := range chainEvents(tokens, size, blocks, 0) {
		x.Apply(o[0], &e)
	}
	h := kvcache.Hasher{BlockSize: size}
	keys := h.Keys(nil, tokens, kvcache.Scope{}, nil)
	x.HotPrefixes(nil, 1)
	hits := make([]kvcache.Hit, 1)
	x.Match(keys, o, hits)
	x.Note(keys, hits)
	for n := range 60_000 {
		for _, e := range chainEvents(randomTokens(r, 3*size), size, 8, 0) {
			x.Apply(o[0], &e)
		}
		if n%50 == 0 {
			require.Len(t, x.HotPrefixes(o, 5), 1)
		}
	}
	require.Positive(t, x.Stats().Evicted)
	x.Match(keys, o, hits)
	require.Less(t, int(hits[0].Blocks), blocks, "nobody has asked for it, but the one who watches")
}

// What nobody has asked for in minutes is no longer told of, and its keys are let go.
func TestHotPrefixesAreForgotten(t *testing.T) {
	w := newWarmed()
	w.Book(w.a, chain(1, 1, 8, 8), 1000*time.Hour)
	w.look(chain(1, 1, 8, 8))
	w.now = w.now.Add(4 * time.Minute)
	require.Len(t, w.HotPrefixes(nil, 10), 1)
	w.now = w.now.Add(2 * time.Minute)
	require.Empty(t, w.HotPrefixes(nil, 10))
	w.look(chain(1, 1, 8, 8))
	require.InDelta(t, 1, w.HotPrefixes(nil, 10)[0].Lookups, 1e-9)
}

// A conversation that grows is one prefix, not one for each turn.
func TestHotPrefixesTellTheLongerOfTwo(t *testing.T) {
	w := newWarmed()
	keys := chain(1, 1, 40, 40)
	w.Book(w.a, keys[:10], time.Hour)
	w.look(keys)
	w.Book(w.a, keys, time.Hour)
	for range 20 {
		w.look(keys)
	}
	hot := w.HotPrefixes(nil, 10)
	require.Len(t, hot, 1, "20 of the 21 lookups of 10 blocks went on to 40")
	require.Equal(t, 40, hot[0].Blocks)

	for range 20 { // now as many stop after 10
		w.look(chain(1, 7, 10, 40))
	}
	hot = w.HotPrefixes(nil, 10)
	require.Len(t, hot, 2)
	require.Equal(t, []int{40, 10}, []int{hot[0].Blocks, hot[1].Blocks}, "20x40 before 41x10")
	require.InDelta(t, 41, hot[1].Lookups, 1e-9)
}

func TestHotPrefixesCool(t *testing.T) {
	w := newWarmed()
	w.Book(w.a, chain(1, 1, 8, 8), 1000*time.Hour)
	w.Book(w.a, chain(2, 2, 8, 8), 1000*time.Hour)
	for range 100 {
		w.look(chain(1, 1, 8, 8))
	}
	w.now = w.now.Add(10 * time.Minute) // 100/1024 of them are left
	w.look(chain(2, 2, 8, 8))
	hot := w.HotPrefixes(nil, 10)
	require.Equal(t, chain(2, 2, 8, 8)[7], hot[0].Key)
	require.InDelta(t, 100.0/1024, hot[1].Lookups, 1e-6)

	w.now = w.now.Add(100 * time.Hour) // farther than weights may grow
	w.look(chain(2, 2, 8, 8))
	require.InDelta(t, 1, w.HotPrefixes(nil, 1)[0].Lookups, 1e-6)
	w.now = time.Unix(0, 0) // a clock that is set back
	w.look(chain(2, 2, 8, 8))
	require.NotEmpty(t, w.HotPrefixes(nil, 1))
}

// A flood of prefixes that are never found again takes bounded memory and pushes out
// nothing that is hot.
func TestHotPrefixesSurviveAFlood(t *testing.T) {
	w := newWarmed()
	hot := chain(1, 1, 16, 16)
	w.Book(w.a, hot, time.Hour)
	for range 10 {
		w.look(hot)
	}
	for i := range uint32(5000) {
		keys := chain(10+i, 0, 4, 4)
		w.Book(w.b, keys, time.Hour)
		w.look(keys)
	}
	list := w.HotPrefixes(nil, 10_000)
	require.Len(t, list, kvcache.HotEntries)
	require.Equal(t, hot[15], list[0].Key)
	long := chain(3, 3, 6000, 6000)
	w.Book(w.a, long, time.Hour)
	w.look(long)
	require.Equal(t, kvcache.HotDepth, w.HotPrefixes(nil, 1)[0].Blocks, "the start of a longer one")
}

func TestHotPrefixesCostNoMemoryPerLookup(t *testing.T) {
	w := newWarmed()
	keys := chain(1, 1, 64, 64)
	w.Book(w.a, keys, time.Hour)
	w.look(keys)
	owners, hits := []kvcache.Owner{w.a, w.b}, make([]kvcache.Hit, 2)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Match(keys, owners, hits); w.Note(keys, hits) }))
}

func TestHotPrefixesConcurrently(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("a")
	x.HotPrefixes(nil, 1)
	var wg sync.WaitGroup
	for g := range uint32(4) {
		wg.Go(func() {
			var hit [1]kvcache.Hit
			for i := range uint32(500) {
				keys := chain(g, i, 8, 12)
				x.Book(o, keys, time.Hour)
				x.Match(keys, []kvcache.Owner{o}, hit[:])
				x.Note(keys, hit[:])
				if i%50 == 0 {
					x.HotPrefixes([]kvcache.Owner{o}, 5)
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, x.HotPrefixes(nil, 5))
	require.NoError(t, x.Check())
}

func BenchmarkMatchCounted(b *testing.B) {
	for _, counted := range []bool{false, true} {
		b.Run(map[bool]string{false: "not", true: "counted"}[counted], func(b *testing.B) {
			x := kvcache.NewIndex(kvcache.Options{})
			o := x.Join("a")
			if counted {
				x.HotPrefixes(nil, 1)
			}
			hits := make([]kvcache.Hit, 1)
			for i := range uint32(200) { // the table is full
				keys := chain(i, 0, 64, 64)
				x.Book(o, keys, time.Hour)
				x.Match(keys, []kvcache.Owner{o}, hits)
				x.Note(keys, hits)
			}
			keys, owners := chain(7, 0, 64, 64), []kvcache.Owner{o}
			for b.Loop() {
				x.Match(keys, owners, hits)
				x.Note(keys, hits)
			}
		})
	}
}
