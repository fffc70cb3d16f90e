package kvcache

import (
	"slices"
	"time"
)

// bookings are an owner's booked blocks, least recently booked first.
type bookings struct {
	at    map[uint32]uint32 // reference to node
	nodes []bookNode        // 0 is the list's head: next is the oldest
	free  uint32
}

type bookNode struct {
	expiry     int64 // Unix nanoseconds
	ref        uint32
	prev, next uint32
}

// bookBytes is what a booked block takes, with its share of expiries.
const bookBytes = 96

// lapse says that some bookings of consecutive blocks may end at a time. Those
// that were renewed or confirmed meanwhile do not.
type lapse struct {
	at    int64
	owner Owner
	ref   uint32
	n     uint32
}

// Book makes keys, a prompt from its start, provisionally resident: a request
// that will produce them is on its way to o. A booking ends when an event
// confirms the block, after ttl, or at the owner's capacity. Blocks that are
// confirmed already are left alone. Booking again renews the ttl. A ttl of zero
// or less does nothing.
func (x *Index) Book(o Owner, keys []Key, ttl time.Duration) {
	if ttl <= 0 || len(keys) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil {
		return
	}
	now := x.opts.Now().UnixNano()
	x.expireAt(now, expireAll)
	expiry := now + int64(ttl)
	if expiry < now {
		expiry = 1<<63 - 1
	}
	refs := x.bookBlocks(s, keys)
	// From the last to the first, so that a prompt's end leaves before its start.
	b := &s.booked
	for _, ref := range slices.Backward(refs) {
		n, ok := b.at[ref]
		if !ok { // evicted to make room for the rest
			continue
		}
		b.nodes[n].expiry = expiry
		b.unlink(n)
		b.link(n)
	}
	x.scheduleAll(s, refs, expiry)
	x.booking = refs[:0]
	x.trim(s)
}

// bookBlocks lists those of keys that no event has confirmed as booked, as far as
// there is room, and returns their places.
func (x *Index) bookBlocks(s *owner, keys []Key) []uint32 {
	refs := x.booking[:0]
	var ref uint32
	looked := 0
	for i := 0; i < len(keys); i++ {
		if i >= looked {
			n := min(batchBlocks, len(keys)-i)
			looked = i + n
			if !x.room(n) {
				x.makeRoom(n)
				if ref != 0 && !x.present(ref, keys[i-1]) {
					break
				}
			}
		}
		if ref = x.locate(ref, keys[i], len(keys)-i); ref == 0 {
			break
		}
		id, off := splitRef(ref)
		if !x.open(s, id, true) {
			x.settle(id)
			break
		}
		c := &x.cur
		if n := x.confirmed(c, off, keys[i:]); n > 0 {
			c.r.freshen(off + n - 1)
			ref += uint32(n - 1)
			i += n - 1
			continue
		}
		if !x.bookBlock(c, off, ref) {
			break
		}
		refs = append(refs, ref)
	}
	x.flush()
	return refs
}

// bookBlock books one block of the open cover; false if there is no memory.
func (x *Index) bookBlock(c *cover, off int, ref uint32) bool {
	c.r.freshen(off)
	if c.booked(off) {
		return true
	}
	if !x.widen(c, off) {
		return false
	}
	if !c.hashed(off) {
		x.take(c, off)
	}
	c.setBit(planeBooked, off, true)
	x.list(c.s, ref)
	c.s.Booked++
	return true
}

// confirmed returns how many of keys, which start at a place in the open cover's
// run, are confirmed there: all that can be told at one look.
func (x *Index) confirmed(c *cover, off int, keys []Key) int {
	if c.width > 0 {
		return b2i(c.tiers(off) != 0)
	}
	n := min(c.lead-off, len(keys))
	if n <= 0 {
		return 0
	}
	return commonPrefix(x.arena.slice(c.r.keys()+uint32(off), n), keys[:n])
}

// SetCapacity tells how many blocks o's engine has room for. It bounds the booked
// blocks of owners that send no events: beyond it those booked least recently
// leave. 0 removes the bound; [Options.MaxProvisional] always holds.
func (x *Index) SetCapacity(o Owner, blocks int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owner(o); s != nil {
		x.expire(expireAll)
		s.capacity = max(blocks, 0)
		x.trim(s)
	}
}

func (x *Index) trim(s *owner) {
	most := x.opts.MaxProvisional
	if s.capacity > 0 {
		most = min(most, s.capacity)
	}
	for len(s.booked.at) > most {
		x.unbook(s, s.booked.nodes[s.booked.nodes[0].next].ref)
	}
	x.flush()
}

