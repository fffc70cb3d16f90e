package kvcache

const (
	// roomBytes must be free before blocks are stored, for tables to grow.
	roomBytes = 256 << 10
	// reserveShare of the budget, as a divisor, is what blocks leave to tables.
	reserveShare = 8
	// slackShare of the arena, as a divisor, must be free for compaction to be
	// worth its while.
	slackShare = 8
	// MinBytes is the least memory budget; see [Options.MaxBytes].
	MinBytes = 4 << 20
)

// roomWords must be free in the arena, beside what the blocks themselves take,
// for covers and planes.
const roomWords = 512

// room reports whether n more blocks of a chain can be stored as the budget
// stands.
func (x *Index) room(n int) bool {
	a := &x.arena
	order := orderOf(min(runMax, n))
	switch {
	case x.mem.used+roomBytes > x.mem.max:
		return false
	case a.canGrow():
		return true
	default:
		// Keys, counts and hashes.
		return a.canAlloc(order+1) && a.total-a.words >= 4<<order+roomWords
	}
}

// makeRoom evicts cold blocks until there is room, or none are left. What they
// leave is in pieces all over the arena, so now and then it is swept together.
func (x *Index) makeRoom(n int) {
	x.flush()
	for !x.room(n) {
		a := &x.arena
		if (a.total-a.words)*slackShare >= a.total && x.compact() {
			continue
		}
		if !x.evict() {
			return
		}
	}
}

// evict lets the hand go on to the next run that has cold blocks, and drops
// those. False when nothing is left.
//
// What a run keeps is counted from its head: a long run of which only the start
// is in use loses its end. A block that was matched stays until the hand has come
// by twice without another match; one that was only stored, once. So a sweep that
// finds nothing but new blocks does not make the matched ones look as cold.
func (x *Index) evict() bool {
	for range 3 * x.topRun {
		x.hand++
		if x.hand > x.topRun {
			x.hand = 1
		}
		r := x.run(x.hand)
		n := r.len()
		if n == 0 {
			continue
		}
		touch := uint16(r.touch.Swap(0))
		keep := max(touch, r.touched, r.fresh)
		r.touched, r.fresh = touch, 0
		if int(keep) < n && x.evictRun(x.hand, int(keep)) {
			return true
		}
	}
	return false
}

func (x *Index) evictRun(id uint32, from int) bool {
	r := x.run(id)
	before := x.pairs
	for i := r.covers() - 1; i >= 0; i-- {
		w0, _ := x.coverWords(r, i)
		s := x.owners[uint16(w0.Load())]
		x.load(s, id, i)
		x.evictCover(&x.cur, from)
		x.flush()
	}
	return x.pairs < before
}

// runsOf returns the runs of which s holds any block.
func (x *Index) runsOf(s *owner) []uint32 {
	seen := make([]uint64, x.topRun/64+1)
	see := func(ref uint32) {
		id := ref >> runShift
		seen[id/64] |= 1 << (id % 64)
	}
	s.table.each(see)
	for id := s.booked.oldest; id != 0; id = x.stretches.all[id].next {
		see(refOf(x.stretches.all[id].run, 0))
	}
	var ids []uint32
	for i, w := range seen {
		for b := range 64 {
			if w>>b&1 != 0 {
				ids = append(ids, uint32(i*64+b))
			}
		}
	}
	return ids
}

// clear drops all that s holds.
func (x *Index) clear(s *owner) {
	x.flush()
	for _, id := range x.runsOf(s) {
		if !x.open(s, id, false) {
			continue
		}
		c := &x.cur
		end := c.lead
		if c.width > 0 {
			end = c.width * 64
		}
		for off := range end {
			if c.hashed(off) || c.booked(off) {
				x.drop(c, off)
			}
		}
		x.flush()
	}
	s.table.drop(&x.mem)
	x.mem.used -= int64(len(s.over)) * overBytes
	for _, list := range s.alias {
		x.mem.used -= int64(len(list)) * aliasBytes
	}
	x.mem.used -= int64(len(s.orphans)) * orphanBytes
	x.orphans -= int64(len(s.orphans))
	x.dropBookings(s)
	s.over, s.alias, s.orphans, s.kids = nil, nil, nil, nil
	s.full, s.counted = nil, nil
	x.dropWindows(s)
	s.blockSize = 0
	s.placed, s.tracked = false, false
	x.slots.Load().size[s.slot].Store(0)
	x.findAll(s)
}
