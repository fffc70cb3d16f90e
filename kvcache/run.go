package kvcache

import "sync/atomic"

// A run is a piece of a chain: consecutive blocks whose keys lie side by side.
// The first block, its head, can be found by its key; the others follow. A chain
// that goes on where a run ends is appended to it, one that leaves a run in its
// middle starts another. So a prompt is a handful of runs, whatever its length,
// and in each of them an owner's holdings are two numbers (see cover).
//
// A block is in one run at most, at a place that stays the same as long as
// anyone holds it.
type run struct {
	// head is the version, 32 bits, the length in blocks, 16, and the number of
	// covers, 16. The version goes up before any memory that a reader of this
	// run may be looking at is used for something else.
	head atomic.Uint64
	// at is where the keys are, 32 bits, and the covers, 32.
	at atomic.Uint64
	// touch is how many blocks from the head on have been matched since the
	// eviction hand last came by.
	touch atomic.Uint32

	// The rest is for writers only.
	counts      uint32 // 16 bits per block, how many owners hold it; next unused run
	live        uint16 // blocks that somebody holds
	touched     uint16 // touch as the hand found it
	fresh       uint16 // how far blocks were stored or booked since the hand came by
	keysOrder   uint8
	coversOrder uint8
}

// A block reference is a run's number and a place in it.
const (
	runShift = 9
	runMax   = 1 << runShift // blocks in a run
	runsMax  = 1 << (32 - runShift)

	runPageShift = 7
	runPage      = 1 << runPageShift
	runPageBytes = runPage * 32
)

type runPages []*[runPage]run

func refOf(id uint32, off int) uint32   { return id<<runShift | uint32(off) }
func splitRef(ref uint32) (uint32, int) { return ref >> runShift, int(ref & (runMax - 1)) }

func (x *Index) run(id uint32) *run {
	return &(*x.pages.Load())[id>>runPageShift][id&(runPage-1)]
}

func headOf(version uint32, length, covers int) uint64 {
	return uint64(version)<<32 | uint64(length)<<16 | uint64(covers)
}

func splitHead(h uint64) (version uint32, length, covers int) {
	return uint32(h >> 32), int(h >> 16 & 0xffff), int(h & 0xffff)
}

func (r *run) len() int    { return int(r.head.Load() >> 16 & 0xffff) }
func (r *run) covers() int { return int(r.head.Load() & 0xffff) }
func (r *run) keys() uint32 {
	return uint32(r.at.Load() >> 32)
}

// set changes the run's length and number of covers; bump says that readers must
// look again.
func (r *run) set(length, covers int, bump bool) {
	v := uint32(r.head.Load() >> 32)
	if bump {
		v++
	}
	r.head.Store(headOf(v, length, covers))
}

func (r *run) bump() { r.head.Add(1 << 32) }

// warm notes that n blocks from the head on have been matched.
func (r *run) warm(n int) {
	if r.touch.Load() < uint32(n) {
		r.touch.Store(uint32(n))
	}
}

// freshen notes that the block at off has been stored or booked.
func (r *run) freshen(off int) { r.fresh = max(r.fresh, uint16(off+1)) }

// keyAt returns the key of a block that exists.
func (x *Index) keyAt(ref uint32) Key {
	id, off := splitRef(ref)
	return Key(x.arena.word(x.run(id).keys() + uint32(off)).Load())
}

// present reports whether ref is still the place of key.
func (x *Index) present(ref uint32, key Key) bool {
	id, off := splitRef(ref)
	return off < x.run(id).len() && x.keyAt(ref) == key
}

