package kvcache_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// fillSnapshot makes an index in which each owner holds prompts of the given
// length in blocks, every prompt held by holders of them.
func fillSnapshot(opts kvcache.Options, owners, prompts, length, holders int) (*kvcache.Index, []kvcache.Owner) {
	x := kvcache.NewIndex(opts)
	list := make([]kvcache.Owner, owners)
	for i := range list {
		list[i] = x.Join(fmt.Sprint("worker ", i))
	}
	for p := range prompts {
		e := promptEvent(p, length)
		for h := range holders {
			x.Apply(list[(p*holders+h)%owners], e)
		}
	}
	return x, list
}

func promptEvent(p, length int) *kvcache.Event {
	e := &kvcache.Event{Kind: kvcache.Stored, BlockSize: 1}
	for i := range length {
		e.Tokens = append(e.Tokens, uint32(p)<<12|uint32(i))
		e.Hashes = append(e.Hashes, kvcache.EngineHash(uint64(p)<<12|uint64(i)+1)*0x9e3779b97f4a7c15)
	}
	return e
}

// Near the budget the blocks that were matched lately come in, whatever their
// place in the snapshot, and nothing that is there has to leave.
func TestImportBudget(t *testing.T) {
	const prompts, length = 600, 400
	x, _ := fillSnapshot(kvcache.Options{MaxBytes: 64 << 20}, 4, prompts, length, 1)
	hot := kvcache.Hasher{BlockSize: 1}.Keys(nil, promptEvent(prompts-1, length).Tokens, kvcache.Scope{}, nil)
	x.Match(hot, nil, nil)
	snap := export(t, x)

	y := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	mine := y.Join("mine")
	y.Apply(mine, promptEvent(prompts, length))
	var owners []kvcache.Owner
	for i := range 4 {
		owners = append(owners, y.Join(fmt.Sprint("worker ", i)))
	}
	stats, err := y.Import(bytes.NewReader(snap), nil)
	require.NoError(t, err)
	require.NoError(t, y.Check())
	s := y.Stats()
	assert.LessOrEqual(t, s.Bytes, s.Budget)
	assert.Zero(t, s.Evicted)
	assert.Equal(t, prompts*length, stats.Pairs+stats.Dropped)
	assert.Equal(t, s.Pairs, stats.Pairs+length)
	assert.Greater(t, stats.Pairs, 20_000)
	assert.Greater(t, stats.Dropped, stats.Pairs)
	hits := make([]kvcache.Hit, len(owners))
	y.Match(hot, owners, hits)
	assert.EqualValues(t, length, hits[(prompts-1)%4].Confirmed)
	assert.Equal(t, length, y.Resident(mine))
	// What did not fit is known to be missing, until its engine removes it.
	missing := 0
	for _, o := range owners {
		if n := y.OwnerStats(o).Missing; n > 0 {
			assert.Equal(t, kvcache.ReasonBudget, y.Short(o))
			missing += n
		}
	}
	assert.Equal(t, stats.Dropped, missing)
	for p := range prompts {
		y.Apply(owners[p%4], &kvcache.Event{Kind: kvcache.Removed, Hashes: promptEvent(p, length).Hashes})
	}
	for _, o := range owners {
		assert.Equal(t, kvcache.NoReason, y.Short(o))
		assert.Zero(t, y.Resident(o))
	}
	require.NoError(t, y.Check())
}

// What a snapshot leaves out is known to be missing where it is taken over, copy by
// copy, and so on to the next replica.
func TestSnapshotTellsWhatItLeavesOut(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{MaxOrphans: 2})
	o := x.Join("a")
	const names = 11
	for n := range names { // one block by many names, some of them twice
		e := testChain(1)
		e.Hashes[0] = kvcache.EngineHash(100 + n)
		e.Tier = kvcache.Tier(n % kvcache.NumTiers)
		x.Apply(o, e)
		x.Apply(o, e)
	}
	orphans := testChain(3)
	orphans.HasParent, orphans.Parent, orphans.Group = true, 99, 1
	x.Apply(o, orphans) // two are kept, one is not
	require.Equal(t, kvcache.ReasonOrphanBound, x.Short(o))
	require.Equal(t, 1, x.OwnerStats(o).Missing)
	x.SetPosition(o, kvcache.Position{Seq: 1, Whole: true})
	first, _, _ := importInto(t, export(t, x), kvcache.Options{}, "a")
	y, owners, _ := importInto(t, export(t, first), kvcache.Options{}, "a")
	p := owners[0]
	assert.Equal(t, kvcache.ReasonOrphanBound, y.Short(p), "the first reason")
	assert.Equal(t, 1+2+2*(names-8), y.OwnerStats(p).Missing)
	y.SetTrust(p, kvcache.Exact)
	assert.Equal(t, kvcache.Resyncing, y.Trust(p))
	remove := func(e *kvcache.Event) {
		e.Kind = kvcache.Removed
		y.Apply(p, e)
	}
	remove(orphans)
	assert.Equal(t, kvcache.Resyncing, y.Trust(p))
	for n := range names {
		for range 2 {
			e := testChain(1)
			e.Hashes[0] = kvcache.EngineHash(100 + n)
			e.Tier = kvcache.Tier(n % kvcache.NumTiers)
			remove(e)
		}
	}
	assert.Equal(t, kvcache.Exact, y.Trust(p))
	assert.Zero(t, y.Resident(p))
	require.NoError(t, y.Check())

	// Nothing but an orphan.
	z := kvcache.NewIndex(kvcache.Options{})
	q := z.Join("a")
	z.Apply(q, testChain(2))
	z.Apply(q, orphanOf(99))
	y, owners, _ = importInto(t, export(t, z), kvcache.Options{}, "a")
	assert.Equal(t, kvcache.ReasonSnapshot, y.Short(owners[0]))
	assert.Equal(t, "left out of the snapshot", y.Short(owners[0]).String())
}

