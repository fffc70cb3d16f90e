package kvcache

import "slices"

// owner is what writers know of an Owner.
type owner struct {
	id    Owner
	slot  uint16
	name  string
	table engineTable
	// over holds the copies of the hashes that are not plain. A plain hash is the
	// only one of its block, and has one copy in the owner's only full-attention
	// group for each tier that the block's cover names. The others have an entry
	// here for the first such group and for each other one that has copies.
	over map[hashGroup][NumTiers]uint32
	// alias holds the hashes of a block beyond its first.
	alias map[uint32][]EngineHash
	// full are the groups of full attention, counted any but full[0] that appear in
	// over.
	full, counted []int
	// windows are the groups that are not of full attention. opaque: there are more.
	windows []window
	opaque  bool
	// ends are where prompts end that were booked after there were such groups.
	ends      map[Key]bool
	orphans   map[EngineHash]orphan
	kids      map[EngineHash]EngineHash
	booked    bookings
	capacity  int
	pairs     int
	near      int // sum of onGPU over the owner's covers, without what has changed in an open one
	blockSize int
	// events counts those applied since the owner joined or was last forgotten.
	events uint64
	// lost is what events gave the owner and the bounds took away.
	lost lost
	// position is valid if placed. tracked: there was one since the owner was last
	// forgotten, so that another will come when the message that is being applied
	// is through.
	position        Position
	placed, tracked bool
	awaited         map[int]func() // what waits for the next position
	Counters
}

type hashGroup struct {
	hash  EngineHash
	group int
}

// groupsMax bounds the groups that one owner may have: engines have a few.
const groupsMax = 64

// Estimated bytes of an entry in a map, with what the map wastes.
const (
	overBytes   = 72
	aliasBytes  = 96
	orphanBytes = 144
)

func (s *owner) explicit(h EngineHash) bool {
	if len(s.over) == 0 {
		return false
	}
	_, ok := s.over[hashGroup{h, s.full[0]}]
	return ok
}

// setOver records the copies of a hash in one group.
func (x *Index) setOver(s *owner, hg hashGroup, n [NumTiers]uint32) {
	if s.over == nil {
		s.over = map[hashGroup][NumTiers]uint32{}
	}
	was := len(s.over)
	s.over[hg] = n
	x.mem.used += int64(len(s.over)-was) * overBytes
	if hg.group != s.full[0] && !slices.Contains(s.counted, hg.group) {
		s.counted = append(s.counted, hg.group)
	}
}

func (x *Index) deleteOver(s *owner, hg hashGroup) {
	was := len(s.over)
	delete(s.over, hg)
	x.mem.used += int64(len(s.over)-was) * overBytes
	if len(s.over) == 0 {
		s.over = nil // a map never shrinks
	}
}

// makeExplicit moves the copies of a plain hash to over.
func (x *Index) makeExplicit(s *owner, h EngineHash, tiers uint8) {
	if s.explicit(h) {
		return
	}
	var n [NumTiers]uint32
	for t := range n {
		n[t] = uint32(tiers >> t & 1)
	}
	x.setOver(s, hashGroup{h, s.full[0]}, n)
}

// forgetCopies removes all that over says of a hash.
func (x *Index) forgetCopies(s *owner, h EngineHash) {
	if !s.explicit(h) {
		return
	}
	x.deleteOver(s, hashGroup{h, s.full[0]})
	for _, g := range s.counted {
		x.deleteOver(s, hashGroup{h, g})
	}
}

// forget removes all that is known of a hash but its place in the cover.
func (x *Index) forget(s *owner, h EngineHash, ref uint32) {
	s.table.remove(&x.mem, tagOf(h), ref)
	x.forgetCopies(s, h)
}

// copies reports whether an explicit hash has any copy left.
func (s *owner) copies(h EngineHash) bool {
	if s.over[hashGroup{h, s.full[0]}] != [NumTiers]uint32{} {
		return true
	}
	for _, g := range s.counted {
		if s.over[hashGroup{h, g}] != [NumTiers]uint32{} {
			return true
		}
	}
	return false
}

// usable returns the tiers, as bits, that an explicit hash's block can be used
// from. With several full-attention groups each must have it, and the block is
// as fast as the slowest of them.
func (s *owner) usable(h EngineHash) uint8 {
	var worst Tier
	var mask uint8
	for _, g := range s.full {
		n := s.over[hashGroup{h, g}]
		best := Tier(NumTiers)
		mask = 0
		for t := Tier(NumTiers); t > 0; t-- {
			if n[t-1] > 0 {
				best = t - 1
				mask |= 1 << best
			}
		}
		if best == NumTiers {
			return 0
		}
		worst = max(worst, best)
	}
	if len(s.full) > 1 {
		return 1 << worst
	}
	return mask
}

