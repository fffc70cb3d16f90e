package kvcache

import (
	"math/bits"
	"sync/atomic"
)

// A cover is what one owner holds of one run. Readers see one word of it:
//
//	bits  0-15  the owner's slot
//	bits 16-25  how many blocks from the run's head on are resident
//	bits 26-35  how many of those, from the head on, are confirmed
//	bit  36     all of those resident are in GPU memory, or booked
//	bits 37-40  order of the piece that holds the engine's hashes
//	bits 41-50  how many blocks are held at all
//
// and, when it is not all GPU memory, a second one that says where the hashes
// are, 32 bits, and the planes, 32; 0 is none.
// The usual cover is an unbroken stretch from the head, confirmed, in GPU memory:
// the first word says it all and there are no planes. Anything else, such as a
// hole, another tier, a booking, needs planes: one bit per block for each tier
// from which the block can be used, for booked blocks, and for those that have
// an engine hash. Before the planes there is a word that says how many words each
// has, 32 bits, and which is the first stretch of booked blocks, 32.
//
// A run's covers lie side by side, two words each.

// The planes. The first NumTiers are tiers.
const (
	planeBooked = NumTiers + iota
	planeHashed
	numPlanes
)

const (
	coverCounts = 10 // bits
	coverMask   = 1<<coverCounts - 1
	coverLead   = 16
	coverFirm   = coverLead + coverCounts
	coverGPU    = coverFirm + coverCounts
	coverHashes = coverGPU + 1
	coverHeld   = coverHashes + 4
	coverNibble = 15
)

// cover is a cover taken apart, for a writer to work on. It is written back by
// flush. An Index works on one at a time.
type cover struct {
	id   uint32 // the run, 0 for none
	r    *run
	i    int // which of the run's covers
	s    *owner
	lead int
	held int
	near int // what onGPU said when it was opened
	// words per plane and the pieces; 0 for none
	width      int
	planes     uint32
	hashes     uint32
	hashOrder  uint8
	stretch    uint32 // the first
	planeWords []atomic.Uint64
	hashWords  []atomic.Uint64
}

// find returns which of r's covers is slot's, or -1.
func (x *Index) findCover(r *run, slot uint16) int {
	n := r.covers()
	if n == 0 {
		return -1
	}
	words := x.arena.slice(uint32(r.at.Load()), 2*n)
	for i := 0; i < len(words); i += 2 {
		if uint16(words[i].Load()) == slot {
			return i / 2
		}
	}
	return -1
}

// open makes c the cover of s in a run, new if add is set; false if there is
// none.
func (x *Index) open(s *owner, id uint32, add bool) bool {
	c := &x.cur
	if c.id == id && c.s == s {
		return true
	}
	x.flush()
	r := x.run(id)
	i := x.findCover(r, s.slot)
	if i < 0 {
		if !add {
			return false
		}
		if i = x.addCover(r, s.slot); i < 0 {
			return false
		}
	}
	x.load(s, id, i)
	return true
}

func (x *Index) load(s *owner, id uint32, i int) {
	c := &x.cur
	r := x.run(id)
	w0, w1 := x.coverWords(r, i)
	a, b := w0.Load(), w1.Load()
	*c = cover{
		id: id, r: r, i: i, s: s,
		lead: int(a >> coverLead & coverMask), held: int(a >> coverHeld & coverMask),
		hashOrder: uint8(a >> coverHashes & coverNibble),
		hashes:    uint32(b >> 32), planes: uint32(b),
	}
	if c.planes != 0 {
		head := x.arena.word(c.planes).Load()
		c.width, c.stretch = int(uint32(head)), uint32(head>>32)
		c.planeWords = x.arena.slice(c.planes+1, c.width*numPlanes)
	}
	if c.hashes != 0 {
		c.hashWords = x.arena.slice(c.hashes, 1<<c.hashOrder)
	}
	c.near = c.onGPU()
}

func (x *Index) coverWords(r *run, i int) (w0, w1 *atomic.Uint64) {
	words := x.arena.slice(uint32(r.at.Load())+2*uint32(i), 2)
	return &words[0], &words[1]
}

// addCover adds an empty cover; -1 if there is no memory.
func (x *Index) addCover(r *run, slot uint16) int {
	n := r.covers()
	room := 0
	if r.coversOrder > 0 {
		room = 1 << (r.coversOrder - 1)
	}
	if n == holdersMax || n == room && !x.resizeCovers(r, max(1, r.coversOrder+1)) {
		return -1
	}
	w0, w1 := x.coverWords(r, n)
	w1.Store(0)
	w0.Store(uint64(slot) | 1<<coverGPU)
	r.set(r.len(), n+1, false)
	return n
}

