package kvcache

// piece is a part of a prompt that lies in one run, from its head on.
type piece struct {
	from, to int // of the prompt
	run      uint32
}

// shorten corrects the hits of hybrid owners, which end where each of their groups
// allows it. It looks at what only writers may, so it takes the lock. Owners that
// come twice are dealt with where they come first.
func (x *Index) shorten(keys []Key, owners []Owner, hits []Hit, places []uint16) {
	table := x.slots.Load()
	locked := false
	for i, o := range owners {
		slot := int(o.slot())
		if !table.is(slot, o) || slot >= len(places) || int(places[slot]) != i+1 || hits[i].Blocks == 0 ||
			table.groups[slot].Load() == onlyFull {
			continue
		}
		if !locked {
			x.mu.Lock()
			locked = true
		}
		s := x.owner(o)
		if s == nil || !s.isHybrid() {
			continue
		}
		// What was counted without the lock may have changed.
		x.findPieces(keys)
		x.recount(s, len(keys), i, hits, places)
		if n := x.usableTo(s, keys, &hits[i]); n < int(hits[i].Blocks) {
			x.recount(s, n, i, hits, places)
		}
	}
	if locked {
		x.mu.Unlock()
	}
}

// findPieces finds the runs that a prompt's blocks are in, whoever holds them.
func (x *Index) findPieces(keys []Key) {
	x.pieces = x.pieces[:0]
	for at := 0; at < len(keys); {
		id := x.findHead(keys[at])
		if id == 0 {
			return
		}
		r := x.run(id)
		n := min(r.len(), len(keys)-at)
		if n = commonPrefix(x.arena.slice(r.keys(), n), keys[at:at+n]); n == 0 {
			return
		}
		x.pieces = append(x.pieces, piece{at, at + n, id})
		at += n
	}
}

// recount makes hits[i] what s holds of the first n blocks, by its covers alone.
func (x *Index) recount(s *owner, n, i int, hits []Hit, places []uint16) {
	hits[i] = Hit{}
	for _, p := range x.pieces {
		if p.from >= n {
			return
		}
		r := x.run(p.run)
		c := x.findCover(r, s.slot)
		if c < 0 {
			return
		}
		words := x.arena.slice(uint32(r.at.Load())+2*uint32(c), 2)
		if !x.tally(words, hits, places, p.from, min(p.to, n)-p.from) {
			return
		}
	}
}

// usableTo returns after how many blocks a hit ends: the last place before which
// every block is in GPU memory, or booked, and every group has what it needs there.
// vLLM asks one group after the other for the longest hit no longer than the others
// allow, until all agree, which is the same.
func (x *Index) usableTo(s *owner, keys []Key, hit *Hit) int {
	if s.opaque || len(s.full) == 0 {
		return 0
	}
	x.pinPieces(s)
	defer x.unpinPieces()
	most := int(hit.Blocks)
	if int(hit.Tiers[TierGPU]) < most {
		for at := range most {
			if c, off := x.pinned(at); c.tiers(off)&1 == 0 && !c.booked(off) {
				most = at
				break
			}
		}
	}
	n := most
	for again := true; again && n > 0; {
		again = false
		for i := range s.windows {
			if less := x.windowTo(s, &s.windows[i], n); less < n {
				n, again = less, true
			}
		}
	}
	if len(s.ends) > 0 {
		for end := most; end > n; end-- {
			if s.ends[keys[end-1]] {
				return end
			}
		}
	}
	return n
}

// windowTo returns the last place, no later than most, before which a group has what
// it needs.
func (x *Index) windowTo(s *owner, g *window, most int) int {
	need, step := g.needs(s.blockSize)
	if need == 0 {
		return 0
	}
	n := most / step // in blocks of the group
	known := n       // the blocks from here to n are there
	for n > 0 {
		// From the window's start: what is missing there rules out every place up to
		// here, so that looking takes a step for each window and not for each block.
		first, missing := max(0, n-need), -1
		for at := first; at < known; at++ {
			if !x.windowHas(s, g, (at+1)*step-1) {
				missing = at
				break
			}
		}
		if missing < 0 {
			break
		}
		n, known = missing, first
	}
	return n * step
}

// windowHas reports whether a group has the block at a place of the prompt.
func (x *Index) windowHas(s *owner, g *window, at int) bool {
	c, off := x.pinned(at)
	if c == nil || !c.hashed(off) {
		return false
	}
	if g.held[EngineHash(c.hashWords[off].Load())] > 0 {
		return true
	}
	if len(s.alias) > 0 {
		for _, h := range s.alias[refOf(c.id, off)] {
			if g.held[h] > 0 {
				return true
			}
		}
	}
	return false
}

// pinPieces makes s's covers of the pieces ready to be read.
func (x *Index) pinPieces(s *owner) {
	x.pins = x.pins[:0]
	for _, p := range x.pieces {
		i := x.findCover(x.run(p.run), s.slot)
		if i < 0 {
			break
		}
		x.load(s, p.run, i)
		x.pins = append(x.pins, x.cur)
	}
	x.cur = cover{}
}

func (x *Index) unpinPieces() { clear(x.pins) }

// pinned returns where the block at a place of the prompt is; nil if s holds none of
// its run.
func (x *Index) pinned(at int) (c *cover, off int) {
	for i := len(x.pins) - 1; i >= 0; i-- {
		if p := x.pieces[i]; p.from <= at {
			if at >= p.to {
				return nil, 0
			}
			return &x.pins[i], at - p.from
		}
	}
	return nil, 0
}