// lookup returns where the block is that an engine's hash stands for, and leaves
// the owner's cover of its run open.
func (x *Index) lookup(s *owner, h EngineHash) (uint32, bool) {
	p := s.table.find(tagOf(h))
	for ref := p.next(); ref != 0; ref = p.next() {
		id, off := splitRef(ref)
		if !x.open(s, id, false) {
			continue
		}
		c := &x.cur
		if c.hashed(off) && EngineHash(c.hashWords[off].Load()) == h {
			return ref, true
		}
		if len(s.alias) > 0 {
			if slices.Contains(s.alias[ref], h) {
				return ref, true
			}
		}
	}
	return 0, false
}

// add makes an engine's hash stand for the block at ref. With fresh it has one
// copy in gt, else over says what it has. False when there is no memory.
func (x *Index) add(s *owner, ref uint32, h EngineHash, gt groupTier, fresh bool, want int) bool {
	id, off := splitRef(ref)
	if !x.open(s, id, true) {
		x.settle(id)
		return false
	}
	c := &x.cur
	hashed := c.hashed(off)
	plain := fresh && !hashed && len(s.full) == 1 && gt.group == s.full[0]
	if c.width > 0 || off != c.lead || !plain || gt.tier != TierGPU {
		if !x.widen(c, off) {
			return false
		}
	}
	if !hashed && !x.reach(c, off, want) || !s.table.insert(&x.mem, tagOf(h), ref) {
		return false
	}
	c.r.freshen(off)
	if fresh && !plain {
		x.setOver(s, hashGroup{h, s.full[0]}, s.over[hashGroup{h, s.full[0]}])
		n := s.over[hashGroup{h, gt.group}]
		n[gt.tier]++
		x.setOver(s, hashGroup{h, gt.group}, n)
	}
	if hashed {
		x.makeExplicit(s, EngineHash(c.hashWords[off].Load()), c.tiers(off))
		if s.alias == nil {
			s.alias = map[uint32][]EngineHash{}
		}
		s.alias[ref] = append(s.alias[ref], h)
		x.mem.used += aliasBytes
		x.refresh(s, off, ref)
		return true
	}
	c.hashWords[off].Store(uint64(h))
	if !c.booked(off) {
		x.take(c, off)
	}
	if c.width == 0 {
		c.lead++
		return true
	}
	c.setBit(planeHashed, off, true)
	if plain {
		c.setBit(gt.tier, off, true)
		x.confirm(c, off)
		return true
	}
	x.refresh(s, off, ref)
	x.simplify(s, off, ref)
	return true
}

// take and drop count a block as held by the cover's owner and as no longer so.
func (x *Index) take(c *cover, off int) {
	c.held++
	c.s.pairs++
	x.pairs++
	x.hold(c.r, off)
}

func (x *Index) drop(c *cover, off int) {
	c.held--
	c.s.pairs--
	x.pairs--
	x.unhold(c.r, off)
}

// confirm ends the booking of a block that events have made usable.
func (x *Index) confirm(c *cover, off int) {
	if c.booked(off) {
		x.endBooking(c, off)
	}
}

// refresh sets a block's tiers to what its explicit hashes say.
func (x *Index) refresh(s *owner, off int, ref uint32) {
	c := &x.cur
	mask := s.usable(EngineHash(c.hashWords[off].Load()))
	if len(s.alias) > 0 {
		for _, h := range s.alias[ref] {
			mask |= s.usable(h)
		}
	}
	if mask == c.tiers(off) {
		return
	}
	if !x.widen(c, off) {
		x.evictCover(c, off)
		return
	}
	for t := range Tier(NumTiers) {
		c.setBit(t, off, mask>>t&1 != 0)
	}
	if mask != 0 {
		x.confirm(c, off)
	}
}

// simplify makes a hash plain again if it can be.
func (x *Index) simplify(s *owner, off int, ref uint32) {
	c := &x.cur
	if len(s.over) == 0 || len(s.full) > 1 || !c.hashed(off) || len(s.alias) > 0 && len(s.alias[ref]) > 0 {
		return
	}
	h := EngineHash(c.hashWords[off].Load())
	n, ok := s.over[hashGroup{h, s.full[0]}]
	if !ok || n == [NumTiers]uint32{} {
		return
	}
	for _, v := range n {
		if v > 1 {
			return
		}
	}
	for _, g := range s.counted {
		if _, ok := s.over[hashGroup{h, g}]; ok {
			return
		}
	}
	x.deleteOver(s, hashGroup{h, s.full[0]})
}

