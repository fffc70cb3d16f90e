package kvcache

import "slices"

// batchBlocks is how many blocks of an event are stored between two looks at
// the budget.
const batchBlocks = 256

type groupTier struct {
	group int
	tier  Tier
}

// Apply makes one event of o's engine part of the index. Events of one owner
// must come in the engine's order. Nothing of e is kept.
func (x *Index) Apply(o Owner, e *Event) Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil {
		x.gone.Ignored[ReasonOwner]++
		return Outcome{Reason: ReasonOwner}
	}
	x.expire(expireAll)
	s.events++
	s.placed = false
	var out Outcome
	switch e.Kind {
	case Stored:
		out = x.store(s, e)
	case Removed:
		out = x.remove(s, e)
	case Cleared:
		out = Outcome{Verdict: Applied, Applied: s.pairs}
		x.clear(s)
	default:
		out.Reason = ReasonKind
	}
	x.flush()
	s.Count(e.Kind, out)
	return out
}

// admit says whether a Stored event can be used at all.
func (s *owner) admit(e *Event) Reason {
	switch {
	case len(e.Hashes) == 0:
		return ReasonEmpty
	case e.AdapterUnnamed:
		return ReasonAdapter
	case e.Tier >= NumTiers:
		return ReasonKind
	case len(s.full)+len(s.counted) >= groupsMax && !slices.Contains(s.full, e.Group) && !slices.Contains(s.counted, e.Group):
		return ReasonAttention
	case len(e.Tokens) == 0:
		return NoReason
	case e.BlockSize < 1 || len(e.Tokens) != len(e.Hashes)*e.BlockSize:
		return ReasonLength
	case e.Extras != nil && len(e.Extras) != len(e.Hashes):
		return ReasonLength
	case s.blockSize != 0 && s.blockSize != e.BlockSize:
		return ReasonBlockSize
	}
	return NoReason
}

func (x *Index) store(s *owner, e *Event) Outcome {
	if s.ofWindow(e) {
		return x.storeWindow(s, e)
	}
	if reason := s.admit(e); reason != NoReason {
		return Outcome{Reason: reason}
	}
	var out Outcome
	if len(e.Tokens) == 0 {
		x.copyTo(s, e, &out)
		return judge(out)
	}
	x.learn(s, e)
	p := x.parentOf(s, e)
	for i := range e.Hashes {
		if i%batchBlocks == 0 && !x.room(min(batchBlocks, len(e.Hashes)-i)+len(s.orphans)) {
			// Whatever has to leave may include the parent.
			x.makeRoom(min(batchBlocks, len(e.Hashes)-i) + len(s.orphans))
			if p.ref != 0 {
				p.ref, p.known = x.lookup(s, p.hash)
			}
		}
		x.storeBlock(s, e, i, &p, &out)
	}
	if out.Orphaned > 0 && out.Reason == NoReason && s.Evicted > 0 {
		out.Reason = ReasonEvicted
	}
	return judge(out)
}

// learn takes from an event what it says of its owner.
func (x *Index) learn(s *owner, e *Event) {
	fresh := s.blockSize == 0
	if fresh {
		s.blockSize = e.BlockSize
		x.slots.Load().size[s.slot].Store(int64(e.BlockSize))
	}
	if !slices.Contains(s.full, e.Group) {
		x.addGroup(s, e.Group)
		fresh = true
	}
	if fresh && s.isHybrid() {
		x.showGroups(s)
	}
}

// parent is the block that the next one of an event comes after.
type parent struct {
	hash  EngineHash
	known bool
	key   Key
	ref   uint32 // 0 at the root of a chain
}

func (x *Index) parentOf(s *owner, e *Event) parent {
	if !e.HasParent {
		return parent{known: true, key: rootKey(tokenDomain, Scope{e.Adapter, e.Salt})}
	}
	p := parent{hash: e.Parent}
	p.find(x, s)
	return p
}

func (p *parent) find(x *Index, s *owner) {
	if p.ref, p.known = x.lookup(s, p.hash); p.known {
		p.key = x.keyAt(p.ref)
	}
}

// copyTo applies a Stored event without tokens: copies in another tier of blocks
// announced before.
func (x *Index) copyTo(s *owner, e *Event, out *Outcome) {
	gt := groupTier{e.Group, e.Tier}
	for _, h := range e.Hashes {
		if ref, ok := x.lookup(s, h); ok {
			x.raise(s, h, ref, gt, out)
		} else if _, ok := s.orphans[h]; ok {
			x.raiseOrphan(s, h, gt, out)
		} else {
			if s.lost.any() { // it may be another copy of a block that was lost
				x.lose(s, s.lost.why, h, gt, 1)
			}
			out.Missed, out.Reason = out.Missed+1, ReasonUnknown
		}
	}
}

