package kvcache_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

// snapWorld is an index and the model, which are told the same.
type snapWorld struct {
	rnd    *rand.Rand
	index  *kvcache.Index
	model  *kvcachetest.Model
	owners [][2]kvcache.Owner
	groups []int // how many groups each owner's events name
	hashes []map[kvcache.EngineHash]bool
	keys   [][]kvcache.Key
	block  int
}

func newSnapWorld(seed uint64, owners, depth int) *snapWorld {
	w := &snapWorld{
		rnd: rand.New(rand.NewPCG(seed, 7)), index: kvcache.NewIndex(kvcache.Options{}),
		model: kvcachetest.NewModel(kvcache.Options{}), block: 2,
	}
	for i := range owners {
		name := fmt.Sprint("worker ", i/2) // two of each name
		w.owners = append(w.owners, [2]kvcache.Owner{w.index.Join(name), w.model.Join(name)})
		w.groups = append(w.groups, 1+i%3)
		w.hashes = append(w.hashes, map[kvcache.EngineHash]bool{})
	}
	for range 40 * owners {
		w.event(w.rnd.IntN(owners), depth)
	}
	return w
}

// event applies a random event that needs no parent.
func (w *snapWorld) event(i, depth int) {
	n := 1 + w.rnd.IntN(depth)
	branch := uint32(w.rnd.IntN(4))
	from := w.rnd.IntN(n)
	tokens := make([]uint32, 0, n*w.block)
	for b := range n {
		t := uint32(0)
		if b >= from {
			t = branch
		}
		tokens = append(tokens, t, t+1)
	}
	keys := kvcache.Hasher{BlockSize: w.block}.Keys(nil, tokens, kvcache.Scope{}, nil)
	w.keys = append(w.keys, keys)
	e := &kvcache.Event{
		Kind: kvcache.Stored, Tokens: tokens, BlockSize: w.block, Group: w.rnd.IntN(w.groups[i]),
	}
	variant := uint64(w.rnd.IntN(12) / 11) // now and then a second name for a block
	for _, k := range keys {
		h := kvcache.EngineHash(uint64(k)*0x9e3779b97f4a7c15 + variant)
		e.Hashes = append(e.Hashes, h)
		w.hashes[i][h] = true
	}
	if w.rnd.IntN(3) == 0 {
		e.Tier = kvcache.Tier(w.rnd.IntN(kvcache.NumTiers))
	}
	switch w.rnd.IntN(5) {
	case 0: // holes
		e.Kind = kvcache.Removed
		e.Hashes = e.Hashes[w.rnd.IntN(n):]
		e.Hashes = e.Hashes[:1+w.rnd.IntN(len(e.Hashes))]
	case 1: // a copy elsewhere
		e.Tokens, e.BlockSize, e.Group = nil, 0, w.rnd.IntN(4)
	}
	w.apply(i, e)
}

func (w *snapWorld) apply(i int, e *kvcache.Event) (got, want kvcache.Outcome) {
	return w.index.Apply(w.owners[i][0], e), w.model.Apply(w.owners[i][1], e)
}

// same compares every prompt there was with the model.
func (w *snapWorld) same(t *testing.T) {
	t.Helper()
	for _, keys := range w.keys {
		for _, o := range w.owners {
			var got, want [1]kvcache.Hit
			w.index.Match(keys, o[:1], got[:])
			w.model.Match(keys, o[1:], want[:])
			require.Equal(t, want, got)
		}
	}
	for _, o := range w.owners {
		require.Equal(t, w.model.BlockSize(o[1]), w.index.BlockSize(o[0]))
	}
	require.Equal(t, w.model.Stats().Pairs, w.index.Stats().Pairs)
	require.Equal(t, w.model.Stats().Blocks, w.index.Stats().Blocks)
	require.NoError(t, w.index.Check())
}

// reload puts the world's index into a new one with owners of the same names.
func (w *snapWorld) reload(t *testing.T, opts kvcache.Options) kvcache.ImportStats {
	t.Helper()
	snap := export(t, w.index)
	x := kvcache.NewIndex(opts)
	for i, o := range w.owners {
		w.owners[i][0] = x.Join(w.index.OwnerStats(o[0]).Name)
	}
	w.index = x
	stats, err := x.Import(bytes.NewReader(snap), nil)
	require.NoError(t, err)
	require.NoError(t, x.Check())
	return stats
}

func export(t testing.TB, x *kvcache.Index) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, x.Export(&b))
	return b.Bytes()
}