// findHead returns the run whose head has that key, 0 if there is none. It needs
// no lock.
func (x *Index) findHead(key Key) uint32 {
	t := x.heads.part(key).table.Load()
	if t == nil {
		return 0
	}
	tag := headTag(key)
	mask := uint32(len(t.slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		s := t.slots[i].Load()
		if s == 0 {
			return 0
		}
		id := uint32(s)
		if uint32(s>>32) != tag || id == 0 {
			continue
		}
		r := x.run(id)
		for {
			before := r.head.Load()
			var is bool
			if w := x.arena.slice(r.keys(), 1); w != nil && before&0xffff0000 != 0 {
				is = Key(w[0].Load()) == key
			}
			if before>>32 == r.head.Load()>>32 {
				if is {
					return id
				}
				break
			}
		}
	}
}

// locate returns the place of the block with that key after the block at parent,
// 0 for none, and makes one if need be, with room for want blocks. 0 means that
// there is no memory. A new place has no holder yet.
func (x *Index) locate(parent uint32, key Key, want int) uint32 {
	if parent == 0 {
		if id := x.findHead(key); id != 0 {
			return refOf(id, 0)
		}
		return x.newRun(key, want)
	}
	id, off := splitRef(parent)
	r := x.run(id)
	n := r.len()
	off++
	if off < n && Key(x.arena.word(r.keys()+uint32(off)).Load()) == key {
		return refOf(id, off)
	}
	if next := x.findHead(key); next != 0 {
		return refOf(next, 0)
	}
	if off != n || n == runMax {
		return x.newRun(key, want)
	}
	if n == 1<<r.keysOrder && !x.growRun(r, orderOf(min(runMax, max(2*n, n+want)))) {
		return 0
	}
	x.arena.word(r.keys() + uint32(n)).Store(uint64(key))
	x.setCount(r, n, 0)
	r.set(n+1, r.covers(), false)
	if x.places != nil {
		x.notePlace(refOf(id, n), key)
	}
	return refOf(id, n)
}

func (x *Index) newRun(key Key, want int) uint32 {
	order := orderOf(min(runMax, max(1, want)))
	id := x.freeRun
	if id == 0 {
		if x.topRun+1 >= runsMax || !x.addRunPage() {
			return 0
		}
		id = x.topRun + 1
	}
	r := x.run(id)
	next := r.counts // of the list of unused runs, if it is from there
	keys := x.arena.alloc(order)
	if keys == 0 {
		return 0
	}
	counts := x.arena.alloc(countsOrder(order))
	if counts == 0 {
		x.arena.release(keys, order)
		return 0
	}
	x.arena.word(keys).Store(uint64(key))
	r.at.Store(uint64(keys) << 32)
	r.counts, r.keysOrder, r.coversOrder, r.live = counts, order, 0, 0
	x.setCount(r, 0, 0)
	r.touch.Store(0)
	r.touched, r.fresh = 0, 1
	r.set(1, 0, true)
	if !x.heads.insert(&x.mem, key, id) {
		r.set(0, 0, true)
		r.counts = next
		x.arena.release(keys, order)
		x.arena.release(counts, countsOrder(order))
		return 0
	}
	if id == x.freeRun {
		x.freeRun = next
	} else {
		x.topRun = id
	}
	return refOf(id, 0)
}

// addRunPage makes sure that the next new run has a page.
func (x *Index) addRunPage() bool {
	pages := x.pages.Load()
	if int(x.topRun+1) < len(*pages)*runPage {
		return true
	}
	if !x.mem.take(runPageBytes, 0) {
		return false
	}
	more := append(append(make(runPages, 0, len(*pages)+1), *pages...), new([runPage]run))
	x.pages.Store(&more)
	return true
}

// growRun moves a run's keys and counts to pieces of another order.
func (x *Index) growRun(r *run, order uint8) bool {
	keys := x.arena.alloc(order)
	if keys == 0 {
		return false
	}
	counts := x.arena.alloc(countsOrder(order))
	if counts == 0 {
		x.arena.release(keys, order)
		return false
	}
	n := r.len()
	oldKeys, oldCounts, oldOrder := r.keys(), r.counts, r.keysOrder
	x.copyWords(keys, oldKeys, n)
	x.copyWords(counts, oldCounts, (n+3)/4)
	r.at.Store(uint64(keys)<<32 | r.at.Load()&0xffffffff)
	r.counts, r.keysOrder = counts, order
	r.bump()
	x.arena.release(oldKeys, oldOrder)
	x.arena.release(oldCounts, countsOrder(oldOrder))
	return true
}

func (x *Index) copyWords(to, from uint32, n int) {
	dst, src := x.arena.slice(to, n), x.arena.slice(from, n)
	for i := range dst {
		dst[i].Store(src[i].Load())
	}
}

// settle lets go of what nobody holds: the blocks at a run's end, or all of it.
func (x *Index) settle(id uint32) {
	r := x.run(id)
	n := r.len()
	if n == 0 {
		return
	}
	if r.live == 0 {
		keys, counts, order := r.keys(), r.counts, r.keysOrder
		x.heads.remove(&x.mem, Key(x.arena.word(keys).Load()), id)
		r.set(0, 0, true)
		x.arena.release(keys, order)
		x.arena.release(counts, countsOrder(order))
		r.counts, x.freeRun = x.freeRun, id
		return
	}
	was := n
	for x.count(r, n-1) == 0 {
		n--
	}
	if n == was {
		return
	}
	r.set(n, r.covers(), true)
	if r.keysOrder > 3 && n <= 1<<(r.keysOrder-2) {
		x.growRun(r, orderOf(2*n))
	}
}

// Holder counts are packed four to a word.

func countsOrder(keysOrder uint8) uint8 {
	if keysOrder <= 2 {
		return 0
	}
	return keysOrder - 2
}

func (x *Index) count(r *run, off int) int {
	return int(x.arena.word(r.counts+uint32(off/4)).Load() >> (16 * (off & 3)) & 0xffff)
}

func (x *Index) setCount(r *run, off, n int) {
	w := x.arena.word(r.counts + uint32(off/4))
	shift := 16 * (off & 3)
	w.Store(w.Load()&^(0xffff<<shift) | uint64(n)<<shift)
}

// hold and unhold count one more and one less holder of a block.
func (x *Index) hold(r *run, off int) {
	n := x.count(r, off)
	if n == 0 {
		r.live++
		x.blocks++
	}
	x.setCount(r, off, n+1)
}

func (x *Index) unhold(r *run, off int) {
	n := x.count(r, off) - 1
	if n == 0 {
		r.live--
		x.blocks--
	}
	x.setCount(r, off, n)
}
