package kvcache_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// windowOf returns the event of a sliding-window group that has the given blocks of
// a chain, from one to another.
func windowOf(chain *kvcache.Event, from, to, window int) *kvcache.Event {
	e := *chain
	e.Hashes = e.Hashes[from:to]
	e.Attention, e.Window, e.Group = kvcache.WindowAttention, window, 1
	return &e
}

func matchOne(x *kvcache.Index, o kvcache.Owner, keys []kvcache.Key) kvcache.Hit {
	hits := make([]kvcache.Hit, 1)
	x.Match(keys, []kvcache.Owner{o}, hits)
	return hits[0]
}

// What vLLM's own tests of its managers expect, with blocks of two tokens: the end
// of each cached window block, the window, and the hit, in blocks.
func TestWindowFixtures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cached []int
		window int
		blocks int
		want   int32
	}{
		{[]int{6, 7, 8}, 7, 8, 8},
		{[]int{8}, 5, 8, 0},
		{[]int{6, 8}, 5, 8, 0},
		{[]int{8}, 1, 8, 8},
		{[]int{1, 2, 5, 6, 8}, 5, 8, 6},
		{[]int{1, 2, 5, 6, 8}, 5, 5, 2},
		{[]int{1, 3, 4}, 7, 8, 1},
		{[]int{2, 3, 4}, 8, 8, 0},
		{[]int{1, 2, 3, 4}, 0, 8, 4},
		{[]int{2, 3, 4}, 0, 8, 0},
	} {
		x := kvcache.NewIndex(kvcache.Options{})
		o := x.Join("w")
		chain := testChain(8)
		e := windowOf(chain, 0, 0, c.window)
		e.Hashes = nil
		for _, end := range c.cached {
			e.Hashes = append(e.Hashes, chain.Hashes[end-1])
		}
		x.Apply(o, e)
		x.Apply(o, chain)
		assert.Equal(t, c.want, matchOne(x, o, testKeys(c.blocks)).Blocks, "%+v", c)
		require.NoError(t, x.Check())
	}
}

// Prompts longer than anything the index keeps in one piece, alone and beside
// others, and the same owner twice.
func TestWindowsOfLongPrompts(t *testing.T) {
	const blocks = 3000
	x := kvcache.NewIndex(kvcache.Options{})
	chain, keys := testChain(blocks), testKeys(blocks)
	o, plain := x.Join("w"), x.Join("p")
	x.Apply(o, chain)
	x.Apply(plain, chain)
	x.Apply(o, windowOf(chain, 0, 40, 2*600+1))
	x.Apply(o, windowOf(chain, 900, 1500, 2*600+1))
	x.Apply(o, windowOf(chain, 1600, blocks-1, 2*600+1))
	owners := []kvcache.Owner{plain, o, o}
	hits := make([]kvcache.Hit, len(owners))
	for n, want := range map[int]int32{blocks: blocks - 1, 2200: 2200, 2199: 1500, 1499: 40, 20: 20} {
		x.Match(keys[:n], owners, hits)
		assert.EqualValues(t, n, hits[0].Blocks)
		assert.Equal(t, kvcache.Hit{Blocks: want, Confirmed: want, Tiers: [kvcache.NumTiers]int32{want}}, hits[1])
		assert.Equal(t, hits[1], hits[2])
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { x.Match(keys, owners, hits) }))
	x.Leave(o)
	require.NoError(t, x.Check())
	x.Match(keys, owners, hits)
	assert.Zero(t, hits[1])
	assert.EqualValues(t, blocks, hits[0].Blocks)
}

// An owner with more groups than can be followed has no hits.
func TestTooManyWindows(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("w")
	x.SetTrust(o, kvcache.Exact)
	chain := testChain(4)
	x.Apply(o, chain)
	for g := range 65 {
		e := windowOf(chain, 0, 4, 3)
		e.Group = 1 + g
		assert.EqualValues(t, 4, matchOne(x, o, testKeys(4)).Blocks)
		x.Apply(o, e)
	}
	assert.Zero(t, matchOne(x, o, testKeys(4)).Blocks)
	assert.Equal(t, kvcache.Approximate, x.Trust(o))
	require.NoError(t, x.Check())
	x.Clear(o)
	assert.Equal(t, kvcache.Exact, x.Trust(o))
}

