package kvcache

// orphan is a block whose parent is not known: what it takes to compute its key
// once it is. Its copies are in over. Orphans of one parent form a list.
type orphan struct {
	parent           EngineHash
	local            uint64
	prev, next       EngineHash
	hasPrev, hasNext bool
}

func (x *Index) storeOrphan(s *owner, h EngineHash, o orphan, gt groupTier, out *Outcome) {
	if old, ok := s.orphans[h]; ok {
		if old.parent == o.parent && old.local == o.local {
			x.raiseOrphan(s, h, gt, out)
			return
		}
		x.dropOrphan(s, h)
	}
	if len(s.orphans) >= x.opts.MaxOrphans || x.orphans*orphanBytes > x.mem.max/orphanShare {
		x.lose(s, ReasonOrphanBound, h, gt, 1)
		out.Missed, out.Reason = out.Missed+1, ReasonOrphanBound
		return
	}
	if s.orphans == nil {
		s.orphans, s.kids = map[EngineHash]orphan{}, map[EngineHash]EngineHash{}
	}
	if first, ok := s.kids[o.parent]; ok {
		o.next, o.hasNext = first, true
		f := s.orphans[first]
		f.prev, f.hasPrev = h, true
		s.orphans[first] = f
	}
	s.kids[o.parent] = h
	s.orphans[h] = o
	x.orphans++
	x.mem.used += orphanBytes
	x.setOver(s, hashGroup{h, s.full[0]}, [NumTiers]uint32{})
	var one [NumTiers]uint32
	one[gt.tier] = 1
	x.setOver(s, hashGroup{h, gt.group}, one)
	out.Orphaned++
}

// orphanShare of the budget, as a divisor, is the most that orphans may take.
const orphanShare = 8

func (x *Index) raiseOrphan(s *owner, h EngineHash, gt groupTier, out *Outcome) {
	hg := hashGroup{h, gt.group}
	n := s.over[hg]
	n[gt.tier]++
	x.setOver(s, hg, n)
	if n[gt.tier] > 1 {
		out.Repeated++
	} else {
		out.Orphaned++
	}
}

// unlinkOrphan takes an orphan off its parent's list but leaves its copies.
func (x *Index) unlinkOrphan(s *owner, h EngineHash) orphan {
	o := s.orphans[h]
	if o.hasNext {
		n := s.orphans[o.next]
		n.prev, n.hasPrev = o.prev, o.hasPrev
		s.orphans[o.next] = n
	}
	switch {
	case o.hasPrev:
		p := s.orphans[o.prev]
		p.next, p.hasNext = o.next, o.hasNext
		s.orphans[o.prev] = p
	case o.hasNext:
		s.kids[o.parent] = o.next
	default:
		delete(s.kids, o.parent)
	}
	if delete(s.orphans, h); len(s.orphans) == 0 {
		s.orphans, s.kids = nil, nil
	}
	x.orphans--
	x.mem.used -= orphanBytes
	return o
}

func (x *Index) dropOrphan(s *owner, h EngineHash) {
	x.unlinkOrphan(s, h)
	x.forgetCopies(s, h)
}

// adopt gives the orphans that descend from a block their places.
func (x *Index) adopt(s *owner, p parent, out *Outcome) {
	todo := x.adopting[:0]
	todo = append(todo, p)
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		h, ok := s.kids[p.hash]
		if !ok {
			todo = todo[:len(todo)-1]
			continue
		}
		o := x.unlinkOrphan(s, h)
		key := chain(p.key, o.local)
		ref := x.locate(p.ref, key, 1)
		if ref == 0 || !x.add(s, ref, h, groupTier{}, false, 1) {
			x.loseHash(s, ReasonBudget, h, 0)
			x.forgetCopies(s, h)
			out.Missed, out.Reason = out.Missed+1, ReasonBudget
			continue
		}
		out.Adopted++
		todo = append(todo, parent{h, true, key, ref})
	}
	x.adopting = todo[:0]
}
