package kvcache_test

import (
	"bytes"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

func positionOf(t *testing.T, x *kvcache.Index, o kvcache.Owner) *kvcache.Position {
	t.Helper()
	p, ok := x.Position(o)
	if !ok {
		require.Zero(t, p)
		return nil
	}
	return &p
}

// A position ends with the first event after it: what the owner holds is then of
// no one place in the stream.
func TestPosition(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{})
	o, other := x.Join("a"), x.Join("b")
	assert.Nil(t, positionOf(t, x, o))
	at := kvcache.Position{Seq: 4, Proof: 5, Whole: true}
	for name, end := range map[string]func(){
		"stored":  func() { x.Apply(o, testChain(3)) },
		"useless": func() { x.Apply(o, &kvcache.Event{}) },
		"cleared": func() { x.Apply(o, &kvcache.Event{Kind: kvcache.Cleared}) },
		"Clear":   func() { x.Clear(o) },
	} {
		x.SetPosition(o, at)
		assert.Equal(t, &at, positionOf(t, x, o))
		x.Apply(other, testChain(3))
		x.Book(o, testKeys(9), time.Hour)
		x.SetTrust(o, kvcache.Exact)
		assert.Equal(t, &at, positionOf(t, x, o), name)
		end()
		assert.Nil(t, positionOf(t, x, o), name)
	}
	x.SetPosition(o, at)
	x.Leave(o)
	assert.Nil(t, positionOf(t, x, o))
	x.SetPosition(o, at)
	assert.Nil(t, positionOf(t, x, o))
	assert.Nil(t, positionOf(t, x, x.Join("a")), "nothing is inherited")
}

func importInto(t *testing.T, snap []byte, opts kvcache.Options, names ...string) (*kvcache.Index, []kvcache.Owner, kvcache.ImportStats) {
	t.Helper()
	y := kvcache.NewIndex(opts)
	owners := make([]kvcache.Owner, len(names))
	for i, name := range names {
		owners[i] = y.Join(name)
	}
	stats, err := y.Import(bytes.NewReader(snap), nil)
	require.NoError(t, err)
	require.NoError(t, y.Check())
	return y, owners, stats
}

func TestSnapshotKeepsPositions(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{})
	a, b, c, d := x.Join("a"), x.Join("b"), x.Join("c"), x.Join("d")
	whole, part, empty := kvcache.Position{Seq: 1 << 60, Proof: 9, Whole: true}, kvcache.Position{Seq: 3}, kvcache.Position{Seq: 8}
	for _, o := range []kvcache.Owner{a, b, c, d} {
		x.Apply(o, testChain(5))
	}
	x.Apply(c, &kvcache.Event{Kind: kvcache.Removed, Hashes: testChain(5).Hashes})
	x.SetPosition(a, whole)
	x.SetPosition(b, part)
	x.SetPosition(c, empty)
	y, owners, stats := importInto(t, export(t, x), kvcache.Options{}, "a", "b", "c", "d")
	assert.Equal(t, kvcache.ImportStats{Owners: 4, Pairs: 15}, stats)
	assert.Equal(t, &whole, positionOf(t, y, owners[0]))
	assert.Equal(t, &part, positionOf(t, y, owners[1]))
	assert.Equal(t, &empty, positionOf(t, y, owners[2]), "an owner that holds nothing has its place all the same")
	assert.Nil(t, positionOf(t, y, owners[3]))
	for _, o := range owners {
		assert.Equal(t, kvcache.Standing{Trust: kvcache.Approximate, Reason: "taken from a snapshot"}, y.Standing(o))
		assert.Equal(t, kvcache.NoReason, y.Short(o))
		assert.Equal(t, 2, y.BlockSize(o))
	}
	// And so on to the next replica.
	z, owners, _ := importInto(t, export(t, y), kvcache.Options{}, "a")
	assert.Equal(t, &whole, positionOf(t, z, owners[0]))
	// The engine goes on: what is held answers as if nothing had happened.
	assert.Equal(t, kvcache.Applied, z.Apply(owners[0], &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{5}}).Verdict)
	assert.Equal(t, 4, z.Resident(owners[0]))
}