// unbook ends a booking without an event.
func (x *Index) unbook(s *owner, ref uint32) {
	x.unlist(s, ref)
	s.Expired++
	id, off := splitRef(ref)
	if !x.open(s, id, false) {
		return
	}
	c := &x.cur
	c.setBit(planeBooked, off, false)
	if !c.hashed(off) {
		x.drop(c, off)
	}
}

// list and unlist add a booked block to the owner's list and take it off.
func (x *Index) list(s *owner, ref uint32) {
	b := &s.booked
	if b.at == nil {
		b.at, b.nodes = map[uint32]uint32{}, make([]bookNode, 1)
	}
	n := b.free
	if n == 0 {
		n = uint32(len(b.nodes))
		b.nodes = append(b.nodes, bookNode{})
	} else {
		b.free = b.nodes[n].next
	}
	b.nodes[n] = bookNode{ref: ref}
	b.at[ref] = n
	b.link(n)
	x.booked++
	x.mem.used += bookBytes
}

func (x *Index) unlist(s *owner, ref uint32) {
	b := &s.booked
	n := b.at[ref]
	b.unlink(n)
	delete(b.at, ref)
	b.nodes[n].next, b.free = b.free, n
	if len(b.at) == 0 {
		*b = bookings{}
	}
	x.booked--
	x.mem.used -= bookBytes
}

func (b *bookings) link(n uint32) {
	last := b.nodes[0].prev
	b.nodes[n].prev, b.nodes[n].next = last, 0
	b.nodes[last].next, b.nodes[0].prev = n, n
}

func (b *bookings) unlink(n uint32) {
	prev, next := b.nodes[n].prev, b.nodes[n].next
	b.nodes[prev].next, b.nodes[next].prev = next, prev
}

// scheduleAll remembers when bookings end, consecutive blocks together.
func (x *Index) scheduleAll(s *owner, refs []uint32, at int64) {
	for i := 0; i < len(refs); {
		j := i + 1
		for j < len(refs) && refs[j] == refs[j-1]+1 && refs[j]&(runMax-1) != 0 {
			j++
		}
		x.schedule(lapse{at, s.id, refs[i], uint32(j - i)})
		i = j
	}
	if len(x.lapses) > 2*x.booked+lapsesMin {
		x.reschedule()
	}
	x.setDue()
}

// lapsesMin is the number of lapses that is never worth cleaning up.
const lapsesMin = 1024

// reschedule leaves one lapse for each booking, so that renewals don't pile up.
func (x *Index) reschedule() {
	x.lapses = x.lapses[:0]
	for _, s := range x.owners {
		if s == nil || len(s.booked.at) == 0 {
			continue
		}
		for n := s.booked.nodes[0].next; n != 0; n = s.booked.nodes[n].next {
			x.schedule(lapse{s.booked.nodes[n].expiry, s.id, s.booked.nodes[n].ref, 1})
		}
	}
}

// schedule and unschedule keep lapses a heap, the earliest first.
func (x *Index) schedule(l lapse) {
	x.lapses = append(x.lapses, l)
	h := x.lapses
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].at <= h[i].at {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (x *Index) unschedule() lapse {
	h := x.lapses
	first := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		j := 2*i + 1
		if j >= last {
			break
		}
		if j+1 < last && h[j+1].at < h[j].at {
			j++
		}
		if h[i].at <= h[j].at {
			break
		}
		h[i], h[j] = h[j], h[i]
		i = j
	}
	if len(h) == 0 {
		h = nil
	}
	x.lapses = h
	return first
}

func (x *Index) setDue() {
	due := int64(0)
	if len(x.lapses) > 0 {
		due = x.lapses[0].at
	}
	x.due.Store(due)
}

// Bounds on the blocks whose bookings one call ends.
const (
	expireAll  = int64(1<<63 - 1)
	expireSome = int64(4096) // for a Match, which should be short
)

// expire ends the bookings whose time has come.
func (x *Index) expire(most int64) {
	if due := x.due.Load(); due == 0 {
		return
	}
	x.expireAt(x.opts.Now().UnixNano(), most)
}

func (x *Index) expireAt(now, most int64) {
	for len(x.lapses) > 0 && x.lapses[0].at <= now && most > 0 {
		l := x.unschedule()
		most -= int64(l.n)
		s := x.owner(l.owner)
		if s == nil {
			continue
		}
		for i := range l.n {
			if n, ok := s.booked.at[l.ref+i]; ok && s.booked.nodes[n].expiry <= now {
				x.unbook(s, l.ref+i)
			}
		}
	}
	x.flush()
	x.setDue()
}