// resizeCovers moves the covers to a piece of another order; 0 is no piece.
func (x *Index) resizeCovers(r *run, order uint8) bool {
	var to uint32
	if order > 0 {
		if to = x.arena.alloc(order); to == 0 {
			return false
		}
	}
	at := r.at.Load()
	from, old, n := uint32(at), r.coversOrder, r.covers()
	if from != 0 && to != 0 {
		x.copyWords(to, from, 2*n)
	}
	r.at.Store(at&^0xffffffff | uint64(to))
	r.coversOrder = order
	r.bump()
	if from != 0 {
		x.arena.release(from, old)
	}
	return true
}

// flush writes the current cover back and lets go of what it does not need.
func (x *Index) flush() {
	c := &x.cur
	if c.id == 0 {
		return
	}
	id := c.id
	c.s.near += c.onGPU() - c.near
	if p := &x.slots.Load().pairs[c.s.slot]; p.Load() != int64(c.s.pairs) {
		p.Store(int64(c.s.pairs))
	}
	if c.held == 0 {
		x.removeCover(c)
	} else {
		x.store0(c)
	}
	*c = cover{}
	x.settle(id)
}

// store0 works out what readers need to know.
func (x *Index) store0(c *cover) {
	lead, firm, gpu := c.lead, c.lead, true
	var drop uint32
	var dropOrder uint8
	if c.width > 0 {
		var plain bool
		lead, firm, gpu, plain = c.survey()
		if plain {
			drop, dropOrder = c.planes, planesOrder(c.width)
			c.width, c.planes, c.planeWords = 0, 0, nil
		}
		c.lead = lead
	}
	// Hash storage follows the blocks that may still have one.
	end := c.end()
	if c.hashes != 0 && c.hashOrder > 3 && end <= 1<<(c.hashOrder-2) {
		x.resizeHashes(c, orderOf(2*end), end)
	}
	w0, w1 := x.coverWords(c.r, c.i)
	v0 := uint64(c.s.slot) | uint64(lead)<<coverLead | uint64(firm)<<coverFirm |
		uint64(c.hashOrder)<<coverHashes | uint64(c.held)<<coverHeld
	if gpu {
		v0 |= 1 << coverGPU
	}
	v1 := uint64(c.hashes)<<32 | uint64(c.planes)
	if w1.Load() != v1 {
		w1.Store(v1)
	}
	if w0.Load() != v0 {
		w0.Store(v0)
	}
	if drop != 0 {
		c.r.bump()
		x.arena.release(drop, dropOrder)
	}
}

// survey reads the planes: how many leading blocks are resident, how many of
// them confirmed, whether all are in GPU memory, and whether the planes say
// nothing that these numbers do not.
func (c *cover) survey() (lead, firm int, gpu, plain bool) {
	gpu, plain = true, true
	leading, firming := true, true
	for w := range c.width {
		g := c.plane(TierGPU, w).Load()
		slow := c.plane(TierCPU, w).Load() | c.plane(TierDisk, w).Load() | c.plane(TierRemote, w).Load()
		booked, hashed := c.plane(planeBooked, w).Load(), c.plane(planeHashed, w).Load()
		var n int
		if leading {
			n = bits.TrailingZeros64(^(g | slow | booked))
			lead += n
			leading = n == 64
			mask := ^uint64(0)
			if n < 64 {
				mask = 1<<n - 1
			}
			if (slow&^g)&mask != 0 {
				gpu = false
			}
		}
		if firming {
			m := bits.TrailingZeros64(^(g | slow))
			firm += m
			firming = m == 64
		}
		if slow|booked != 0 || g != hashed {
			plain = false
		}
	}
	return lead, firm, gpu, plain && lead == c.held
}

// onGPU counts the blocks that are in GPU memory, or booked and so expected there.
func (c *cover) onGPU() (n int) {
	switch {
	case c.held == 0: // whatever the rest says: it is on its way out
		return 0
	case c.width == 0:
		return c.lead
	}
	for w := range c.width {
		n += bits.OnesCount64(c.plane(TierGPU, w).Load() | c.plane(planeBooked, w).Load())
	}
	return n
}

// end is the place after the last block that has a hash.
func (c *cover) end() int {
	if c.width == 0 {
		return c.lead
	}
	for w := c.width - 1; w >= 0; w-- {
		if h := c.plane(planeHashed, w).Load(); h != 0 {
			return w*64 + bits.Len64(h)
		}
	}
	return 0
}