func orphanOf(parent kvcache.EngineHash) *kvcache.Event {
	e := testChain(1)
	e.HasParent, e.Parent, e.Hashes[0] = true, parent, 98
	return e
}

// Export and Import while others match and apply.
func TestSnapshotConcurrent(t *testing.T) {
	prompts := 200
	if raceEnabled {
		prompts = 40
	}
	x, owners := fillSnapshot(kvcache.Options{}, 8, prompts, 300, 2)
	snap := export(t, x)
	y := kvcache.NewIndex(kvcache.Options{})
	for i := range owners {
		y.Join(fmt.Sprint("worker ", i))
	}
	busy := y.Join("busy")
	var stop atomic.Bool
	var wg sync.WaitGroup
	for _, ix := range []*kvcache.Index{x, y} {
		wg.Go(func() { // matches
			keys := kvcache.Hasher{BlockSize: 1}.Keys(nil, promptEvent(1, 300).Tokens, kvcache.Scope{}, nil)
			hits := make([]kvcache.Hit, 1)
			for !stop.Load() {
				ix.Match(keys, []kvcache.Owner{busy}, hits)
			}
		})
		wg.Go(func() { // events of the same prompts, by another owner
			o := busy
			if ix == x {
				o = owners[0]
			}
			for i := 0; !stop.Load(); i++ {
				e := promptEvent(i%prompts, 300)
				ix.Apply(o, e)
				e.Kind = kvcache.Removed
				ix.Apply(o, e)
			}
		})
	}
	var errs []error
	for range 3 {
		errs = append(errs, x.Export(io.Discard))
		_, err := y.Import(bytes.NewReader(snap), nil)
		errs = append(errs, err, y.Check())
	}
	stop.Store(true)
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, x.Check())
	require.NoError(t, y.Check())
}

// A block that an event puts behind another one while a snapshot is imported is
// the same that the snapshot has as the head of a run of its own.
func TestImportFindsNewPlaces(t *testing.T) {
	chain := func(last uint32) *kvcache.Event {
		return &kvcache.Event{
			Kind: kvcache.Stored, BlockSize: 1, Tokens: []uint32{1, 2, last},
			Hashes: []kvcache.EngineHash{1, 2, kvcache.EngineHash(last)},
		}
	}
	x := kvcache.NewIndex(kvcache.Options{})
	a := x.Join("a")
	x.Apply(a, chain(3))
	x.Apply(a, chain(4)) // leaves the run of the first
	y := kvcache.NewIndex(kvcache.Options{})
	a, b := y.Join("a"), y.Join("b")
	r := &seekSpy{Reader: bytes.NewReader(export(t, x))}
	r.spy = func() { y.Apply(b, chain(4)) }
	_, err := y.Import(r, nil)
	require.NoError(t, err)
	assert.Equal(t, 3, r.seeks)
	require.NoError(t, y.Check())
	assert.Equal(t, 4, y.Stats().Blocks)
	for _, last := range []uint32{3, 4} {
		hits := make([]kvcache.Hit, 1)
		keys := kvcache.Hasher{BlockSize: 1}.Keys(nil, chain(last).Tokens, kvcache.Scope{}, nil)
		y.Match(keys, []kvcache.Owner{a}, hits)
		assert.EqualValues(t, 3, hits[0].Blocks)
	}
}

// seekSpy calls spy before the third reading.
type seekSpy struct {
	*bytes.Reader
	spy   func()
	seeks int
}

func (r *seekSpy) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		if r.seeks++; r.seeks == 3 {
			r.spy()
		}
	}
	return r.Reader.Seek(offset, whence)
}

const benchPairs = 1_000_000

func BenchmarkExport(b *testing.B) {
	for _, holders := range []int{1, 4} {
		b.Run(fmt.Sprint("holders=", holders), func(b *testing.B) {
			x, _ := fillSnapshot(kvcache.Options{}, 32, benchPairs/500/holders, 500, holders)
			pairs := x.Stats().Pairs
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				w := &countingWriter{}
				if err := x.Export(w); err != nil {
					b.Fatal(err)
				}
				n = w.n
			}
			b.ReportMetric(float64(n)/float64(pairs), "B/pair")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pairs), "ns/pair")
		})
	}
	// All that one owner holds is copied under the lock at once.
	b.Run("owners=1", func(b *testing.B) {
		x, _ := fillSnapshot(kvcache.Options{}, 1, benchPairs/500, 500, 1)
		for b.Loop() {
			if err := x.Export(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkImport(b *testing.B) {
	for _, holders := range []int{1, 4} {
		b.Run(fmt.Sprint("holders=", holders), func(b *testing.B) {
			x, _ := fillSnapshot(kvcache.Options{}, 32, benchPairs/500/holders, 500, holders)
			pairs := x.Stats().Pairs
			snap := export(b, x)
			b.ReportAllocs()
			for b.Loop() {
				y := kvcache.NewIndex(kvcache.Options{})
				for i := range 32 {
					y.Join(fmt.Sprint("worker ", i))
				}
				if stats, err := y.Import(bytes.NewReader(snap), nil); err != nil || stats.Pairs != pairs {
					b.Fatal(stats, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pairs), "ns/pair")
		})
	}
}

type countingWriter struct{ n int }

func (w *countingWriter) Write(b []byte) (int, error) { w.n += len(b); return len(b), nil }
