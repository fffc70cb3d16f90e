package kvcache

import (
	"math/bits"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Book makes keys, a prompt from its start, provisionally resident: a request
// that will produce them is on its way to o. A booking ends when an event
// confirms the block, after ttl, or at the owner's capacity. Blocks that are
// confirmed already are left alone. Booking again renews the ttl. A ttl of zero
// or less does nothing. Of an owner that has windows beside full attention, a hit
// may end where the booked prompt ends, and not before on the booking's account: so
// give the keys of (tokens-1)/blockSize blocks, which is where vLLM keeps windows.
//
// It takes a few microseconds for a prompt of a thousand blocks that o holds or has
// booked already, and some 60 ns for each block that is new.
func (x *Index) Book(o Owner, keys []Key, ttl time.Duration) {
	if ttl <= 0 || len(keys) == 0 {
		return
	}
	if planted.BookingStays {
		ttl = 1<<63 - 1
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
	x.booking = x.booking[:0]
	x.bookBlocks(s, keys, 0, expiry)
	// From the last to the first, so that a prompt's end leaves before its start.
	for _, id := range slices.Backward(x.booking) {
		all := x.stretches.all
		if int(id) < len(all) && all[id].expiry == expiry && all[id].slot == s.slot { // else evicted to make room for the rest
			s.booked.unlink(all, id)
			s.booked.link(all, id)
		}
	}
	x.trim(s)
	if s.isHybrid() {
		x.bookEnd(s, keys)
	}
	x.setDue()
}

// bookBlocks books those of keys that no event has confirmed, as far as there is
// room, a run at a time. For the first looked of them the budget has been looked at.
func (x *Index) bookBlocks(s *owner, keys []Key, looked int, expiry int64) {
	var ref uint32 // of the block before keys[i], or of keys[i] if found is set
	found := false
	for i := 0; i < len(keys); {
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
		if !found {
			if ref = x.locate(ref, keys[i], len(keys)-i); ref == 0 {
				break
			}
		}
		id, off := splitRef(ref)
		if !x.open(s, id, true) {
			x.settle(id)
			break
		}
		n, next := x.follow(ref, keys[i:], looked-i)
		if x.cur.r.freshen(off + n - 1); !x.bookStretch(&x.cur, off, off+n, expiry) {
			x.flush()
			x.settle(id)
			x.settle(next >> runShift)
			break
		}
		i += n
		if ref, found = next, next != 0; !found {
			ref = refOf(id, off+n-1)
			if i < looked && i < len(keys) { // there is no memory for the next one
				break
			}
		}
	}
	x.flush()
}

// follow returns how many of keys lie side by side from ref on, which is the place
// of the first. Those that are new are put there, up to the most, and next is where
// the one after is, if it is not beyond the most and elsewhere.
func (x *Index) follow(ref uint32, keys []Key, most int) (n int, next uint32) {
	id, off := splitRef(ref)
	r := x.run(id)
	have := min(len(keys), r.len()-off)
	if n = commonPrefix(x.arena.slice(r.keys()+uint32(off), have), keys[:have]); n < have {
		most = min(most, n+1) // another chain begins in the middle of the run
	}
	for ; n < len(keys) && n < most; n++ {
		next = x.locate(ref+uint32(n-1), keys[n], len(keys)-n)
		if next != ref+uint32(n) || off+n == runMax {
			return n, next
		}
	}
	return n, 0
}

// bookStretch books the blocks of the open cover's run from one place to another,
// but for those that can be used already; false if there is no memory.
func (x *Index) bookStretch(c *cover, from, to int, expiry int64) bool {
	if c.width == 0 && to <= c.lead {
		return true // all of it is confirmed
	}
	if !x.widen(c, to-1) {
		return false
	}
	x.endBetween(c, from, to)
	live := 0
	for w := from >> 6; w<<6 < to; w++ {
		booked := c.plane(planeBooked, w)
		was := booked.Load()
		usable := c.plane(TierGPU, w).Load() | c.plane(TierCPU, w).Load() | c.plane(TierDisk, w).Load() | c.plane(TierRemote, w).Load()
		span := spanOf(w, from, to)
		more := span &^ usable &^ was
		live += bits.OnesCount64((was | more) & span)
		if more == 0 {
			continue
		}
		c.s.Booked += uint64(bits.OnesCount64(more))
		for left := more &^ c.plane(planeHashed, w).Load(); left != 0; left &= left - 1 {
			x.take(c, w<<6+bits.TrailingZeros64(left))
		}
		booked.Store(was | more)
	}
	if live > 0 {
		x.booking = append(x.booking, x.addStretch(c, from, to, live, expiry))
	}
	return true
}

// spanOf returns the bits of a plane's word w that are from one place to another.
func spanOf(w, from, to int) uint64 { return leadingOnes(to-w<<6) &^ leadingOnes(from-w<<6) }

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
		x.setDue()
	}
}

// trim ends the oldest bookings beyond what an owner may have.
func (x *Index) trim(s *owner) {
	most := x.opts.MaxProvisional
	if s.capacity > 0 {
		most = min(most, s.capacity)
	}
	for s.booked.blocks > most {
		x.unbook(s.booked.oldest, s.booked.blocks-most)
	}
	x.flush()
}

// unbook ends the last bookings of a stretch, up to the most, without an event.
func (x *Index) unbook(id uint32, most int) {
	st := x.stretches.all[id]
	s := x.owners[st.slot]
	x.open(s, st.run, false)
	c := &x.cur
	for off := int(st.to) - 1; off >= int(st.from) && most > 0; off-- {
		if !c.booked(off) {
			continue
		}
		most--
		s.Expired++
		x.endBooking(c, off)
		if !c.hashed(off) {
			x.drop(c, off)
		}
	}
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
	p := &x.stretches
	for len(p.heap) > 0 && p.all[p.heap[0]].expiry <= now && most > 0 {
		most -= int64(p.all[p.heap[0]].live)
		x.unbook(p.heap[0], runMax)
	}
	x.flush()
	x.setDue()
}

func (x *Index) setDue() {
	due := int64(0)
	if p := &x.stretches; len(p.heap) > 0 {
		due = p.all[p.heap[0]].expiry
	}
	if x.due.Load() != due {
		x.due.Store(due)
	}
}
