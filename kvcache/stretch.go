package kvcache

import "math/bits"

// A stretch is what one call of Book left booked in one run for one owner: blocks
// between two places, of which those are booked that planeBooked of the owner's
// cover says, live in number. All end at one time. An owner's stretches don't
// overlap, and every booked block is in one, so that to book a prompt again is to
// renew a few stretches, however long it is.
type stretch struct {
	expiry         int64 // Unix nanoseconds
	run            uint32
	sibling        uint32 // the next one of the same cover, 0 for none
	prev, next     uint32 // in the owner's list; next of an unused one
	place          uint32 // in the heap
	slot           uint16
	from, to, live uint16
}

// stretchBytes is what a stretch takes, with its place in the heap and what a
// growing slice wastes.
const stretchBytes = 96

// stretches are all owners' stretches, numbered from 1. heap has the one that ends
// next first.
type stretches struct {
	all  []stretch
	heap []uint32
	free uint32
}

// bookings are one owner's: a list of its stretches, least recently booked first.
// Within a stretch the last block counts as the oldest.
type bookings struct {
	oldest, newest uint32
	blocks         int // booked in all of them
}

func (b *bookings) link(all []stretch, id uint32) {
	all[id].prev, all[id].next = b.newest, 0
	if b.newest != 0 {
		all[b.newest].next = id
	} else {
		b.oldest = id
	}
	b.newest = id
}

// linkBefore makes id a bit older than another.
func (b *bookings) linkBefore(all []stretch, id, newer uint32) {
	prev := all[newer].prev
	all[id].prev, all[id].next, all[newer].prev = prev, newer, id
	if prev != 0 {
		all[prev].next = id
	} else {
		b.oldest = id
	}
}

func (b *bookings) unlink(all []stretch, id uint32) {
	prev, next := all[id].prev, all[id].next
	if prev != 0 {
		all[prev].next = next
	} else {
		b.oldest = next
	}
	if next != 0 {
		all[next].prev = prev
	} else {
		b.newest = prev
	}
}

// addStretch makes one for blocks of the open cover that are booked and in no other.
func (x *Index) addStretch(c *cover, from, to, live int, expiry int64) uint32 {
	p := &x.stretches
	id := p.free
	switch {
	case id != 0:
		p.free = p.all[id].next
	case len(p.all) == 0:
		p.all = make([]stretch, 2, 16)
		id = 1
	default:
		id = uint32(len(p.all))
		p.all = append(p.all, stretch{})
	}
	p.all[id] = stretch{
		expiry: expiry, run: c.id, sibling: c.stretch,
		slot: c.s.slot, from: uint16(from), to: uint16(to), live: uint16(live),
	}
	x.mem.used += stretchBytes
	x.setStretch(c, id)
	p.push(id)
	c.s.booked.link(p.all, id)
	c.s.booked.blocks += live
	x.booked += live
	return id
}

// setStretch makes one the first of a cover. It is noted where the planes begin.
func (x *Index) setStretch(c *cover, id uint32) {
	c.stretch = id
	x.arena.word(c.planes).Store(planesHead(c.width, id))
}

// dropStretch removes one of the open cover; before is its predecessor there.
func (x *Index) dropStretch(c *cover, before, id uint32) {
	p := &x.stretches
	if before == 0 {
		x.setStretch(c, p.all[id].sibling)
	} else {
		p.all[before].sibling = p.all[id].sibling
	}
	c.s.booked.unlink(p.all, id)
	x.freeStretch(id)
}

func (x *Index) freeStretch(id uint32) {
	p := &x.stretches
	p.pop(id)
	p.all[id] = stretch{next: p.free}
	p.free = id
	x.mem.used -= stretchBytes
	if len(p.heap) == 0 {
		*p = stretches{}
	}
}

