package kvcache

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Export writes a snapshot of what all owners hold, for [Index.Import] to read:
// for each owner its name and block size, its blocks with their keys, and the
// engine's hashes with their copies by tier; its [Position], and a sum of what is
// missing. Bookings and orphans are left out, as are trust and counters, owners of
// which nothing is known, that are hybrids or have names of more than 4 KiB, and the
// hashes of a block beyond its eighth. For each owner of which a message is being applied, Export
// waits for its end, up to some 50 ms.
//
// It holds up no Match, and other writers for as long as it takes to copy one
// owner's share, 20 to 40 ns a block, or 40 ms per million. Each owner's share is as it was
// at one moment; those of different owners may be from different moments. It
// takes memory for the largest share, some 17 bytes for each block. A snapshot
// holds hashes, and neither tokens nor text; its checksums guard against damage,
// not against forgery.
func (x *Index) Export(w io.Writer) error {
	out := snapWriter{w: w, sum: xxhash.New()}
	out.write(snapHeader())
	var share snapShare
	for _, n := range x.namesakes() {
		if out.err != nil {
			break
		}
		x.copyShare(n, &share)
		out.pairs += uint64(share.pairs)
		for i := range share.sections {
			out.write(share.sections[i])
			out.sections++
		}
	}
	end := binary.LittleEndian.AppendUint64(nil, out.sections)
	end = binary.LittleEndian.AppendUint64(end, out.pairs)
	end = binary.LittleEndian.AppendUint64(end, out.sum.Sum64())
	share.reset()
	share.begin(snapEnd)
	share.buf = append(share.buf, end...)
	share.close()
	out.write(share.sections[0])
	if out.err != nil {
		return fmt.Errorf("kvcache: write snapshot: %w", out.err)
	}
	return nil
}

type snapWriter struct {
	w               io.Writer
	sum             *xxhash.Digest
	sections, pairs uint64
	err             error
}

func (o *snapWriter) write(b []byte) {
	if o.err != nil {
		return
	}
	_, _ = o.sum.Write(b) // never fails
	_, o.err = o.w.Write(b)
}

// snapShare is one owner's part of a snapshot, as finished sections.
type snapShare struct {
	sections [][]byte
	buf      []byte // the section being written
	spare    [][]byte
	pairs    int
	counted  []int // the owner's groups that may have copies, beside its full ones
}

func (p *snapShare) reset() {
	p.spare = append(p.spare, p.sections...)
	p.sections, p.buf, p.pairs = p.sections[:0], nil, 0
}

func (p *snapShare) begin(kind byte) {
	if n := len(p.spare); n > 0 {
		p.buf, p.spare = p.spare[n-1][:0], p.spare[:n-1]
	}
	p.buf = append(p.buf, kind, 0, 0, 0, 0)
}

// close finishes a section; one without a payload is not kept.
func (p *snapShare) close() {
	if n := len(p.buf) - snapSectionTop; n > 0 {
		binary.LittleEndian.PutUint32(p.buf[1:], uint32(n))
		p.sections = append(p.sections, binary.LittleEndian.AppendUint64(p.buf, xxhash.Sum64(p.buf)))
	} else {
		p.spare = append(p.spare, p.buf)
	}
	p.buf = nil
}

// namesake is an owner and which of those that joined under its name it is.
type namesake struct {
	owner Owner
	nth   int
}

// namesakes lists all owners in the order in which they joined.
func (x *Index) namesakes() []namesake {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]namesake, 0, x.joined)
	for _, s := range x.owners {
		if s != nil {
			list = append(list, namesake{owner: s.id})
		}
	}
	slices.SortFunc(list, func(a, b namesake) int { return cmp.Compare(a.owner.id, b.owner.id) })
	count := make(map[string]int, len(list))
	for i := range list {
		name := x.owners[list[i].owner.slot()].name
		list[i].nth = count[name]
		count[name]++
	}
	return list
}

// messagePatience is how long Export waits for the end of a message.
const messagePatience = 50 * time.Millisecond

// copyShare writes what an owner holds. While a message is being applied, that has
// no one place in the stream: then whoever applies it does the writing, at its end.
func (x *Index) copyShare(n namesake, p *snapShare) {
	x.mu.Lock()
	s := x.owner(n.owner)
	if s == nil || s.placed || !s.tracked {
		x.writeShare(s, n.nth, p)
		x.mu.Unlock()
		return
	}
	done := make(chan struct{})
	id := x.await(s, func() {
		x.writeShare(s, n.nth, p)
		close(done)
	})
	x.mu.Unlock()
	timer := time.NewTimer(messagePatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		x.mu.Lock()
		defer x.mu.Unlock()
		if _, waiting := s.awaited[id]; waiting {
			delete(s.awaited, id)
			x.writeShare(x.owner(n.owner), n.nth, p)
		}
	}
}

