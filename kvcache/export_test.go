package kvcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Check walks the whole index and compares everything that it keeps twice.
func (x *Index) Check() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cur.id != 0 {
		return errors.New("a cover was left open")
	}
	c := checker{x: x, used: map[uint32]uint8{0: 0}}
	for id := uint32(1); id <= x.topRun; id++ {
		c.run(id)
	}
	for _, s := range x.owners {
		if s != nil {
			c.owner(s)
		}
	}
	c.equal("pairs", c.pairs, x.pairs)
	c.equal("blocks", c.blocks, x.blocks)
	c.equal("bookings", c.booked, x.booked)
	c.equal("windows", c.windowed, int(x.windowed))
	c.equal("hybrids", c.hybrids, int(x.hybrids.Load()))
	c.equal("orphans", c.orphans, int(x.orphans))
	c.equal("stretches by covers", c.stretches, len(x.stretches.heap))
	c.equal("stretches by owners", c.listed, len(x.stretches.heap))
	for i := 1; i < len(x.stretches.heap); i++ {
		if x.stretches.ends((i-1)/2) > x.stretches.ends(i) {
			c.failf("the heap of stretches is out of order")
		}
	}
	c.arena()
	c.bytes += int64(len(x.stretches.heap)) * stretchBytes
	c.bytes += int64(len(*x.pages.Load())) * runPageBytes
	for i := range x.heads.parts {
		if t := x.heads.parts[i].table.Load(); t != nil {
			c.bytes += int64(len(t.slots)) * 8
		}
	}
	c.equal("bytes", int(c.bytes), int(x.mem.used))
	if x.mem.used > x.mem.max+slackForMaps {
		c.failf("%d bytes of %d", x.mem.used, x.mem.max)
	}
	return errors.Join(c.errs...)
}

// slackForMaps is what one event may add to maps beyond the budget, before the
// next one makes room.
const slackForMaps = 128 << 10

type checker struct {
	x                              *Index
	errs                           []error
	used                           map[uint32]uint8 // pieces in use
	pairs, blocks, booked, orphans int
	hybrids, windowed              int
	stretches, listed              int // found by covers and by owners
	bytes                          int64
}