// removeCover removes an empty cover; the last one takes its place.
func (x *Index) removeCover(c *cover) {
	r := c.r
	n := r.covers() - 1
	if c.i < n {
		from0, from1 := x.coverWords(r, n)
		to0, to1 := x.coverWords(r, c.i)
		to1.Store(from1.Load())
		to0.Store(from0.Load())
	}
	r.set(r.len(), n, true)
	if c.hashes != 0 {
		x.arena.release(c.hashes, c.hashOrder)
	}
	if c.width > 0 {
		x.arena.release(c.planes, planesOrder(c.width))
	}
	switch {
	case n == 0:
		x.resizeCovers(r, 0)
	case r.coversOrder > 2 && n <= 1<<(r.coversOrder-3):
		x.resizeCovers(r, r.coversOrder-1)
	}
}

func (c *cover) plane(p Tier, w int) *atomic.Uint64 { return &c.planeWords[int(p)*c.width+w] }

func (c *cover) bit(p Tier, off int) bool {
	return off>>6 < c.width && c.plane(p, off>>6).Load()>>(off&63)&1 != 0
}

func (c *cover) setBit(p Tier, off int, on bool) {
	w := c.plane(p, off>>6)
	v := w.Load() &^ (1 << (off & 63))
	if on {
		v |= 1 << (off & 63)
	}
	w.Store(v)
}

// hashed and booked tell what makes the block at off held.
func (c *cover) hashed(off int) bool {
	if c.width == 0 {
		return off < c.lead
	}
	return c.bit(planeHashed, off)
}

func (c *cover) booked(off int) bool { return c.bit(planeBooked, off) }

// tiers returns the tiers that the block at off can be used from, as bits.
func (c *cover) tiers(off int) (mask uint8) {
	if c.width == 0 {
		if off < c.lead {
			mask = 1 << TierGPU
		}
		return mask
	}
	for t := range Tier(NumTiers) {
		if c.bit(t, off) {
			mask |= 1 << t
		}
	}
	return mask
}

// widen gives the cover planes that reach off.
func (x *Index) widen(c *cover, off int) bool {
	if off>>6 < c.width {
		return true
	}
	width := max(off>>6+1, (c.lead+63)>>6)
	planes := x.arena.alloc(planesOrder(width))
	if planes == 0 {
		return false
	}
	x.arena.word(planes).Store(planesHead(width, c.stretch))
	words := x.arena.slice(planes+1, width*numPlanes)
	for p := range numPlanes {
		for w := range width {
			var v uint64
			switch {
			case w < c.width:
				v = c.plane(Tier(p), w).Load()
			case c.width == 0 && (p == int(TierGPU) || p == planeHashed):
				v = leadingOnes(c.lead - 64*w)
			}
			words[p*width+w].Store(v)
		}
	}
	old, oldWidth := c.planes, c.width
	c.planes, c.width, c.planeWords = planes, width, words
	if oldWidth > 0 {
		x.swap(c)
		x.arena.release(old, planesOrder(oldWidth))
	}
	return true
}

// swap shows readers the cover's new pieces, before the old ones are freed.
func (x *Index) swap(c *cover) {
	w0, w1 := x.coverWords(c.r, c.i)
	w0.Store(w0.Load()&^(coverNibble<<coverHashes) | uint64(c.hashOrder)<<coverHashes)
	w1.Store(uint64(c.hashes)<<32 | uint64(c.planes))
	c.r.bump()
}

func planesHead(width int, stretch uint32) uint64 { return uint64(stretch)<<32 | uint64(width) }

func planesOrder(width int) uint8 { return orderOf(1 + width*numPlanes) }

func leadingOnes(n int) uint64 {
	switch {
	case n <= 0:
		return 0
	case n >= 64:
		return ^uint64(0)
	default:
		return 1<<n - 1
	}
}

// reach gives the cover room for a hash at off, with more to come.
func (x *Index) reach(c *cover, off, want int) bool {
	if c.hashes != 0 && off < 1<<c.hashOrder {
		return true
	}
	n := off + max(1, want)
	if c.hashes != 0 {
		n = max(n, off+1, 2<<c.hashOrder)
	}
	return x.resizeHashes(c, orderOf(min(runMax, n)), 1<<c.hashOrder)
}

// resizeHashes keeps the first n hashes.
func (x *Index) resizeHashes(c *cover, order uint8, n int) bool {
	to := x.arena.alloc(order)
	if to == 0 {
		return false
	}
	old, oldOrder := c.hashes, c.hashOrder
	if old != 0 {
		x.copyWords(to, old, min(n, 1<<order))
	}
	c.hashes, c.hashOrder = to, order
	c.hashWords = x.arena.slice(to, 1<<order)
	if old != 0 {
		x.arena.release(old, oldOrder)
	}
	return true
}