func (x *Index) storeBlock(s *owner, e *Event, i int, p *parent, out *Outcome) {
	h, gt := e.Hashes[i], groupTier{e.Group, e.Tier}
	var extras []Extra
	if e.Extras != nil {
		extras = e.Extras[i]
	}
	local := blockHash(e.Tokens[i*e.BlockSize:(i+1)*e.BlockSize], extras)
	if !p.known {
		if ref, ok := x.lookup(s, h); ok {
			// An engine's hash stands for the block's content: a known one needs
			// no proof from its parent.
			x.raise(s, h, ref, gt, out)
		} else {
			x.storeOrphan(s, h, orphan{parent: p.hash, local: local}, gt, out)
		}
		p.hash = h
		p.find(x, s)
		return
	}
	key := chain(p.key, local)
	if ref, ok := x.lookup(s, h); ok {
		// Offload connectors describe blocks without their salt and extra keys, so
		// that a copy elsewhere is of whatever block the hash stands for.
		if had := x.keyAt(ref); had == key || gt.tier != TierGPU {
			x.raise(s, h, ref, gt, out)
			*p = parent{h, true, had, ref}
			return
		}
		// The hash means another block from now on. What it meant may have been
		// the parent.
		x.endHash(s, h, ref)
		if p.ref != 0 && !x.present(p.ref, p.key) {
			p.ref = 0
		}
	} else if _, ok := s.orphans[h]; ok {
		x.dropOrphan(s, h)
	}
	ref := x.place(s, p.ref, key, h, gt, len(e.Hashes)-i)
	if ref == 0 && x.relieve(p) {
		ref = x.place(s, p.ref, key, h, gt, 1)
	}
	if ref == 0 {
		x.lose(s, ReasonBudget, h, gt, 1)
		out.Missed, out.Reason = out.Missed+1, ReasonBudget
		*p = parent{hash: h}
		return
	}
	out.Applied++
	*p = parent{h, true, key, ref}
	if len(s.kids) > 0 {
		x.adopt(s, *p, out)
	}
}

// place gives a hash's block its place and one copy; 0 if there is no memory.
func (x *Index) place(s *owner, parent uint32, key Key, h EngineHash, gt groupTier, want int) uint32 {
	ref := x.locate(parent, key, want)
	if ref == 0 || !x.add(s, ref, h, gt, true, want) {
		return 0
	}
	return ref
}

// relieve makes more room than a look ahead found necessary: what is free may be
// in pieces too small. False if the block's parent had to go as well.
func (x *Index) relieve(p *parent) bool {
	const runs = 32
	for range runs {
		x.flush()
		if !x.evict() {
			return false
		}
	}
	x.makeRoom(runMax)
	return p.ref == 0 || x.present(p.ref, p.key)
}

// endHash drops all copies of a hash, whose cover is open.
func (x *Index) endHash(s *owner, h EngineHash, ref uint32) {
	_, off := splitRef(ref)
	x.dropHash(s, h, off, ref)
	x.flush()
}

func (x *Index) remove(s *owner, e *Event) Outcome {
	switch {
	case len(e.Hashes) == 0:
		return Outcome{Reason: ReasonEmpty}
	case s.window(e.Group) != nil:
		return x.removeWindow(s, s.window(e.Group), e)
	case e.Attention != FullAttention:
		return Outcome{Reason: ReasonAttention}
	case e.Tier >= NumTiers:
		return Outcome{Reason: ReasonKind}
	}
	var out Outcome
	gt := groupTier{e.Group, e.Tier}
	for _, h := range e.Hashes {
		if ref, ok := x.lookup(s, h); ok {
			x.lower(s, h, ref, gt, &out)
		} else if _, ok := s.orphans[h]; ok {
			if x.lowerCopies(s, h, gt, &out) && !s.copies(h) {
				x.dropOrphan(s, h)
			}
		} else {
			x.missed(s, h, gt, &out)
		}
	}
	return judge(out)
}

// judge derives the verdict from the counts.
func judge(out Outcome) Outcome {
	switch {
	case out.Orphaned > 0:
		out.Verdict = Orphaned
	case out.Applied+out.Adopted > 0:
		out.Verdict = Applied
	case out.Repeated > 0:
		out.Verdict = Duplicate
	default:
		out.Verdict = Ignored
	}
	return out
}

// addGroup adds a full-attention group to an owner. With a second one, blocks
// must be in both, so those that are known so far can't be used for now.
func (x *Index) addGroup(s *owner, g int) {
	x.dropWindow(s, g)
	s.full = append(s.full, g)
	if len(s.full) == 1 {
		return
	}
	for i, c := range s.counted {
		if c == g {
			s.counted = append(s.counted[:i], s.counted[i+1:]...)
			break
		}
	}
	s.counted = append(s.counted, g)
	x.flush()
	for _, id := range x.runsOf(s) {
		if !x.open(s, id, false) {
			continue
		}
		c := &x.cur
		for off := range c.end() {
			if c.hashed(off) {
				x.makeExplicit(s, EngineHash(c.hashWords[off].Load()), c.tiers(off))
			}
		}
		for off := range c.end() {
			if c.hashed(off) {
				x.refresh(s, off, refOf(id, off))
			}
		}
	}
	x.flush()
}