func (c *checker) failf(format string, args ...any) {
	if len(c.errs) < 10 {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

func (c *checker) equal(what string, got, want int) {
	if got != want {
		c.failf("%s: counted %d, kept %d", what, got, want)
	}
}

func (c *checker) piece(at uint32, order uint8) {
	if _, ok := c.used[at]; ok || at == 0 {
		c.failf("piece %d used twice", at)
	}
	c.used[at] = order
}

func (c *checker) run(id uint32) {
	x := c.x
	r := x.run(id)
	n := r.len()
	if n == 0 {
		return
	}
	c.piece(r.keys(), r.keysOrder)
	c.piece(r.counts, countsOrder(r.keysOrder))
	if x.findHead(x.keyAt(refOf(id, 0))) != id {
		c.failf("run %d can't be found by its head", id)
	}
	holders := make([]int, n)
	if r.covers() > 0 {
		c.piece(uint32(r.at.Load()), r.coversOrder)
	}
	for i := range r.covers() {
		c.cover(id, i, holders)
	}
	live := 0
	for off, want := range holders {
		c.equal("holders", x.count(r, off), want)
		if want > 0 {
			live++
		}
	}
	c.equal("live blocks", live, int(r.live))
	c.blocks += live
	if live == 0 || holders[n-1] == 0 {
		c.failf("run %d keeps blocks that nobody holds", id)
	}
}

func (c *checker) cover(id uint32, i int, holders []int) {
	x := c.x
	w0, _ := x.coverWords(x.run(id), i)
	s := x.owners[uint16(w0.Load())]
	if s == nil {
		c.failf("run %d has a cover of nobody", id)
		return
	}
	x.load(s, id, i)
	defer func() { x.cur = cover{} }()
	v := &x.cur
	if v.hashes != 0 {
		c.piece(v.hashes, v.hashOrder)
	}
	if v.width > 0 {
		c.piece(v.planes, planesOrder(v.width))
	}
	held, lead, firm, gpu := 0, 0, 0, true
	for off := range holders {
		hashed, booked, tiers := v.hashed(off), v.booked(off), v.tiers(off)
		if !hashed && !booked {
			continue
		}
		held++
		holders[off]++
		if lead == off && (tiers != 0 || booked) {
			if firm == off && tiers != 0 {
				firm++
			}
			lead++
			gpu = gpu && (tiers == 0 || tiers&1 != 0)
		}
		if booked && tiers != 0 {
			c.failf("a confirmed block is still booked")
		}
		if in := c.stretchesAt(v, off); booked && in != 1 || in > 1 {
			c.failf("a block is in %d stretches", in)
		}
		if hashed {
			c.hash(s, EngineHash(v.hashWords[off].Load()), refOf(id, off))
			for _, h := range s.alias[refOf(id, off)] {
				c.hash(s, h, refOf(id, off))
			}
		}
	}
	c.equal("held", held, v.held)
	for i := v.stretch; i != 0; i = x.stretches.all[i].sibling {
		st := &x.stretches.all[i]
		if st.live == 0 || st.run != id || st.slot != s.slot {
			c.failf("a stretch is not where it says")
		}
		c.equal("live of a stretch", v.bookedBetween(int(st.from), int(st.to)), int(st.live))
		c.stretches++
	}
	w := w0.Load()
	c.equal("lead", lead, int(w>>coverLead&coverMask))
	c.equal("firm", firm, int(w>>coverFirm&coverMask))
	if gpu != (w>>coverGPU&1 != 0) && v.width > 0 {
		c.failf("GPU flag is %v, want %v", !gpu, gpu)
	}
	c.pairs += held
}

func (c *checker) stretchesAt(v *cover, off int) (n int) {
	for i := v.stretch; i != 0; i = c.x.stretches.all[i].sibling {
		st := &c.x.stretches.all[i]
		n += b2i(off >= int(st.from) && off < int(st.to))
	}
	return n
}

func (c *checker) hash(s *owner, h EngineHash, ref uint32) {
	p := s.table.find(tagOf(h))
	for got := p.next(); got != 0; got = p.next() {
		if got == ref {
			return
		}
	}
	c.failf("a hash is not in its owner's table")
}

func (c *checker) owner(s *owner) {
	entries := 0
	s.table.each(func(uint32) { entries++ })
	hashes, pairs, near := 0, 0, 0
	for id := uint32(1); id <= c.x.topRun; id++ {
		i := -1
		if c.x.run(id).len() > 0 {
			i = c.x.findCover(c.x.run(id), s.slot)
		}
		if i < 0 {
			continue
		}
		c.x.load(s, id, i)
		for off := range c.x.run(id).len() {
			near += b2i(c.x.cur.booked(off) || c.x.cur.tiers(off)&(1<<TierGPU) != 0)
			if c.x.cur.hashed(off) {
				hashes += 1 + len(s.alias[refOf(id, off)])
			}
		}
		pairs += c.x.cur.held
		c.x.cur = cover{}
	}
	aliases := 0
	for _, list := range s.alias {
		aliases += len(list)
	}
	c.equal("table entries", entries, hashes)
	c.equal("owner's pairs", pairs, s.pairs)
	c.equal("owner's pairs in GPU memory", near, s.near)
	c.equal("owner's pairs for readers", c.x.Resident(s.id), s.pairs)
	booked, prev := 0, uint32(0)
	for id := s.booked.oldest; id != 0; id = c.x.stretches.all[id].next {
		st := &c.x.stretches.all[id]
		if st.slot != s.slot || st.prev != prev || c.x.stretches.heap[st.place] != id {
			c.failf("a stretch is not in its list and the heap")
		}
		booked, prev = booked+int(st.live), id
		c.listed++
	}
	if s.booked.newest != prev {
		c.failf("a list does not end where it says")
	}
	c.equal("owner's bookings", booked, s.booked.blocks)
	c.booked += booked
	c.orphans += len(s.orphans)
	var last *segment
	for _, g := range s.table.dir {
		if g != last {
			c.bytes += int64(len(g.slots)) * 8
			last = g
		}
	}
	if n := len(s.table.dir); n > 1 {
		c.bytes += int64(n-1) * 8
	}
	c.bytes += int64(len(s.over))*overBytes + int64(aliases)*aliasBytes +
		int64(len(s.orphans))*orphanBytes + int64(s.inWindows())*windowBytes + int64(len(s.ends))*endBytes
	c.windowed += s.inWindows()
	c.hybrids += b2i(c.x.slots.Load().groups[s.slot].Load() != onlyFull)
}

// arena checks that every word is either free once or in use once.
func (c *checker) arena() {
	a := &c.x.arena
	words := 1
	for at, order := range c.used {
		if at != 0 {
			words += 1 << order
		}
	}
	chunks := 0
	for _, free := range a.free {
		if free == nil {
			continue
		}
		chunks++
		for node := range uint32(2 * chunkWords) {
			if free[node/64]>>(node%64)&1 != 0 {
				words += chunkWords >> (bits.Len32(node) - 1)
			}
		}
	}
	c.equal("words", words, max(1, chunks*chunkWords))
	c.equal("words in all", chunks*chunkWords, a.total)
	free := 0
	for k, at := range a.lists {
		for ; at != 0; at = uint32(a.word(at).Load()) {
			free += 1 << k
		}
	}
	c.equal("free words", free, a.total-a.words)
	c.bytes += int64(chunks) * chunkBytes
}

// Shuffle moves whatever lies in every other chunk, the even or the odd ones, as compaction would.
func (x *Index) Shuffle(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := &x.arena
	for id := range a.leave {
		if id > 0 && a.free[id] != nil && a.used[id] > 0 && n%2 == id%2 {
			a.eachFree(uint32(id), a.delist)
			a.leave[id] = true
		}
	}
	for id := uint32(1); id <= x.topRun; id++ {
		if x.run(id).len() > 0 {
			x.moveRun(id)
		}
	}
	a.settle()
}

// ApplyStarved is Apply without any memory for blocks or tables to grow into,
// and without the look ahead that would notice and make room.
func (x *Index) ApplyStarved(o Owner, e *Event) Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil {
		return Outcome{}
	}
	x.expire(expireAll)
	s.placed = false
	var out Outcome
	switch {
	case e.Kind == Cleared:
		x.clear(s)
	case e.Kind == Removed:
		x.starve(true)
		out = x.remove(s, e)
	case e.Kind == Stored && s.ofWindow(e):
		if g := x.learnWindow(s, e); g != nil && e.Tier == TierGPU && !e.AdapterUnnamed {
			x.starve(true)
			for _, h := range e.Hashes {
				x.holdWindow(s, g, h, &out)
			}
		}
	case e.Kind == Stored && s.admit(e) == NoReason && len(e.Tokens) == 0:
		x.starve(true)
		x.copyTo(s, e, &out)
	case e.Kind == Stored && s.admit(e) == NoReason:
		x.learn(s, e)
		p := x.parentOf(s, e)
		x.starve(true)
		for i := range e.Hashes {
			x.storeBlock(s, e, i, &p, &out)
		}
	}
	x.flush()
	x.starve(false)
	s.Count(e.Kind, out)
	return out
}

// BookStarved is Book without any memory to grow into, as ApplyStarved.
func (x *Index) BookStarved(o Owner, keys []Key, ttl time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil || ttl <= 0 {
		return
	}
	now := x.opts.Now()
	x.expireAt(now.UnixNano(), expireAll)
	x.starve(true)
	x.booking = x.booking[:0]
	x.bookBlocks(s, keys, len(keys), now.Add(ttl).UnixNano())
	x.starve(false)
	x.trim(s)
	x.setDue()
}

func (x *Index) starve(on bool) {
	a := &x.arena
	x.mem.max = x.opts.MaxBytes
	if !on {
		a.settle()
		return
	}
	x.mem.max = x.mem.used
	for id := range a.leave {
		if a.free[id] != nil {
			a.eachFree(uint32(id), a.delist)
			a.leave[id] = true
		}
	}
}

// Stretches is how many stretches of booked blocks there are.
func (x *Index) Stretches() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.stretches.heap)
}