// What comes back matches as the model does, and goes on doing so: every copy of
// every hash was kept, so that as many removals are needed.
func TestSnapshotRoundTrip(t *testing.T) {
	seeds := uint64(6)
	if raceEnabled {
		seeds = 2
	}
	for seed := range seeds {
		depth := 12
		if seed == 0 {
			depth = 700 // more than a run
		}
		w := newSnapWorld(seed, 6, depth)
		pairs := w.index.Stats().Pairs
		w.same(t)
		stats := w.reload(t, kvcache.Options{})
		require.Equal(t, kvcache.ImportStats{Owners: 6, Pairs: pairs}, stats)
		w.same(t)
		for range 100 {
			w.event(w.rnd.IntN(6), 12)
		}
		w.same(t)
		w.removeAll(t)
		require.Zero(t, w.index.Stats().Pairs)
	}
}

// removeAll removes every copy, one at a time.
func (w *snapWorld) removeAll(t *testing.T) {
	t.Helper()
	for i := range w.owners {
		for h := range w.hashes[i] {
			for left := 4 * kvcache.NumTiers; left > 0; {
				e := &kvcache.Event{
					Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{h},
					Group: left % 4, Tier: kvcache.Tier(left/4) % kvcache.NumTiers,
				}
				got, want := w.apply(i, e)
				require.Equal(t, want, got)
				if got.Missed > 0 || got.Verdict == kvcache.Ignored {
					left--
				}
			}
		}
	}
	w.same(t)
}

// A second snapshot of the same holds the same: nothing is lost on the way. Only
// the order of owners' groups and runs may differ.
func TestSnapshotTwice(t *testing.T) {
	w := newSnapWorld(3, 6, 900)
	first := len(export(t, w.index))
	w.reload(t, kvcache.Options{})
	second := len(export(t, w.index))
	w.reload(t, kvcache.Options{})
	assert.Len(t, export(t, w.index), second)
	assert.InDelta(t, first, second, float64(first)/20)
	w.same(t)
}

func TestSnapshotLeavesOut(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	o, gone, bookedOnly := x.Join("a"), x.Join("gone"), x.Join("booked")
	keys := testKeys(9)
	chain := func() *kvcache.Event { return testChain(9) }
	x.Apply(o, chain())
	x.Apply(gone, chain())
	x.SetTrust(o, kvcache.Exact)
	x.Book(o, append(append([]kvcache.Key{}, keys...), 77), time.Hour)
	x.Book(bookedOnly, keys, time.Hour)
	orphan := chain()
	orphan.HasParent, orphan.Parent = true, 4711
	orphan.Hashes = []kvcache.EngineHash{91, 92, 93, 94, 95, 96, 97, 98, 99}
	require.Equal(t, kvcache.Orphaned, x.Apply(o, orphan).Verdict)

	y := kvcache.NewIndex(kvcache.Options{})
	p, b := y.Join("a"), y.Join("booked")
	stats, err := y.Import(bytes.NewReader(export(t, x)), nil)
	require.NoError(t, err)
	assert.Equal(t, kvcache.ImportStats{Owners: 1, Unknown: 1, Pairs: 9}, stats)
	assert.Equal(t, kvcache.Approximate, y.Trust(p), "never trusted")
	assert.Equal(t, kvcache.Blind, y.Trust(b))
	s := y.Stats()
	assert.Zero(t, s.Provisional)
	assert.Zero(t, s.Orphans)
	assert.Equal(t, 9, y.Resident(p))
	assert.Zero(t, y.Resident(b))
	assert.Equal(t, 2, y.BlockSize(p))
	require.NoError(t, y.Check())
}

func TestImportTrust(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	x.Apply(x.Join("a"), testChain(3))
	snap := export(t, x)
	for from, want := range map[kvcache.Trust]kvcache.Trust{
		kvcache.Blind: kvcache.Approximate, kvcache.Approximate: kvcache.Approximate,
		kvcache.Suspect: kvcache.Suspect, kvcache.Resyncing: kvcache.Resyncing,
	} {
		y := kvcache.NewIndex(kvcache.Options{})
		o := y.Join("a")
		y.SetTrust(o, from)
		_, err := y.Import(bytes.NewReader(snap), nil)
		require.NoError(t, err)
		assert.Equal(t, want, y.Trust(o))
		assert.Equal(t, 3, y.Resident(o))
	}
	y := kvcache.NewIndex(kvcache.Options{})
	o := y.Join("a")
	y.SetTrust(o, kvcache.Exact) // exactly nothing
	stats, err := y.Import(bytes.NewReader(snap), nil)
	require.NoError(t, err)
	assert.Equal(t, kvcache.ImportStats{Kept: 1}, stats)
	assert.Zero(t, y.Resident(o))
}

func testChain(n int) *kvcache.Event {
	e := &kvcache.Event{Kind: kvcache.Stored, BlockSize: 2}
	for i := range n {
		e.Tokens = append(e.Tokens, uint32(i), uint32(i))
		e.Hashes = append(e.Hashes, kvcache.EngineHash(i+1))
	}
	return e
}

func testKeys(n int) []kvcache.Key {
	return kvcache.Hasher{BlockSize: 2}.Keys(nil, testChain(n).Tokens, kvcache.Scope{}, nil)
}

