package kvcache_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// reseal makes the checksums of a damaged snapshot right again, as far as it
// still consists of sections.
func reseal(b []byte) []byte {
	const header, top, sum = 24, 5, 8
	out := append([]byte{}, b...)
	sections := uint64(0)
	for at := header; at+top+sum <= len(out); {
		announced := binary.LittleEndian.Uint32(out[at+1:])
		if uint64(announced) > uint64(len(out)-at-top-sum) {
			break
		}
		n := int(announced)
		if out[at] == 4 && n == 24 {
			binary.LittleEndian.PutUint64(out[at+top:], sections)
			binary.LittleEndian.PutUint64(out[at+top+16:], xxhash.Sum64(out[:at]))
		}
		end := at + top + n
		binary.LittleEndian.PutUint64(out[end:], xxhash.Sum64(out[at:end]))
		at = end + sum
		sections++
	}
	return out
}

// smallSnapshot has some of everything.
func smallSnapshot(t testing.TB) []byte {
	t.Helper()
	w := newSnapWorld(5, 3, 6)
	for _, keys := range w.keys[:10] {
		w.index.Match(keys, nil, nil) // so that some of it is hot
	}
	return export(t, w.index)
}

var snapshotErrors = []error{
	kvcache.ErrSnapshotFormat, kvcache.ErrSnapshotVersion, kvcache.ErrSnapshotKeys, kvcache.ErrSnapshotCorrupt,
}

// refused checks that a snapshot is refused with a typed error and that nothing
// changed.
func refused(t *testing.T, snap []byte, what string, at int) {
	t.Helper()
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("worker 0")
	stats, err := x.Import(bytes.NewReader(snap), nil)
	require.Error(t, err, "%s at %d", what, at)
	typed := false
	for _, want := range snapshotErrors {
		typed = typed || errors.Is(err, want)
	}
	require.True(t, typed, "%s at %d: %v", what, at, err)
	require.Zero(t, stats)
	require.Zero(t, x.Stats().Pairs)
	require.Zero(t, x.BlockSize(o))
	require.Equal(t, kvcache.Blind, x.Trust(o))
}

func TestImportDamaged(t *testing.T) {
	snap := smallSnapshot(t)
	step := 1
	if raceEnabled {
		step = 7
	}
	for i := 0; i < len(snap); i += step {
		for _, flip := range []byte{1, 0x80, 0xff} {
			snap[i] ^= flip
			refused(t, snap, "flipped", i)
			snap[i] ^= flip
		}
		refused(t, snap[:i], "cut", i)
	}
	refused(t, append(slices.Clip(snap), 0), "longer", len(snap))
}

// Whole sections that are missing, come twice or have changed places.
func TestImportRearranged(t *testing.T) {
	snap := smallSnapshot(t)
	var parts [][]byte
	for at := 24; at < len(snap); {
		n := 5 + int(binary.LittleEndian.Uint32(snap[at+1:])) + 8
		parts = append(parts, snap[at:at+n])
		at += n
	}
	require.Greater(t, len(parts), 5)
	build := func(parts ...[]byte) []byte {
		return append(slices.Clone(snap[:24]), bytes.Join(parts, nil)...)
	}
	require.Equal(t, snap, build(parts...))
	last := len(parts) - 1
	for i := range parts[:last] {
		refused(t, build(slices.Delete(slices.Clone(parts), i, i+1)...), "missing", i)
		refused(t, build(slices.Insert(slices.Clone(parts), i, parts[i])...), "twice", i)
		if i+1 < last {
			swapped := slices.Clone(parts)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			refused(t, build(swapped...), "swapped", i)
		}
	}
	refused(t, build(parts[:last]...), "no end", last)
}

// Damage that the checksums do not show must be harmless at least.
func TestImportResealed(t *testing.T) {
	snap := smallSnapshot(t)
	require.Equal(t, snap, reseal(snap))
	taken := 0
	step := 5
	if raceEnabled {
		step = 31
	}
	for i := 24; i < len(snap); i += step {
		for _, flip := range []byte{1, 2, 0x80, 0xff} {
			snap[i] ^= flip
			taken += importAnything(t, reseal(snap), 700)
			snap[i] ^= flip
		}
	}
	assert.Positive(t, taken)
}

// importAnything imports what may be anything into an index where another owner
// holds others blocks, and returns how many pairs were taken over.
func importAnything(t testing.TB, snap []byte, others int) int {
	t.Helper()
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	other := x.Join("other")
	x.Apply(other, testChain(others))
	for range 4 {
		x.Join("worker 0")
		x.Join("worker 1")
	}
	stats, err := x.Import(bytes.NewReader(snap), nil)
	require.Equal(t, x.Stats().Pairs, stats.Pairs+others)
	if err != nil {
		require.Zero(t, stats)
	} else {
		require.NoError(t, x.Check())
	}
	hits := make([]kvcache.Hit, 1)
	x.Match(testKeys(others), []kvcache.Owner{other}, hits)
	require.EqualValues(t, others, hits[0].Confirmed)
	return stats.Pairs
}