// Windows that the budget has no room for shorten hits, by name, and only until the
// engine has removed them.
func TestWindowsWithinTheBudget(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	o := x.Join("w")
	x.SetTrust(o, kvcache.Exact)
	const blocks = 1 << 17 // of windows, which take more than there is
	chain := testChain(blocks)
	x.Apply(o, windowOf(chain, 0, blocks, 3))
	x.Apply(o, testChain(1000))
	s := x.OwnerStats(o)
	assert.Less(t, s.Windows, blocks)
	assert.Equal(t, kvcache.ReasonBudget, s.Short)
	assert.Equal(t, kvcache.Resyncing, s.Trust)
	assert.LessOrEqual(t, x.Stats().Bytes, x.Stats().Budget)
	require.NoError(t, x.Check())
	x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: chain.Hashes, Group: 1})
	x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: chain.Hashes[:1000]})
	s = x.OwnerStats(o)
	assert.Zero(t, s.Windows)
	assert.Zero(t, s.Missing)
	require.NoError(t, x.Check())
}

// A snapshot leaves hybrids out: without their windows, hits would be too long.
func TestSnapshotWithoutHybrids(t *testing.T) {
	t.Parallel()
	x, y := kvcache.NewIndex(kvcache.Options{}), kvcache.NewIndex(kvcache.Options{})
	a, b := x.Join("a"), x.Join("b")
	chain := testChain(4)
	x.Apply(a, chain)
	x.Apply(b, chain)
	x.Apply(b, windowOf(chain, 2, 4, 5))
	x.SetPosition(b, kvcache.Position{Seq: 1})
	c, d := y.Join("a"), y.Join("b")
	stats, err := y.Import(bytes.NewReader(export(t, x)), nil)
	require.NoError(t, err)
	assert.Equal(t, kvcache.ImportStats{Owners: 1, Pairs: 4}, stats)
	assert.EqualValues(t, 4, matchOne(y, c, testKeys(4)).Blocks)
	assert.Zero(t, y.Resident(d))
	_, placed := y.Position(d)
	assert.False(t, placed)
}

// Readers and writers of hybrids at once: a hit is one that the groups allow.
func TestWindowsConcurrently(t *testing.T) {
	t.Parallel()
	const blocks, kept = 1200, 700
	x := kvcache.NewIndex(kvcache.Options{})
	chain, keys := testChain(blocks), testKeys(blocks)
	o, other := x.Join("w"), x.Join("x")
	x.Apply(o, windowOf(chain, kept-4, kept, 9))
	x.Apply(o, chain)
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			owners, hits := []kvcache.Owner{o, other}, make([]kvcache.Hit, 2)
			for {
				select {
				case <-stop:
					return
				default:
				}
				x.Match(keys, owners, hits)
				if n := hits[0].Blocks; n != kept && n != blocks && n != 0 || hits[0].Tiers[kvcache.TierGPU] != n {
					t.Errorf("%+v", hits[0])
					return
				}
			}
		})
	}
	for w := range 2 {
		writers.Go(func() {
			for i := range 200 {
				if w == 0 {
					x.Apply(o, windowOf(chain, blocks-4, blocks, 9))
					x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: chain.Hashes[blocks-4:], Group: 1})
					e := &kvcache.Event{Kind: kvcache.Removed, Hashes: chain.Hashes[600:601]}
					x.Apply(o, e)
					x.Apply(o, &kvcache.Event{Kind: kvcache.Stored, Hashes: chain.Hashes[600:], Tokens: chain.Tokens[1200:], BlockSize: 2, Parent: chain.Hashes[599], HasParent: true})
					x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: chain.Hashes[601:]})
					continue
				}
				x.Book(other, keys[:i], time.Minute)
				x.Apply(other, windowOf(chain, i, i+9, 9))
				x.Apply(other, chain)
				x.Clear(other)
				x.Shuffle(i)
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	require.NoError(t, x.Check())
}

func BenchmarkMatchHybrid(b *testing.B) {
	const blocks, owners = 1000, 64
	x := kvcache.NewIndex(kvcache.Options{})
	chain, keys := testChain(blocks), testKeys(blocks)
	list, hits := make([]kvcache.Owner, owners), make([]kvcache.Hit, owners)
	for i := range list {
		list[i] = x.Join("w")
		x.Apply(list[i], chain)
		x.Apply(list[i], windowOf(chain, i, i+32, 2*32))
	}
	b.ReportAllocs()
	for b.Loop() {
		x.Match(keys, list, hits)
	}
}
