package kvcache

import (
	"slices"
	"sync"
	"time"
)

// Index records which owner holds which block, in which tier. It is safe for
// concurrent use. It starts no goroutine and needs no closing.
type Index struct {
	mu     sync.Mutex
	opts   Options
	owners map[Owner]*ownerState
	lastID uint64
	gone   Counters
}

type ownerState struct {
	name      string
	trust     Trust
	blockSize int
	entries   map[EngineHash]*entry
	orphans   int
	held      map[Key][]EngineHash // known entries by own key
	full      map[int]bool         // full-attention groups seen
	other     map[int]bool         // groups that are not
	booked    []booking            // least recently booked first
	capacity  int
	Counters
}

type entry struct {
	key   Key
	known bool
	// What is needed to compute key once the parent is known.
	parent    EngineHash
	tokens    []uint32
	extras    []Extra
	blockSize int
	counts    map[groupTier]int
}

type groupTier struct {
	group int
	tier  Tier
}

type booking struct {
	key    Key
	expiry time.Time
}

// NewIndex returns an empty index.
func NewIndex(opts Options) *Index {
	return &Index{opts: opts.withDefaults(), owners: map[Owner]*ownerState{}}
}

// Join adds an owner: one data-parallel rank of one worker instance. It starts
// empty and [Blind]. The name is for people; it need not be unique.
func (x *Index) Join(name string) Owner {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lastID++
	o := Owner{x.lastID}
	s := &ownerState{name: name}
	s.reset()
	x.owners[o] = s
	return o
}

// Leave removes an owner and frees what it holds. o is never valid again.
func (x *Index) Leave(o Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owners[o]; s != nil {
		x.gone.Add(&s.Counters)
		delete(x.owners, o)
	}
}

// Clear forgets everything that an owner holds, its block size included; its
// trust and its capacity stay.
func (x *Index) Clear(o Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owners[o]; s != nil {
		s.reset()
	}
}

func (s *ownerState) reset() {
	s.blockSize, s.orphans, s.booked = 0, 0, nil
	s.entries = map[EngineHash]*entry{}
	s.held = map[Key][]EngineHash{}
	s.full, s.other = map[int]bool{}, map[int]bool{}
}

// Apply makes one event of o's engine part of the index. Events of one owner
// must come in the engine's order. Nothing of e is kept.
func (x *Index) Apply(o Owner, e *Event) Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owners[o]
	if s == nil {
		x.gone.Ignored[ReasonOwner]++
		return Outcome{Reason: ReasonOwner}
	}
	s.expire(x.opts.Now())
	var out Outcome
	switch e.Kind {
	case Stored:
		out = s.store(e, x.opts.MaxOrphans)
	case Removed:
		out = s.remove(e)
	case Cleared:
		out = Outcome{Verdict: Applied, Applied: len(s.pairs())}
		s.reset()
	default:
		out.Reason = ReasonKind
	}
	s.Count(e.Kind, out)
	return out
}

func (s *ownerState) store(e *Event, maxOrphans int) Outcome {
	if reason := s.admit(e); reason != NoReason {
		return Outcome{Reason: reason}
	}
	var out Outcome
	gt := groupTier{e.Group, e.Tier}
	if len(e.Tokens) == 0 { // a copy of blocks announced before
		for _, h := range e.Hashes {
			if en := s.entries[h]; en != nil {
				s.raise(en, gt, &out)
			} else {
				out.Missed, out.Reason = out.Missed+1, ReasonUnknown
			}
		}
		return out.judge()
	}
	s.blockSize = e.BlockSize
	s.full[e.Group] = true
	delete(s.other, e.Group)
	hasher := Hasher{BlockSize: e.BlockSize}
	parent := e.Parent
	for i, h := range e.Hashes {
		tokens := e.Tokens[i*e.BlockSize : (i+1)*e.BlockSize]
		var extras []Extra
		if e.Extras != nil {
			extras = e.Extras[i]
		}
		root := i == 0 && !e.HasParent
		en := s.entries[h]
		switch p := s.entries[parent]; {
		case root || p != nil && p.known:
			var key Key
			if root {
				key = hasher.Next(hasher.Root(Scope{e.Adapter, e.Salt}), tokens, extras)
			} else {
				key = hasher.Next(p.key, tokens, extras)
			}
			// An orphan of that hash waits for another parent: not this block.
			if en != nil && (!en.known || en.key != key) {
				s.drop(h, en)
				en = nil
			}
			if en != nil {
				s.raise(en, gt, &out)
				break
			}
			en = &entry{counts: map[groupTier]int{gt: 1}}
			s.entries[h] = en
			s.learn(h, en, key)
			out.Applied++
			out.Adopted += s.adopt()
		case en != nil && (en.known || en.parent == parent && slices.Equal(en.tokens, tokens) && slices.Equal(en.extras, extras)):
			s.raise(en, gt, &out)
		default:
			if en != nil {
				s.drop(h, en)
			}
			if s.orphans >= maxOrphans {
				out.Missed, out.Reason = out.Missed+1, ReasonOrphanBound
				break
			}
			s.orphans++
			out.Orphaned++
			s.entries[h] = &entry{
				parent: parent, tokens: slices.Clone(tokens), extras: slices.Clone(extras),
				blockSize: e.BlockSize, counts: map[groupTier]int{gt: 1},
			}
		}
		parent = h
	}
	return out.judge()
}