// writeShare writes what s holds, nil for an owner that left.
func (x *Index) writeShare(s *owner, nth int, p *snapShare) {
	p.reset()
	if s == nil || len(s.full) == 0 || s.isHybrid() || len(s.name) > snapNameMax || s.table.dir == nil && !s.placed {
		return
	}
	p.begin(snapOwner)
	p.owner(s, nth)
	p.close()
	runs := x.runsOf(s)
	for _, kind := range []byte{snapHot, snapCold} {
		p.begin(kind)
		for _, id := range runs {
			if hot := x.run(id).lately() > 0; hot != (kind == snapHot) {
				continue
			}
			x.copyPiece(s, id, p)
			if len(p.buf) >= snapSection {
				p.close()
				p.begin(kind)
			}
		}
		p.close()
	}
	if p.pairs == 0 && !s.placed {
		p.reset()
	}
}

// lately is how many blocks from the head on have been matched lately.
func (r *run) lately() int { return max(int(r.touch.Load()), int(r.touched)) }

func (p *snapShare) owner(s *owner, nth int) {
	p.buf = binary.LittleEndian.AppendUint16(p.buf, uint16(nth))
	p.buf = binary.LittleEndian.AppendUint16(p.buf, uint16(len(s.name)))
	p.buf = append(p.buf, s.name...)
	p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(s.blockSize))
	p.counted = p.counted[:0]
	for _, g := range s.counted {
		if !slices.Contains(s.full, g) {
			p.counted = append(p.counted, g)
		}
	}
	p.buf = append(p.buf, byte(len(s.full)), byte(len(p.counted)), 0)
	for _, g := range s.full {
		p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(int64(g)))
	}
	for _, g := range p.counted {
		p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(int64(g)))
	}
	p.state(s)
}

// state writes an owner's position and what it will lack.
func (p *snapShare) state(s *owner) {
	at := len(p.buf)
	p.buf = append(p.buf, 0)
	if s.placed {
		p.buf[at] |= snapPlaced
		if s.position.Whole {
			p.buf[at] |= snapWhole
		}
		p.buf = binary.LittleEndian.AppendUint64(p.buf, s.position.Seq)
		p.buf = binary.LittleEndian.AppendUint64(p.buf, s.position.Proof)
	}
	l := s.lost
	for h := range s.orphans {
		s.copiesOf(h, 0, func(gt groupTier, n uint32) { l.add(ReasonSnapshot, h, gt, n) })
	}
	for _, list := range s.alias {
		for _, h := range list[min(len(list), snapHashes-1):] {
			s.copiesOf(h, 0, func(gt groupTier, n uint32) { l.add(ReasonSnapshot, h, gt, n) })
		}
	}
	if l.any() {
		p.buf[at] |= snapShort
		p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(int64(l.copies)))
		p.buf = binary.LittleEndian.AppendUint64(p.buf, l.sum)
		p.buf = append(p.buf, byte(l.why))
	}
}

// copyPiece writes what s holds of a run.
func (x *Index) copyPiece(s *owner, id uint32, p *snapShare) {
	r := x.run(id)
	i := x.findCover(r, s.slot)
	if i < 0 {
		return
	}
	x.load(s, id, i)
	defer func() { x.cur = cover{} }()
	c := &x.cur
	n := c.end()
	if n == 0 {
		return // only booked
	}
	form := byte(snapPlain)
	if c.width > 0 || len(s.alias) > 0 || len(s.over) > 0 {
		form = snapMixed
	}
	p.buf = binary.LittleEndian.AppendUint16(p.buf, uint16(n))
	p.buf = binary.LittleEndian.AppendUint16(p.buf, uint16(min(r.lately(), n)))
	p.buf = append(p.buf, form)
	keys := x.arena.slice(r.keys(), n)
	for j := range keys {
		p.buf = binary.LittleEndian.AppendUint64(p.buf, keys[j].Load())
	}
	if form == snapPlain {
		p.pairs += n
		for j := range c.hashWords[:n] {
			p.buf = binary.LittleEndian.AppendUint64(p.buf, c.hashWords[j].Load())
		}
		return
	}
	for off := range n {
		if !c.hashed(off) {
			p.buf = append(p.buf, 0)
			continue
		}
		p.pairs++
		aliases := s.alias[refOf(id, off)]
		aliases = aliases[:min(len(aliases), snapHashes-1)]
		p.buf = append(p.buf, byte(1+len(aliases)))
		p.hash(s, EngineHash(c.hashWords[off].Load()), c.tiers(off))
		for _, h := range aliases {
			p.hash(s, h, 0)
		}
	}
}

func (p *snapShare) hash(s *owner, h EngineHash, tiers uint8) {
	p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(h))
	if !s.explicit(h) {
		p.buf = append(p.buf, tiers)
		return
	}
	at := len(p.buf)
	p.buf = append(p.buf, snapCounts)
	put := func(which, group int) {
		n := s.over[hashGroup{h, group}]
		if n == [NumTiers]uint32{} {
			return
		}
		p.buf[at]++
		p.buf = append(p.buf, byte(which))
		for _, v := range n {
			p.buf = binary.LittleEndian.AppendUint32(p.buf, v)
		}
	}
	for i, g := range s.full {
		put(i, g)
	}
	for i, g := range p.counted {
		put(len(s.full)+i, g)
	}
}
