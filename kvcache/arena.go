package kvcache

import (
	"math/bits"
	"sync/atomic"
)

// memory is the index's budget. Its users are writers, under the index's lock.
type memory struct {
	used, max int64
	// reserve is what only engine tables and other small things may use up, so
	// that they can grow when block storage has grown as far as it may.
	reserve int64
}

func (m *memory) take(n, keep int64) bool {
	if m.used+n+keep > m.max {
		return false
	}
	m.used += n
	return true
}

const (
	// chunkShift also bounds how many owners can hold one run; see holdersMax.
	chunkShift = 14
	chunkWords = 1 << chunkShift
	maxOrder   = chunkShift
	// chunkBytes is what a chunk takes with its buddies.
	chunkBytes = chunkWords*8 + chunkWords*2/8
)

// chunk is a piece of the arena. Readers load its words without a lock, hence
// every access is atomic.
type chunk [chunkWords]atomic.Uint64

// buddies has a bit for every node of a chunk's buddy tree, set while that node
// is a free piece. The root is node 1. It is apart from the chunk because only
// writers look, and because the two together are an awkward size to allocate.
type buddies [2 * chunkWords / 64]uint64

// arena allocates pieces of 2^order words by the buddy method. A piece is named
// by the index of its first word, so that nothing in it is a pointer and the
// garbage collector has only the chunks to visit. Word 0 is never handed out: 0
// is no piece.
//
// Readers may hold an index after its piece was freed and used again. They find
// out by the version of the run that they got it from, and must survive whatever
// they read until then.
type arena struct {
	mem   *memory
	dir   atomic.Pointer[[]atomic.Pointer[chunk]]
	free  []*buddies // by chunk
	used  []uint16   // words in use, by chunk
	leave []bool     // chunks that compaction is emptying: their pieces are on no list
	ids   []uint32   // chunk numbers to use again
	top   uint32     // chunk numbers used so far
	words int        // words in use
	total int        // words of all chunks
	lists [maxOrder + 1]uint32
	spare int
}

// order returns the order of the smallest piece of at least n words.
func orderOf(n int) uint8 {
	if n <= 1 {
		return 0
	}
	return uint8(bits.Len(uint(n - 1)))
}

// slice returns the n words from index at on, or nil if there are none such: a
// reader may ask for anything.
func (a *arena) slice(at uint32, n int) []atomic.Uint64 {
	dir := a.dir.Load()
	if dir == nil {
		return nil
	}
	c := int(at >> chunkShift)
	if c >= len(*dir) {
		return nil
	}
	p := (*dir)[c].Load()
	off := int(at & (chunkWords - 1))
	if p == nil || off+n > chunkWords {
		return nil
	}
	return p[off : off+n : off+n]
}

// word returns a word of a piece that is in use.
func (a *arena) word(at uint32) *atomic.Uint64 {
	return &(*a.dir.Load())[at>>chunkShift].Load()[at&(chunkWords-1)]
}

// alloc returns a piece whose words hold anything, or 0 when the budget has no
// room for another chunk.
func (a *arena) alloc(order uint8) uint32 {
	k := order
	for k <= maxOrder && a.lists[k] == 0 {
		k++
	}
	if k > maxOrder {
		if !a.grow() {
			return 0
		}
		k = maxOrder
		if a.lists[k] == 0 { // the first chunk, which lacks word 0
			k = maxOrder - 1
			if order > k {
				return a.alloc(order)
			}
		}
	}
	at := a.lists[k]
	if k == maxOrder {
		a.spare--
	}
	a.unlink(at, k)
	for k > order {
		k--
		a.link(at+1<<k, k)
	}
	a.count(at, 1<<order)
	return at
}

func (a *arena) count(at uint32, n int) {
	a.words += n
	a.used[at>>chunkShift] += uint16(n)
}

// canAlloc reports whether there is a free piece for alloc(order).
func (a *arena) canAlloc(order uint8) bool {
	for k := order; k <= maxOrder; k++ {
		if a.lists[k] != 0 {
			return true
		}
	}
	return false
}

// canGrow reports whether the budget has room for another chunk.
func (a *arena) canGrow() bool {
	return a.mem.used+chunkBytes+a.mem.reserve <= a.mem.max
}

func (a *arena) release(at uint32, order uint8) {
	a.count(at, -1<<order)
	free := a.free[at>>chunkShift]
	for order < maxOrder {
		buddy := at ^ 1<<order
		node := nodeOf(buddy, order)
		if free[node/64]&(1<<(node%64)) == 0 {
			break
		}
		a.unlink(buddy, order)
		at &^= 1 << order
		order++
	}
	if order == maxOrder {
		if a.spare > 0 {
			id := at >> chunkShift
			(*a.dir.Load())[id].Store(nil)
			a.free[id], a.leave[id] = nil, false
			a.ids = append(a.ids, id)
			a.mem.used -= chunkBytes
			a.total -= chunkWords
			return
		}
		a.spare++
		a.leave[at>>chunkShift] = false
	}
	a.link(at, order)
}

func nodeOf(at uint32, order uint8) uint32 {
	return (chunkWords + at&(chunkWords-1)) >> order
}

// link puts a free piece on its list; the list's links are in the piece itself.
func (a *arena) link(at uint32, order uint8) {
	node := nodeOf(at, order)
	a.free[at>>chunkShift][node/64] |= 1 << (node % 64)
	if !a.leave[at>>chunkShift] {
		a.enlist(at, order)
	}
}

func (a *arena) enlist(at uint32, order uint8) {
	next := a.lists[order]
	a.word(at).Store(uint64(next))
	if next != 0 {
		w := a.word(next)
		w.Store(w.Load()&0xffffffff | uint64(at)<<32)
	}
	a.lists[order] = at
}

func (a *arena) unlink(at uint32, order uint8) {
	node := nodeOf(at, order)
	a.free[at>>chunkShift][node/64] &^= 1 << (node % 64)
	if !a.leave[at>>chunkShift] {
		a.delist(at, order)
	}
}

func (a *arena) delist(at uint32, order uint8) {
	w := a.word(at).Load()
	next, prev := uint32(w), uint32(w>>32)
	if prev != 0 {
		p := a.word(prev)
		p.Store(p.Load()&^0xffffffff | uint64(next))
	} else {
		a.lists[order] = next
	}
	if next != 0 {
		n := a.word(next)
		n.Store(n.Load()&0xffffffff | uint64(prev)<<32)
	}
}

// grow adds a chunk to the free lists.
func (a *arena) grow() bool {
	if !a.mem.take(chunkBytes, a.mem.reserve) {
		return false
	}
	id := a.top
	if n := len(a.ids); n > 0 {
		id, a.ids = a.ids[n-1], a.ids[:n-1]
	} else {
		a.top++
		a.free = append(a.free, nil)
		a.used = append(a.used, 0)
		a.leave = append(a.leave, false)
	}
	a.total += chunkWords
	a.free[id] = new(buddies)
	dir := a.dir.Load()
	if dir == nil || int(id) >= len(*dir) {
		bigger := make([]atomic.Pointer[chunk], max(16, 2*int(id)))
		for i := range int(id) {
			bigger[i].Store((*dir)[i].Load())
		}
		a.dir.Store(&bigger)
		dir = &bigger
	}
	(*dir)[id].Store(new(chunk))
	if id == 0 {
		// Free everything but word 0.
		a.count(0, 1)
		for k := range uint8(maxOrder) {
			a.link(1<<k, k)
		}
		return true
	}
	a.spare++
	a.link(id<<chunkShift, maxOrder)
	return true
}