// raise adds a copy of a known hash, whose cover is open.
func (x *Index) raise(s *owner, h EngineHash, ref uint32, gt groupTier, out *Outcome) {
	c := &x.cur
	_, off := splitRef(ref)
	c.r.freshen(off)
	if !s.explicit(h) {
		tiers := c.tiers(off)
		if gt.group == s.full[0] && tiers>>gt.tier&1 == 0 {
			if x.widen(c, off) {
				c.setBit(gt.tier, off, true)
				out.Applied++
			} else {
				x.lose(s, ReasonBudget, h, gt, 1)
				out.Missed, out.Reason = out.Missed+1, ReasonBudget
			}
			return
		}
		x.makeExplicit(s, h, tiers)
	}
	n := s.over[hashGroup{h, gt.group}]
	n[gt.tier]++
	x.setOver(s, hashGroup{h, gt.group}, n)
	if n[gt.tier] > 1 {
		out.Repeated++
		return
	}
	out.Applied++
	x.refresh(s, off, ref)
}

// lower removes a copy of a known hash, whose cover is open.
func (x *Index) lower(s *owner, h EngineHash, ref uint32, gt groupTier, out *Outcome) {
	c := &x.cur
	_, off := splitRef(ref)
	if !s.explicit(h) {
		tiers := c.tiers(off)
		if gt.group != s.full[0] || tiers>>gt.tier&1 == 0 {
			x.missed(s, h, gt, out)
			return
		}
		out.Applied++
		if tiers == 1<<gt.tier {
			x.dropHash(s, h, off, ref)
		} else {
			c.setBit(gt.tier, off, false)
		}
		return
	}
	if !x.lowerCopies(s, h, gt, out) {
		x.simplify(s, off, ref)
		return
	}
	if !s.copies(h) {
		x.dropHash(s, h, off, ref)
		return
	}
	x.refresh(s, off, ref)
	x.simplify(s, off, ref)
}

// lowerCopies reports whether a last copy in a tier went.
func (x *Index) lowerCopies(s *owner, h EngineHash, gt groupTier, out *Outcome) bool {
	hg := hashGroup{h, gt.group}
	n := s.over[hg]
	switch n[gt.tier] {
	case 0:
		x.missed(s, h, gt, out)
		return false
	case 1:
		out.Applied++
	default:
		out.Repeated++
	}
	n[gt.tier]--
	if n == [NumTiers]uint32{} && gt.group != s.full[0] {
		x.deleteOver(s, hg)
	} else {
		x.setOver(s, hg, n)
	}
	return n[gt.tier] == 0
}

// dropHash ends a hash's standing for the block at ref, whose cover is open.
func (x *Index) dropHash(s *owner, h EngineHash, off int, ref uint32) {
	c := &x.cur
	x.forget(s, h, ref)
	if len(s.alias) > 0 && x.dropAlias(s, h, off, ref) {
		x.refresh(s, off, ref)
		x.simplify(s, off, ref)
		return
	}
	if c.width == 0 && off == c.lead-1 {
		c.lead--
		x.drop(c, off)
		return
	}
	if !x.widen(c, off) {
		// No memory to remember the hole: forget what comes after it.
		x.evictCover(c, off+1)
		c.lead--
		x.drop(c, off)
		return
	}
	for t := range Tier(NumTiers) {
		c.setBit(t, off, false)
	}
	c.setBit(planeHashed, off, false)
	if !c.booked(off) {
		x.drop(c, off)
	}
}

// dropAlias removes one of several hashes of a block; false if h is the only.
func (x *Index) dropAlias(s *owner, h EngineHash, off int, ref uint32) bool {
	list := s.alias[ref]
	last := len(list) - 1
	if last < 0 {
		return false
	}
	if w := &x.cur.hashWords[off]; EngineHash(w.Load()) == h {
		w.Store(uint64(list[last]))
	} else {
		for i := range list {
			if list[i] == h {
				list[i] = list[last]
				break
			}
		}
	}
	x.mem.used -= aliasBytes
	if last == 0 {
		if delete(s.alias, ref); len(s.alias) == 0 {
			s.alias = nil
		}
	} else {
		s.alias[ref] = list[:last]
	}
	return true
}

// evictCover drops every block of the open cover from a place on.
func (x *Index) evictCover(c *cover, from int) {
	s := c.s
	end := c.lead
	if c.width > 0 {
		end = c.width * 64
	}
	for off := end - 1; off >= from; off-- {
		hashed, booked := c.hashed(off), c.booked(off)
		if !hashed && !booked {
			continue
		}
		ref := refOf(c.id, off)
		if hashed {
			x.loseHash(s, ReasonEvicted, EngineHash(c.hashWords[off].Load()), c.tiers(off))
			x.forget(s, EngineHash(c.hashWords[off].Load()), ref)
			for _, h := range s.alias[ref] {
				x.loseHash(s, ReasonEvicted, h, 0)
				x.forget(s, h, ref)
				x.mem.used -= aliasBytes
			}
			delete(s.alias, ref)
		}
		if booked {
			x.endBooking(c, off)
		}
		s.Evicted++
		x.drop(c, off)
		if c.width == 0 {
			c.lead = off
			continue
		}
		for p := range Tier(numPlanes) {
			c.setBit(p, off, false)
		}
	}
}
