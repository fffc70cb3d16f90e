package kvcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// snapReader reads one snapshot, section by section. It takes no more memory
// than there is data, whatever lengths are announced.
type snapReader struct {
	r        io.Reader
	sum      *xxhash.Digest
	buf      bytes.Buffer
	version  uint32
	sections uint64
	pairs    uint64 // as the end says
}

func newSnapReader(r io.Reader) (*snapReader, error) {
	d := &snapReader{r: r, sum: xxhash.New()}
	if err := d.fill(snapHeaderSize); err != nil {
		got := d.buf.Bytes()
		if n := min(len(got), len(snapMagic)); string(got[:n]) != snapMagic[:n] {
			return nil, ErrSnapshotFormat
		}
		return nil, err
	}
	_, _ = d.sum.Write(d.buf.Bytes())
	d.version = binary.LittleEndian.Uint32(d.buf.Bytes()[len(snapMagic):])
	return d, checkSnapHeader(d.buf.Bytes())
}

// fill reads the next n bytes into an empty buffer.
func (d *snapReader) fill(n int) error {
	d.buf.Reset()
	return d.more(n)
}

func (d *snapReader) more(n int) error {
	got, err := io.CopyN(&d.buf, d.r, int64(n))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %d bytes are missing: %w", ErrSnapshotCorrupt, int64(n)-got, io.ErrUnexpectedEOF)
	default:
		return fmt.Errorf("kvcache: read snapshot: %w", err)
	}
}

// next returns the next section; its kind is snapEnd after the last. The payload
// is valid until the next call.
func (d *snapReader) next() (kind byte, payload []byte, err error) {
	if err := d.fill(snapSectionTop); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(d.buf.Bytes()[1:])
	if n > snapSectionMax {
		return 0, nil, snapCorrupt("a section is too long")
	}
	if err := d.more(int(n) + snapSumSize); err != nil {
		return 0, nil, err
	}
	all := d.buf.Bytes()
	body := all[:len(all)-snapSumSize]
	if xxhash.Sum64(body) != binary.LittleEndian.Uint64(all[len(body):]) && !planted.SnapshotTrusted {
		return 0, nil, snapCorrupt("a section's checksum is wrong")
	}
	kind, payload = body[0], body[snapSectionTop:]
	if kind == snapEnd {
		return kind, nil, d.end(payload)
	}
	_, _ = d.sum.Write(all)
	d.sections++
	return kind, payload, nil
}

func (d *snapReader) end(p []byte) error {
	if len(p) != snapEndSize || binary.LittleEndian.Uint64(p) != d.sections ||
		binary.LittleEndian.Uint64(p[16:]) != d.sum.Sum64() && !planted.SnapshotTrusted {
		return snapCorrupt("sections are missing or out of place")
	}
	d.pairs = binary.LittleEndian.Uint64(p[8:])
	switch err := d.fill(1); {
	case err == nil:
		return snapCorrupt("something follows its end")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	default:
		return err
	}
}

// snapFields reads what a payload holds. Reading beyond its end sets short.
type snapFields struct {
	p     []byte
	short bool
}

func (f *snapFields) take(n int) []byte {
	if n > len(f.p) {
		f.short = true
		return nil
	}
	b := f.p[:n]
	f.p = f.p[n:]
	return b
}

