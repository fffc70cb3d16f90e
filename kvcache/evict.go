package kvcache

const (
	// roomOrder is the order of the piece that must be free before blocks are
	// stored: enough for a run's keys, counts and hashes.
	roomOrder = runShift + 2
	// roomBytes must be free besides, for tables to grow.
	roomBytes = 256 << 10
	// reserveShare of the budget, as a divisor, is what blocks leave to tables.
	reserveShare = 8
	// MinBytes is the least memory budget; see [Options.MaxBytes].
	MinBytes = 4 << 20
)

// room reports whether a batch of blocks can be stored without evicting any.
func (x *Index) room() bool {
	return x.mem.used+roomBytes <= x.mem.max && x.arena.canAlloc(roomOrder)
}

// makeRoom evicts cold blocks until there is room, or none are left.
func (x *Index) makeRoom() {
	for !x.room() && x.evict() {
		continue
	}
}

// evict lets the hand go on to the next run that has blocks which nobody has
// matched since it last came by, and drops those. Their places in the run are
// what counts: a long run of which only the start is in use loses its end. False
// when nothing is left.
func (x *Index) evict() bool {
	for range 2 * (x.topRun + 1) {
		x.hand++
		if x.hand > x.topRun {
			x.hand = 1
		}
		if x.hand > x.topRun {
			return false
		}
		r := x.run(x.hand)
		n := r.len()
		if n == 0 {
			continue
		}
		warm := int(r.touch.Swap(0))
		if warm >= n {
			continue
		}
		if x.evictRun(x.hand, warm) {
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
	for ref := range s.booked.at {
		see(ref)
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
	x.mem.used -= int64(len(s.booked.at)) * bookBytes
	x.booked -= len(s.booked.at)
	s.over, s.alias, s.orphans, s.kids = nil, nil, nil, nil
	s.full, s.counted, s.other = nil, nil, nil
	s.booked = bookings{}
	s.blockSize = 0
	x.slots.Load().size[s.slot].Store(0)
}