// SnapshotSection is a part of a snapshot.
type SnapshotSection struct {
	Kind    byte
	Payload []byte
}

// SealSnapshot makes a snapshot of sections, which may be anything: header,
// checksums and end are right.
func SealSnapshot(version uint32, sections []SnapshotSection) []byte {
	b := snapHeader()
	binary.LittleEndian.PutUint32(b[len(snapMagic):], version)
	section := func(kind byte, payload []byte) {
		at := len(b)
		b = binary.LittleEndian.AppendUint32(append(b, kind), uint32(len(payload)))
		b = append(b, payload...)
		b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[at:]))
	}
	var info snapOwnerInfo
	var piece snapPiece
	pairs := 0
	for _, s := range sections {
		section(s.Kind, s.Payload)
		switch s.Kind {
		case snapOwner:
			info, _ = decodeSnapOwner(s.Payload, version)
		case snapHot, snapCold:
			for f := (snapFields{p: s.Payload}); len(f.p) > 0 && piece.decode(&f, info.groups()); {
				pairs += piece.held()
			}
		default:
		}
	}
	sum := xxhash.Sum64(b)
	end := binary.LittleEndian.AppendUint64(nil, uint64(len(sections)))
	end = binary.LittleEndian.AppendUint64(end, uint64(pairs))
	section(snapEnd, binary.LittleEndian.AppendUint64(end, sum))
	return b
}

// The bounds of HotPrefixes.
const (
	HotEntries = hotEntries
	HotDepth   = hotDepth
)