// An event that comes while a snapshot is imported ends more than the import.
func TestImportOvertakenHasNoPosition(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{})
	for _, name := range []string{"a", "b"} {
		o := x.Join(name)
		x.Apply(o, testChain(20_000))
		x.SetPosition(o, kvcache.Position{Seq: 1, Whole: true})
	}
	y := kvcache.NewIndex(kvcache.Options{})
	a, b := y.Join("a"), y.Join("b")
	r := &spyReader{Reader: bytes.NewReader(export(t, x))}
	r.spy = func() {
		if y.Resident(b) == 20_000 && r.spied == 0 { // both are through, the import is not
			r.spied++
			y.Apply(a, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{1}})
		}
	}
	_, err := y.Import(r, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, r.spied)
	assert.Nil(t, positionOf(t, y, a))
	assert.NotNil(t, positionOf(t, y, b))
}

// While a message is applied, event by event, Export waits for its end, so that
// the blocks in a snapshot are those of its position.
func TestExportBetweenMessages(t *testing.T) {
	t.Parallel()
	// There time stands still while messages are applied, however slow the machine.
	synctest.Test(t, testExportBetweenMessages)
}

func testExportBetweenMessages(t *testing.T) {
	t.Helper()
	const blocks, rounds = 40, 50
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("a")
	all := testChain(blocks)
	x.Apply(o, all)
	x.SetPosition(o, kvcache.Position{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		// Each message removes all and stores as many as its number says.
		for seq := uint64(1); !stop.Load(); seq++ {
			x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: all.Hashes})
			for i := range int(seq % blocks) {
				e := &kvcache.Event{Kind: kvcache.Stored, BlockSize: 2, Tokens: all.Tokens[2*i : 2*i+2], Hashes: all.Hashes[i : i+1]}
				if i > 0 {
					e.HasParent, e.Parent = true, all.Hashes[i-1]
				}
				x.Apply(o, e)
			}
			x.SetPosition(o, kvcache.Position{Seq: seq})
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	for range rounds {
		y, owners, stats := importInto(t, export(t, x), kvcache.Options{}, "a")
		p, ok := y.Position(owners[0])
		require.True(t, ok)
		if p.Seq > 0 {
			require.EqualValues(t, p.Seq%blocks, stats.Pairs)
		}
	}
}

// A message whose end does not come is not waited for; nor is an owner that leaves.
func TestExportDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*kvcache.Index, kvcache.Owner){
		"unended": func(*kvcache.Index, kvcache.Owner) {},
		"left":    func(x *kvcache.Index, o kvcache.Owner) { x.Leave(o) },
		"cleared": func(x *kvcache.Index, o kvcache.Owner) { x.Clear(o) },
	} {
		synctest.Test(t, func(t *testing.T) {
			x := kvcache.NewIndex(kvcache.Options{})
			o := x.Join("a")
			x.Apply(o, testChain(5))
			x.SetPosition(o, kvcache.Position{Seq: 1, Whole: true})
			x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{5}})
			var snaps [2][]byte
			var wg sync.WaitGroup
			for i := range snaps {
				wg.Go(func() { snaps[i] = export(t, x) })
			}
			synctest.Wait()
			meanwhile(x, o)
			begin := time.Now()
			wg.Wait()
			assert.LessOrEqual(t, time.Since(begin), time.Second)
			for _, snap := range snaps {
				y, owners, stats := importInto(t, snap, kvcache.Options{}, "a")
				assert.Nil(t, positionOf(t, y, owners[0]))
				if name == "unended" {
					assert.Equal(t, 4, stats.Pairs)
				} else {
					assert.Zero(t, stats.Pairs)
				}
			}
			if x.Resident(o) > 0 {
				x.SetPosition(o, kvcache.Position{Seq: 2}) // nobody waits any more
			}
		})
	}
}

// A snapshot of version 1, as it was written then, is as good as ever but for the
// positions that it does not have.
func TestImportVersion1(t *testing.T) {
	t.Parallel()
	snap, err := os.ReadFile("testdata/snapshot_v1.bin")
	require.NoError(t, err)
	w := newSnapWorld(5, 3, 6) // what it was made of
	x := kvcache.NewIndex(kvcache.Options{})
	for i, o := range w.owners {
		w.owners[i][0] = x.Join(w.index.OwnerStats(o[0]).Name)
	}
	w.index = x
	stats, err := x.Import(bytes.NewReader(snap), nil)
	require.NoError(t, err)
	assert.Equal(t, 3, stats.Owners)
	w.same(t)
	for _, o := range w.owners {
		assert.Nil(t, positionOf(t, x, o[0]))
	}
	damaged := append([]byte{}, snap...)
	damaged[len(damaged)/2] ^= 1
	_, err = kvcache.NewIndex(kvcache.Options{}).Import(bytes.NewReader(damaged), nil)
	require.ErrorIs(t, err, kvcache.ErrSnapshotCorrupt)
}