// Whatever an owner's own events said stands, even if all they said is that it
// holds nothing.
func TestImportEventsWin(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	x.Apply(x.Join("a"), testChain(3))
	snap := export(t, x)
	for name, c := range map[string]struct {
		before func(y *kvcache.Index, o kvcache.Owner)
		want   kvcache.ImportStats
		holds  int
	}{
		"nothing": {func(*kvcache.Index, kvcache.Owner) {}, kvcache.ImportStats{Owners: 1, Pairs: 3}, 3},
		"stored": {
			func(y *kvcache.Index, o kvcache.Owner) { y.Apply(o, testChain(1)) },
			kvcache.ImportStats{Kept: 1},
			1,
		},
		"cleared by the engine": {func(y *kvcache.Index, o kvcache.Owner) {
			y.Apply(o, &kvcache.Event{Kind: kvcache.Cleared})
		}, kvcache.ImportStats{Kept: 1}, 0},
		"removed what is unknown": {func(y *kvcache.Index, o kvcache.Owner) {
			y.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{1}})
		}, kvcache.ImportStats{Kept: 1}, 0},
		"forgotten by us": {func(y *kvcache.Index, o kvcache.Owner) {
			y.Apply(o, testChain(1))
			y.Clear(o)
		}, kvcache.ImportStats{Owners: 1, Pairs: 3}, 3},
		"imported before": {func(y *kvcache.Index, _ kvcache.Owner) {
			_, err := y.Import(bytes.NewReader(snap), nil)
			assert.NoError(t, err)
		}, kvcache.ImportStats{Kept: 1}, 3},
		"booked": {
			func(y *kvcache.Index, o kvcache.Owner) { y.Book(o, testKeys(5), time.Hour) },
			kvcache.ImportStats{Owners: 1, Pairs: 3},
			5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := kvcache.NewIndex(kvcache.Options{})
			o := y.Join("a")
			c.before(y, o)
			stats, err := y.Import(bytes.NewReader(snap), nil)
			require.NoError(t, err)
			assert.Equal(t, c.want, stats)
			assert.Equal(t, c.holds, y.Resident(o))
			require.NoError(t, y.Check())
		})
	}
}

// While sections are taken over one by one, an event ends it for its owner.
func TestImportEventMeanwhile(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	x.Apply(x.Join("a"), testChain(20_000)) // several sections
	x.Apply(x.Join("b"), testChain(20_000))
	snap := export(t, x)
	y := kvcache.NewIndex(kvcache.Options{})
	a, b := y.Join("a"), y.Join("b")
	r := &spyReader{Reader: bytes.NewReader(snap)}
	r.spy = func() {
		if n := y.Resident(a); n > 0 && n < 20_000 && r.spied == 0 {
			r.spied = n
			y.Apply(a, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{1}})
		}
	}
	stats, err := y.Import(r, nil)
	require.NoError(t, err)
	assert.Positive(t, r.spied)
	assert.Equal(t, r.spied-1, y.Resident(a))
	assert.Equal(t, 20_000, y.Resident(b))
	assert.Equal(t, kvcache.ImportStats{Owners: 2, Pairs: 20_000 + r.spied, Dropped: 20_000 - r.spied}, stats)
	require.NoError(t, y.Check())
}

// spyReader calls spy before each read.
type spyReader struct {
	*bytes.Reader
	spy   func()
	spied int
}

func (r *spyReader) Read(b []byte) (int, error) {
	r.spy()
	return r.Reader.Read(b)
}

// WriteTo would read past the spy.
func (r *spyReader) WriteTo(io.Writer) (int64, error) { panic("not used") }

// What others hold already has its place, which need not be where a snapshot's
// pieces begin.
func TestImportAmongOthers(t *testing.T) {
	for seed := range uint64(8) {
		w := newSnapWorld(seed, 4, 40)
		snap := export(t, w.index)
		z := newSnapWorld(seed+100, 4, 40)
		for i := range w.owners {
			o := z.index.Join(fmt.Sprint("new ", i))
			w.owners[i][0] = o
		}
		i := 0
		stats, err := z.index.Import(iotest.OneByteReader(bytes.NewReader(snap)), func(string, int) kvcache.Owner {
			i++
			return w.owners[i-1][0]
		})
		require.NoError(t, err)
		assert.Equal(t, 4, stats.Owners)
		require.NoError(t, z.index.Check())
		for _, keys := range append(w.keys, z.keys...) {
			for _, o := range w.owners {
				var got, want [1]kvcache.Hit
				z.index.Match(keys, o[:1], got[:])
				w.model.Match(keys, o[1:], want[:])
				require.Equal(t, want, got)
			}
			for _, o := range z.owners {
				var got, want [1]kvcache.Hit
				z.index.Match(keys, o[:1], got[:])
				z.model.Match(keys, o[1:], want[:])
				require.Equal(t, want, got)
			}
		}
	}
}