// endBooking ends the booking of a block of the open cover, which stays held.
func (x *Index) endBooking(c *cover, off int) {
	c.setBit(planeBooked, off, false)
	if len(c.s.ends) > 0 {
		x.dropEnd(c, off)
	}
	x.booked--
	c.s.booked.blocks--
	before := uint32(0)
	for id := c.stretch; id != 0; id = x.stretches.all[id].sibling {
		if st := &x.stretches.all[id]; off >= int(st.from) && off < int(st.to) {
			if st.live--; st.live == 0 {
				x.dropStretch(c, before, id)
			}
			return
		}
		before = id
	}
}

// endBetween cuts what lies between two places out of the open cover's stretches.
// The blocks stay booked, and belong to no stretch.
func (x *Index) endBetween(c *cover, from, to int) {
	before := uint32(0)
	for id := c.stretch; id != 0; {
		st := &x.stretches.all[id]
		next := st.sibling
		a, b := max(int(st.from), from), min(int(st.to), to)
		if a >= b {
			before, id = id, next
			continue
		}
		n := c.bookedBetween(a, b)
		st.live -= uint16(n)
		c.s.booked.blocks -= n
		x.booked -= n
		switch {
		case st.live == 0:
			x.dropStretch(c, before, id)
			id = next
			continue
		case a == int(st.from):
			st.from = uint16(b)
		case b == int(st.to):
			st.to = uint16(a)
		default:
			x.splitStretch(c, id, a, b)
		}
		before, id = id, next
	}
}

// splitStretch makes two stretches of one whose middle is gone.
func (x *Index) splitStretch(c *cover, id uint32, a, b int) {
	st := &x.stretches.all[id]
	expiry, end := st.expiry, int(st.to)
	n := c.bookedBetween(b, end)
	st.to, st.live = uint16(a), st.live-uint16(n)
	c.s.booked.blocks -= n
	x.booked -= n
	if n == 0 {
		return
	}
	rest := x.addStretch(c, b, end, n, expiry)
	c.s.booked.unlink(x.stretches.all, rest)
	c.s.booked.linkBefore(x.stretches.all, rest, id)
}

// bookedBetween counts the booked blocks between two places.
func (c *cover) bookedBetween(from, to int) (n int) {
	for w := from >> 6; w<<6 < to && w < c.width; w++ {
		n += bits.OnesCount64(c.plane(planeBooked, w).Load() & spanOf(w, from, to))
	}
	return n
}

// dropBookings forgets all stretches of an owner whose covers are gone.
func (x *Index) dropBookings(s *owner) {
	for id := s.booked.oldest; id != 0; {
		next := x.stretches.all[id].next
		x.freeStretch(id)
		id = next
	}
	x.booked -= s.booked.blocks
	s.booked = bookings{}
	x.dropEnds(s)
	x.setDue()
}

func (p *stretches) push(id uint32) {
	p.heap = append(p.heap, id)
	p.put(len(p.heap)-1, id)
	p.up(len(p.heap) - 1)
}

// pop takes a stretch off the heap.
func (p *stretches) pop(id uint32) {
	i, last := int(p.all[id].place), len(p.heap)-1
	moved := p.heap[last]
	p.heap = p.heap[:last]
	if i == last {
		return
	}
	p.put(i, moved)
	p.up(i)
	p.down(int(p.all[moved].place))
}

func (p *stretches) put(i int, id uint32) { p.heap[i], p.all[id].place = id, uint32(i) }

func (p *stretches) ends(i int) int64 { return p.all[p.heap[i]].expiry }

func (p *stretches) swap(i, j int) {
	a, b := p.heap[i], p.heap[j]
	p.put(i, b)
	p.put(j, a)
}

func (p *stretches) up(i int) {
	for i > 0 {
		above := (i - 1) / 2
		if p.ends(above) <= p.ends(i) {
			return
		}
		p.swap(i, above)
		i = above
	}
}

func (p *stretches) down(i int) {
	for {
		j := 2*i + 1
		if j >= len(p.heap) {
			return
		}
		if j+1 < len(p.heap) && p.ends(j+1) < p.ends(j) {
			j++
		}
		if p.ends(i) <= p.ends(j) {
			return
		}
		p.swap(i, j)
		i = j
	}
}
