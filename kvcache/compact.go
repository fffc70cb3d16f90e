package kvcache

import (
	"cmp"
	"math/bits"
	"slices"
)

// compactShare of the chunks, as a divisor, is emptied by one compaction at most.
const compactShare = 4

// compact moves what the emptiest chunks hold into the gaps of the others, and
// reports whether that freed any chunk. It visits every run, so it is called
// only when a good part of the arena is free: then its cost is in proportion to
// what has been evicted since the last one.
func (x *Index) compact() bool {
	a := &x.arena
	a.evacuate()
	before := a.mem.used - int64(a.spare)*chunkBytes
	for id := uint32(1); id <= x.topRun; id++ {
		if x.run(id).len() > 0 {
			x.moveRun(id)
		}
	}
	a.settle()
	return a.mem.used-int64(a.spare)*chunkBytes < before
}

// leaving reports whether a piece should move.
func (a *arena) leaving(at uint32) bool { return at != 0 && a.leave[at>>chunkShift] }

// evacuate chooses the chunks to empty and takes their free pieces off the lists.
func (a *arena) evacuate() {
	var ids []uint32
	for id, n := range a.used {
		if a.free[id] != nil && id > 0 && n > 0 {
			ids = append(ids, uint32(id))
		}
	}
	slices.SortFunc(ids, func(i, j uint32) int { return cmp.Compare(a.used[i], a.used[j]) })
	gaps, load := a.total-a.words, 0
	for _, id := range ids[:len(ids)/compactShare] {
		n := int(a.used[id])
		gaps -= chunkWords - n
		// Half of the gaps, since not every piece fits every gap.
		if load += n; 2*load > gaps {
			break
		}
		a.eachFree(id, a.delist)
		a.leave[id] = true
	}
}

// settle takes the chunks that were not emptied back into use.
func (a *arena) settle() {
	for id := range a.leave {
		if a.leave[id] {
			a.leave[id] = false
			a.eachFree(uint32(id), a.enlist)
		}
	}
}

func (a *arena) eachFree(id uint32, f func(at uint32, order uint8)) {
	for i, w := range a.free[id] {
		for ; w != 0; w &= w - 1 {
			node := uint32(i*64 + bits.TrailingZeros64(w))
			order := uint8(chunkShift + 1 - bits.Len32(node))
			f(id<<chunkShift|node<<order&(chunkWords-1), order)
		}
	}
}

// moveRun moves the pieces of a run and its covers out of the chunks that are to
// be emptied, as far as there is somewhere to go.
func (x *Index) moveRun(id uint32) {
	a, r := &x.arena, x.run(id)
	if a.leaving(r.keys()) || a.leaving(r.counts) {
		x.growRun(r, r.keysOrder)
	}
	if r.coversOrder > 0 && a.leaving(uint32(r.at.Load())) {
		x.resizeCovers(r, r.coversOrder)
	}
	for i := range r.covers() {
		w0, w1 := x.coverWords(r, i)
		v := w1.Load()
		if a.leaving(uint32(v)) || a.leaving(uint32(v>>32)) {
			x.load(x.owners[uint16(w0.Load())], id, i)
			x.moveCover(&x.cur)
			x.cur = cover{}
		}
	}
}

func (x *Index) moveCover(c *cover) {
	a := &x.arena
	if a.leaving(c.hashes) && x.resizeHashes(c, c.hashOrder, 1<<c.hashOrder) {
		x.swap(c)
	}
	if !a.leaving(c.planes) {
		return
	}
	order := planesOrder(c.width)
	to, from := a.alloc(order), c.planes
	if to == 0 {
		return
	}
	x.copyWords(to, from, 1+c.width*numPlanes)
	c.planes = to
	x.swap(c)
	a.release(from, order)
}