func (f *snapFields) u8() int {
	if b := f.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (f *snapFields) u16() int {
	if b := f.take(2); b != nil {
		return int(binary.LittleEndian.Uint16(b))
	}
	return 0
}

func (f *snapFields) u32() uint32 {
	if b := f.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *snapFields) u64() uint64 {
	if b := f.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// snapOwnerInfo is the section that describes an owner.
type snapOwnerInfo struct {
	name                 string
	nth                  int
	blockSize            int
	full, counted, other []int
	position             Position
	placed               bool
	lost                 lost
}

// groups is how many groups copies may be in.
func (o *snapOwnerInfo) groups() int { return len(o.full) + len(o.counted) }

func (o *snapOwnerInfo) group(i int) int {
	if i < len(o.full) {
		return o.full[i]
	}
	return o.counted[i-len(o.full)]
}

func decodeSnapOwner(p []byte, version uint32) (o snapOwnerInfo, err error) {
	f := snapFields{p: p}
	o.nth = f.u16()
	n := f.u16()
	if n > snapNameMax {
		return o, snapCorrupt("an owner's name is too long")
	}
	o.name = string(f.take(n))
	size := f.u32()
	o.blockSize = int(size & (1<<31 - 1))
	counts := [3]int{f.u8(), f.u8(), f.u8()}
	for i, list := range []*[]int{&o.full, &o.counted, &o.other} {
		for range counts[i] {
			v := int64(f.u64())
			g := int(v)
			// A group may be counted and turn out to be of other attention.
			if int64(g) != v || slices.Contains(o.full, g) || slices.Contains(*list, g) {
				return o, snapCorrupt("an owner's groups make no sense")
			}
			*list = append(*list, g)
		}
	}
	if version > snapOldest && !o.state(&f) {
		return o, snapCorrupt("an owner's state makes no sense")
	}
	switch {
	case f.short || len(f.p) > 0:
		return o, snapCorrupt("an owner's section has the wrong length")
	case size < 1 || size > 1<<31-1 || len(o.full) < 1 || o.groups() > groupsMax || len(o.other) > groupsMax:
		return o, snapCorrupt("an owner's block size or groups are out of range")
	}
	return o, nil
}

// state reads what version 1 did not have.
func (o *snapOwnerInfo) state(f *snapFields) bool {
	flags := byte(f.u8())
	if flags&snapPlaced != 0 {
		o.placed = true
		o.position = Position{Seq: f.u64(), Proof: f.u64(), Whole: flags&snapWhole != 0}
	}
	if flags&snapShort != 0 {
		o.lost = lost{int(int64(f.u64())), f.u64(), Reason(f.u8())}
	}
	return flags&^snapFlags == 0 && (o.placed || flags&snapWhole == 0) &&
		o.lost.why < NumReasons && o.lost.any() == (flags&snapShort != 0)
}

// snapPiece is what an owner holds of a run. It is used again and again.
type snapPiece struct {
	warm   int
	keys   []Key
	blocks []int // for each key, where its hashes end
	hashes []snapHash
	counts []snapCount
}

// snapHash is an engine's hash with one copy in each of tiers or, when that is 0,
// with the counts up to the index end.
type snapHash struct {
	hash  EngineHash
	tiers uint8
	known bool // to the owner that takes it over
	end   int
}

type snapCount struct {
	which int // index among the owner's groups
	n     [NumTiers]uint32
}

// decode reads one piece off f; false if there is something wrong with it.
func (s *snapPiece) decode(f *snapFields, groups int) bool {
	n := f.u16()
	s.warm = f.u16()
	form := f.u8()
	s.keys, s.blocks, s.hashes, s.counts = s.keys[:0], s.blocks[:0], s.hashes[:0], s.counts[:0]
	if n < 1 || n > runMax || s.warm > n || form > snapMixed {
		return false
	}
	for range n {
		s.keys = append(s.keys, Key(f.u64()))
	}
	for i := range n {
		count := 1
		if form == snapMixed {
			count = f.u8()
		}
		if count > snapHashes || count == 0 && i == n-1 {
			return false
		}
		for range count {
			h := snapHash{hash: EngineHash(f.u64()), tiers: 1 << TierGPU}
			if form == snapMixed && !s.kind(f, &h, groups) {
				return false
			}
			h.end = len(s.counts)
			if s.repeats(h.hash, i) {
				return false
			}
			s.hashes = append(s.hashes, h)
		}
		s.blocks = append(s.blocks, len(s.hashes))
	}
	return !f.short
}

// repeats reports whether the block that is being read has that hash already.
func (s *snapPiece) repeats(h EngineHash, block int) bool {
	start := 0
	if block > 0 {
		start = s.blocks[block-1]
	}
	for i := range s.hashes[start:] {
		if s.hashes[start+i].hash == h {
			return true
		}
	}
	return false
}

// kind reads how many copies a hash has and where.
func (s *snapPiece) kind(f *snapFields, h *snapHash, groups int) bool {
	kind := f.u8()
	if kind&snapCounts == 0 {
		h.tiers = uint8(kind)
		return kind > 0 && kind < 1<<NumTiers
	}
	h.tiers = 0
	last := -1
	for range kind &^ snapCounts {
		c := snapCount{which: f.u8()}
		for t := range c.n {
			c.n[t] = f.u32()
		}
		if c.which <= last || c.which >= groups || c.n == [NumTiers]uint32{} {
			return false
		}
		last = c.which
		s.counts = append(s.counts, c)
	}
	return last >= 0
}