func TestImportVersions(t *testing.T) {
	snap := smallSnapshot(t)
	for _, v := range []uint32{0, kvcache.SnapshotVersion + 1, 1 << 31} {
		other := append([]byte{}, snap...)
		binary.LittleEndian.PutUint32(other[8:], v)
		_, err := kvcache.NewIndex(kvcache.Options{}).Import(bytes.NewReader(other), nil)
		require.ErrorIs(t, err, kvcache.ErrSnapshotVersion)
	}
	// An older one, by hand: its header and nothing that this version knows.
	older := append([]byte("KVSTEER\x1a\x00\x00\x00\x00"), bytes.Repeat([]byte{0xaa}, 99)...)
	_, err := kvcache.NewIndex(kvcache.Options{}).Import(bytes.NewReader(older), nil)
	require.ErrorIs(t, err, kvcache.ErrSnapshotVersion)

	other := append([]byte{}, snap...)
	other[16] ^= 1
	_, err = kvcache.NewIndex(kvcache.Options{}).Import(bytes.NewReader(other), nil)
	require.ErrorIs(t, err, kvcache.ErrSnapshotKeys)

	for _, foreign := range []string{"", "{}", "PK\x03\x04 and more than a header's worth of bytes"} {
		_, err = kvcache.NewIndex(kvcache.Options{}).Import(bytes.NewReader([]byte(foreign)), nil)
		require.Error(t, err)
		if foreign != "" {
			require.ErrorIs(t, err, kvcache.ErrSnapshotFormat)
		}
	}
}

// Keys, hashes and the format are the same on every machine and in every release
// that has this version: a snapshot made by hand.
func TestSnapshotGolden(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("w")
	x.Apply(o, testChain(2))
	x.SetPosition(o, kvcache.Position{Seq: 258, Proof: 7, Whole: true})
	var want []byte
	le := binary.LittleEndian
	section := func(kind byte, payload []byte) {
		from := len(want)
		want = le.AppendUint32(append(want, kind), uint32(len(payload)))
		want = append(want, payload...)
		want = le.AppendUint64(want, xxhash.Sum64(want[from:]))
	}
	want = append(want, "KVSTEER\x1a\x02\x00\x00\x00\x00\x00\x00\x00"...)
	h := kvcache.Hasher{BlockSize: 1}
	root := h.Root(kvcache.Scope{Adapter: "a", Salt: "s"})
	want = le.AppendUint64(want, uint64(h.Next(root, []uint32{1, 2, 3}, []kvcache.Extra{{ID: "x", Offset: 1}})))
	section(1, []byte("\x00\x00\x01\x00w\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+
		"\x03\x02\x01\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00"))
	blocks := []byte("\x02\x00\x00\x00\x00")
	for _, k := range testKeys(2) {
		blocks = le.AppendUint64(blocks, uint64(k))
	}
	blocks = le.AppendUint64(le.AppendUint64(blocks, 1), 2)
	section(3, blocks)
	sum := xxhash.Sum64(want)
	section(4, le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, 2), 2), sum))
	require.Equal(t, want, export(t, x))
}

// A length that is only announced takes no memory.
func TestImportAnnounced(t *testing.T) {
	snap := smallSnapshot(t)[:24]
	snap = append(snap, 2, 0, 0, 0x40, 0) // 4 MiB of blocks
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := kvcache.NewIndex(kvcache.Options{}).Import(bytes.NewReader(snap), nil)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, kvcache.ErrSnapshotCorrupt)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

var errDisk = errors.New("disk")

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

func TestSnapshotFailingStreams(t *testing.T) {
	w := newSnapWorld(5, 3, 6)
	snap := export(t, w.index)
	for _, n := range []int{0, 30, len(snap) - 1} {
		require.ErrorIs(t, w.index.Export(&failingWriter{n}), errDisk)
		x := kvcache.NewIndex(kvcache.Options{})
		_, err := x.Import(io.MultiReader(bytes.NewReader(snap[:n]), iotest.ErrReader(errDisk)), nil)
		require.ErrorIs(t, err, errDisk)
	}
	require.NoError(t, w.index.Export(&failingWriter{len(snap)}))
	// Without seeking it must fit the budget.
	big := io.MultiReader(bytes.NewReader(snap), zeros{})
	_, err := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes}).Import(big, nil)
	require.ErrorIs(t, err, kvcache.ErrSnapshotTooLarge)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A file that is replaced while it is read: the readings differ.
func TestImportChanges(t *testing.T) {
	small := kvcache.NewIndex(kvcache.Options{})
	small.Apply(small.Join("a"), testChain(3))
	large := kvcache.NewIndex(kvcache.Options{})
	large.Apply(large.Join("a"), testChain(5))
	large.Apply(large.Join("b"), testChain(5))
	r := &changingReader{snaps: [][]byte{export(t, small), export(t, large)}}
	y := kvcache.NewIndex(kvcache.Options{})
	a, b := y.Join("a"), y.Join("b")
	_, err := y.Import(r, nil)
	require.ErrorIs(t, err, kvcache.ErrSnapshotCorrupt)
	require.LessOrEqual(t, y.Resident(a), 5)
	require.Zero(t, y.Resident(b))
	require.NoError(t, y.Check())
	y.Book(a, testKeys(9), time.Hour)
	require.NoError(t, y.Check())
}

// changingReader has other content after each seek to its start.
type changingReader struct {
	bytes.Reader
	snaps [][]byte
}

func (r *changingReader) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		r.Reset(r.snaps[0])
		if len(r.snaps) > 1 {
			r.snaps = r.snaps[1:]
		}
	}
	return offset, nil
}
