package kvcache

// Standing is how far what is known of one owner can be relied on, and why no
// further.
type Standing struct {
	Trust Trust
	// Reason is a short fixed phrase that may be a metric label, such as "gap" or
	// "evicted by budget"; "" for Exact, and where nobody said why.
	Reason string
}

// reasonSnapshot is why an owner is Approximate after an Import.
const reasonSnapshot = "taken from a snapshot"

// Trust returns how far the knowledge of o can be relied on: the Trust of its
// [Index.Standing].
func (x *Index) Trust(o Owner) Trust { return x.Standing(o).Trust }

// Standing returns how far the knowledge of o can be relied on, and why no further;
// [Blind] without a reason for an owner that left. It is what SetStanding said,
// except that an owner of which anything was lost at a bound is not [Exact]: it is
// [Resyncing], a lower bound, and the reason is that of [Index.Short]. That ends
// when nothing is missing any more. Nor is one Exact that has a group of a kind of
// attention that is not known, or none of full attention: that one is [Approximate],
// because its engine may reuse more.
func (x *Index) Standing(o Owner) Standing {
	t, slot := x.slots.Load(), int(o.slot())
	if !t.is(slot, o) {
		return Standing{}
	}
	st := t.effective(slot)
	if !t.is(slot, o) {
		return Standing{}
	}
	return st
}

func (t *slotTable) effective(slot int) Standing {
	// In this order: whoever stores a standing after making up for a loss finds it
	// in force.
	p, short := t.standing[slot].Load(), Reason(t.short[slot].Load())
	switch {
	case p == nil:
		return Standing{}
	case p.Trust == Exact && short != NoReason:
		return Standing{Resyncing, short.String()}
	case p.Trust == Exact && t.groups[slot].Load() == hybridGuess:
		return Standing{Approximate, reasonGroups}
	default:
		return *p
	}
}

// SetTrust is SetStanding without a reason.
func (x *Index) SetTrust(o Owner, t Trust) { x.SetStanding(o, Standing{Trust: t}) }

// SetStanding records how far the knowledge of o can be relied on. The index itself
// changes it only in [Index.Import], from Blind to Approximate. It does nothing for
// an owner that left.
func (x *Index) SetStanding(o Owner, st Standing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owner(o); s != nil {
		x.stand(s, st)
	}
}

func (x *Index) stand(s *owner, st Standing) { x.slots.Load().standing[s.slot].Store(&st) }

func (x *Index) standingOf(s *owner) Standing { return x.slots.Load().effective(int(s.slot)) }

// trustOf is the trust that was given, whatever was lost.
func (x *Index) trustOf(s *owner) Trust {
	if p := x.slots.Load().standing[s.slot].Load(); p != nil {
		return p.Trust
	}
	return Blind
}

// Short says whether o holds less than its events said, because of the index's own
// bounds, and why: [ReasonEvicted] when blocks left to stay within the budget,
// [ReasonBudget] when there was no room for new ones, [ReasonOrphanBound] when too
// many waited for their parent. With several of these it is the first. NoReason
// means that nothing is missing, which says nothing of events that never came.
//
// It ends when o is cleared, by its engine or by Clear, so that events can be
// applied anew; and by itself, once events have removed every copy that is missing.
// For the latter the index keeps a sum of what is missing, no list. If an engine
// removes what it never announced meanwhile, the sum is never right again, and only
// clearing ends it.
//
// What is booked is not part of it: bookings are guesses, of which the oldest leave
// at [Options.MaxProvisional] or the owner's capacity, counted as Expired. Short
// takes no lock.
func (x *Index) Short(o Owner) Reason {
	t, slot := x.slots.Load(), int(o.slot())
	if !t.is(slot, o) {
		return NoReason
	}
	short := Reason(t.short[slot].Load())
	if !t.is(slot, o) {
		return NoReason
	}
	return short
}

// lost sums up the copies that events gave an owner and that it does not hold.
// Where nothing else is wrong, what the engine removes and the index does not know
// is one of these.
type lost struct {
	copies int
	sum    uint64 // of copySum over them
	why    Reason // NoReason if there are none
}

func (l *lost) any() bool { return l.why != NoReason }

// copySum is a number for one copy of a hash.
func copySum(h EngineHash, gt groupTier) uint64 {
	v := uint64(h) + uint64(gt.group)*0xd1342543de82ef95 + uint64(gt.tier+1)*0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

func (l *lost) add(why Reason, h EngineHash, gt groupTier, n uint32) {
	if !l.any() && n > 0 {
		l.why = why
	}
	l.copies += int(n)
	l.sum += copySum(h, gt) * uint64(n)
}

// lose notes that n copies of a hash are not held for a reason.
func (x *Index) lose(s *owner, why Reason, h EngineHash, gt groupTier, n uint32) {
	if !s.lost.any() && n > 0 {
		x.slots.Load().short[s.slot].Store(uint32(why))
	}
	s.lost.add(why, h, gt, n)
}

// loseHash notes the loss of all copies of a hash that is about to be forgotten.
// tiers are those of its block, for a plain one.
func (x *Index) loseHash(s *owner, why Reason, h EngineHash, tiers uint8) {
	s.copiesOf(h, tiers, func(gt groupTier, n uint32) { x.lose(s, why, h, gt, n) })
}

// copiesOf calls f with the copies of a hash. tiers are those of its block, for a
// plain one.
func (s *owner) copiesOf(h EngineHash, tiers uint8, f func(gt groupTier, n uint32)) {
	if !s.explicit(h) {
		for t := range Tier(NumTiers) {
			if tiers>>t&1 != 0 {
				f(groupTier{s.full[0], t}, 1)
			}
		}
		return
	}
	group := func(g int) {
		for t, n := range s.over[hashGroup{h, g}] {
			if n > 0 {
				f(groupTier{g, Tier(t)}, n)
			}
		}
	}
	group(s.full[0])
	for _, g := range s.counted {
		if g != s.full[0] {
			group(g)
		}
	}
}

// missed counts a removal of what is not held, which may be one of the copies that
// were lost.
func (x *Index) missed(s *owner, h EngineHash, gt groupTier, out *Outcome) {
	out.Missed, out.Reason = out.Missed+1, ReasonUnknown
	if !s.lost.any() {
		return
	}
	s.lost.copies--
	s.lost.sum -= copySum(h, gt)
	if s.lost.copies == 0 && s.lost.sum == 0 {
		x.findAll(s)
	}
}

// findAll notes that nothing is missing.
func (x *Index) findAll(s *owner) {
	if s.lost.any() {
		s.lost = lost{}
		x.slots.Load().short[s.slot].Store(0)
	}
}