// admit says whether a Stored event can be used at all.
func (s *ownerState) admit(e *Event) Reason {
	switch {
	case len(e.Hashes) == 0:
		return ReasonEmpty
	case e.Attention != FullAttention:
		if !s.full[e.Group] {
			s.other[e.Group] = true
		}
		return ReasonAttention
	case len(e.Tokens) == 0 && s.other[e.Group]:
		return ReasonAttention
	case e.AdapterUnnamed:
		return ReasonAdapter
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

func (s *ownerState) raise(en *entry, gt groupTier, out *Outcome) {
	en.counts[gt]++
	switch {
	case en.counts[gt] > 1:
		out.Repeated++
	case en.known:
		out.Applied++
	default:
		out.Orphaned++
	}
	s.confirm(en)
}

// confirm ends a booking that events have made true.
func (s *ownerState) confirm(en *entry) {
	if en.known {
		if _, ok := s.tier(en.key); ok {
			s.unbook(en.key)
		}
	}
}

func (s *ownerState) learn(h EngineHash, en *entry, key Key) {
	en.key, en.known, en.tokens, en.extras = key, true, nil, nil
	s.held[key] = append(s.held[key], h)
	s.confirm(en)
}

// adopt gives keys to the orphans whose parents are known by now.
func (s *ownerState) adopt() int {
	n := 0
	for again := true; again; {
		again = false
		for ch, c := range s.entries {
			if p := s.entries[c.parent]; !c.known && p != nil && p.known {
				key := Hasher{BlockSize: c.blockSize}.Next(p.key, c.tokens, c.extras)
				s.learn(ch, c, key)
				s.orphans--
				n++
				again = true
			}
		}
	}
	return n
}

func (s *ownerState) remove(e *Event) Outcome {
	switch {
	case len(e.Hashes) == 0:
		return Outcome{Reason: ReasonEmpty}
	case e.Attention != FullAttention || s.other[e.Group]:
		return Outcome{Reason: ReasonAttention}
	}
	var out Outcome
	gt := groupTier{e.Group, e.Tier}
	for _, h := range e.Hashes {
		en := s.entries[h]
		switch {
		case en == nil || en.counts[gt] == 0:
			out.Missed, out.Reason = out.Missed+1, ReasonUnknown
			continue
		case en.counts[gt] > 1:
			en.counts[gt]--
			out.Repeated++
			continue
		}
		out.Applied++
		delete(en.counts, gt)
		if len(en.counts) == 0 {
			s.drop(h, en)
		}
	}
	return out.judge()
}

func (s *ownerState) drop(h EngineHash, en *entry) {
	delete(s.entries, h)
	if !en.known {
		s.orphans--
		return
	}
	hashes := slices.DeleteFunc(s.held[en.key], func(o EngineHash) bool { return o == h })
	if s.held[en.key] = hashes; len(hashes) == 0 {
		delete(s.held, en.key)
	}
}

// judge derives the verdict from the counts.
func (out Outcome) judge() Outcome {
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

// tier returns the fastest tier from which key can be used. With several
// full-attention groups a block is usable only if each of them has it.
func (s *ownerState) tier(key Key) (Tier, bool) {
	best := Tier(NumTiers)
	for _, h := range s.held[key] {
		worst := Tier(0)
		for g := range s.full {
			mine := Tier(NumTiers)
			for t := range Tier(NumTiers) {
				if s.entries[h].counts[groupTier{g, t}] > 0 {
					mine = t
					break
				}
			}
			worst = max(worst, mine)
		}
		best = min(best, worst)
	}
	return best, best < NumTiers
}

// Book makes keys, a prompt from its start, provisionally resident: a request
// that will produce them is on its way to o. A booking ends when an event
// confirms the block, after ttl, or at the owner's capacity. Blocks that are
// confirmed already are left alone. Booking again renews the ttl.
func (x *Index) Book(o Owner, keys []Key, ttl time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owners[o]
	if s == nil || ttl <= 0 {
		return
	}
	now := x.opts.Now()
	s.expire(now)
	// From the last to the first, so that a prompt's end leaves before its start.
	for _, k := range slices.Backward(keys) {
		if _, ok := s.tier(k); ok {
			continue
		}
		if !s.unbook(k) {
			s.Booked++
		}
		s.booked = append(s.booked, booking{k, now.Add(ttl)})
	}
	s.trim(x.opts.MaxProvisional)
}

// SetCapacity tells how many blocks o's engine has room for. It bounds the booked
// blocks of owners that send no events: beyond it those booked least recently
// leave. 0 removes the bound; [Options.MaxProvisional] always holds.
func (x *Index) SetCapacity(o Owner, blocks int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owners[o]; s != nil {
		s.expire(x.opts.Now())
		s.capacity = max(blocks, 0)
		s.trim(x.opts.MaxProvisional)
	}
}

func (s *ownerState) trim(most int) {
	if s.capacity > 0 {
		most = min(most, s.capacity)
	}
	if n := len(s.booked) - most; n > 0 {
		s.booked = slices.Delete(s.booked, 0, n)
		s.Expired += uint64(n)
	}
}

func (s *ownerState) unbook(k Key) bool {
	n := len(s.booked)
	s.booked = slices.DeleteFunc(s.booked, func(b booking) bool { return b.key == k })
	return len(s.booked) < n
}

func (s *ownerState) expire(now time.Time) {
	n := len(s.booked)
	s.booked = slices.DeleteFunc(s.booked, func(b booking) bool { return !now.Before(b.expiry) })
	s.Expired += uint64(n - len(s.booked))
}

// Match tells for each of owners how much of a prompt it holds. keys are the
// prompt's, from its start; hits must be as long as owners, and hits[i] is
// overwritten with what owners[i] holds: nothing for an owner that left. It does
// not allocate.
func (x *Index) Match(keys []Key, owners []Owner, hits []Hit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.opts.Now()
	for i, o := range owners {
		hits[i] = Hit{}
		s := x.owners[o]
		if s == nil {
			continue
		}
		s.expire(now)
		h := &hits[i]
		for _, k := range keys {
			t, ok := s.tier(k)
			switch {
			case ok:
				if h.Confirmed == h.Blocks {
					h.Confirmed++
				}
			case slices.ContainsFunc(s.booked, func(b booking) bool { return b.key == k }):
				t = TierGPU
			default:
				t = NumTiers
			}
			if t == NumTiers {
				break
			}
			h.Blocks++
			h.Tiers[t]++
		}
	}
}

// BlockSize returns the block size that o's events have, in tokens; 0 while it
// is unknown.
func (x *Index) BlockSize(o Owner) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owners[o]; s != nil {
		return s.blockSize
	}
	return 0
}

// Trust returns how far the knowledge of o can be relied on; [Blind] for an owner
// that left.
func (x *Index) Trust(o Owner) Trust {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owners[o]; s != nil {
		return s.trust
	}
	return Blind
}

// SetTrust records how far the knowledge of o can be relied on. The index itself
// never changes it.
func (x *Index) SetTrust(o Owner, t Trust) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owners[o]; s != nil {
		s.trust = t
	}
}

// Stats returns figures for the whole index. It takes time in proportion to its
// size.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := Stats{Owners: len(x.owners), Budget: x.opts.MaxBytes, Counters: x.gone}
	blocks := map[Key]bool{}
	for _, s := range x.owners {
		s.expire(x.opts.Now())
		out.Add(&s.Counters)
		pairs := s.pairs()
		for k := range pairs {
			blocks[k] = true
		}
		out.Pairs += len(pairs)
		out.Provisional += len(s.booked)
		out.Orphans += s.orphans
	}
	out.Blocks = len(blocks)
	return out
}

// OwnerStats returns figures for one owner; zero for one that left.
func (x *Index) OwnerStats(o Owner) OwnerStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owners[o]
	if s == nil {
		return OwnerStats{}
	}
	s.expire(x.opts.Now())
	return OwnerStats{
		Name: s.name, Pairs: len(s.pairs()), Provisional: len(s.booked), Orphans: s.orphans,
		BlockSize: s.blockSize, Trust: s.trust, Counters: s.Counters,
	}
}

// pairs is the set of keys that count as held.
func (s *ownerState) pairs() map[Key]bool {
	pairs := map[Key]bool{}
	for k := range s.held {
		if _, ok := s.tier(k); ok {
			pairs[k] = true
		}
	}
	for _, b := range s.booked {
		pairs[b.key] = true
	}
	return pairs
}
