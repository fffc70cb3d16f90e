package kvcachetest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Model is the index as plainly as it can be written: maps behind one lock, no
// memory budget. It is the oracle that faster implementations are compared with,
// and the place to look up what an operation means. It is safe for concurrent
// use.
type Model struct {
	mu     sync.Mutex
	opts   kvcache.Options
	owners map[kvcache.Owner]*modelOwner
	lastID uint64
	gone   kvcache.Counters
}

type modelOwner struct {
	name      string
	standing  kvcache.Standing
	lost      map[lostCopy]int // negative where more was removed than announced
	short     kvcache.Reason
	position  kvcache.Position
	placed    bool
	blockSize int
	entries   map[kvcache.EngineHash]*modelEntry
	orphans   int
	held      map[kvcache.Key][]kvcache.EngineHash // known entries by own key
	full      map[int]bool                         // full-attention groups seen
	windows   map[int]*modelWindow                 // groups that are not
	opaque    bool                                 // more of these than can be followed
	booked    map[kvcache.Key]modelBooking
	bookings  uint64 // numbers bookings, so that the least recent can be found
	capacity  int
	kvcache.Counters
}

// modelEntry is one engine hash.
type modelEntry struct {
	key    kvcache.Key
	known  bool // key is valid; else it is an orphan
	counts map[groupTier]int
	// What an orphan needs to get its key once the parent is known.
	parent    kvcache.EngineHash
	tokens    []uint32
	extras    []kvcache.Extra
	blockSize int
}

type groupTier struct {
	group int
	tier  kvcache.Tier
}

// NewModel returns an empty model. [kvcache.Options.MaxBytes] has no meaning for
// it.
func NewModel(opts kvcache.Options) *Model {
	if opts.MaxOrphans <= 0 {
		opts.MaxOrphans = kvcache.DefaultMaxOrphans
	}
	if opts.MaxProvisional <= 0 {
		opts.MaxProvisional = kvcache.DefaultMaxProvisional
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Model{opts: opts, owners: map[kvcache.Owner]*modelOwner{}}
}

// Join is [kvcache.Index.Join].
func (m *Model) Join(name string) kvcache.Owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastID++
	o := kvcache.MakeOwner(m.lastID)
	s := &modelOwner{name: name}
	s.reset()
	m.owners[o] = s
	return o
}

// Leave is [kvcache.Index.Leave].
func (m *Model) Leave(o kvcache.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil {
		m.gone.Add(&s.Counters)
		delete(m.owners, o)
	}
}

// Clear is [kvcache.Index.Clear].
func (m *Model) Clear(o kvcache.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil {
		s.reset()
	}
}

func (s *modelOwner) reset() {
	s.blockSize, s.orphans = 0, 0
	s.entries = map[kvcache.EngineHash]*modelEntry{}
	s.held = map[kvcache.Key][]kvcache.EngineHash{}
	s.full, s.windows, s.opaque = map[int]bool{}, map[int]*modelWindow{}, false
	s.booked = map[kvcache.Key]modelBooking{}
	s.lost, s.short, s.placed = map[lostCopy]int{}, kvcache.NoReason, false
}

// Apply is [kvcache.Index.Apply].
func (m *Model) Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.owners[o]
	if s == nil {
		m.gone.Ignored[kvcache.ReasonOwner]++
		return kvcache.Outcome{Reason: kvcache.ReasonOwner}
	}
	s.expire(m.opts.Now())
	s.placed = false
	var out kvcache.Outcome
	switch e.Kind {
	case kvcache.Stored:
		out = s.store(e, m.opts.MaxOrphans)
	case kvcache.Removed:
		out = s.remove(e)
	case kvcache.Cleared:
		out = kvcache.Outcome{Verdict: kvcache.Applied, Applied: len(s.pairs())}
		s.reset()
	default:
		out.Reason = kvcache.ReasonKind
	}
	s.Count(e.Kind, out)
	return out
}

func (s *modelOwner) store(e *kvcache.Event, maxOrphans int) kvcache.Outcome {
	if s.ofWindow(e) {
		return s.storeWindow(e)
	}
	if reason := s.admit(e); reason != kvcache.NoReason {
		return kvcache.Outcome{Reason: reason}
	}
	var out kvcache.Outcome
	gt := groupTier{e.Group, e.Tier}
	if len(e.Tokens) == 0 { // a copy of blocks announced before
		for _, h := range e.Hashes {
			if en := s.entries[h]; en != nil {
				s.raise(en, gt, &out)
			} else {
				if s.short != kvcache.NoReason { // it may be another copy of a block that was lost
					s.lose(lostCopy{h, gt}, s.short)
				}
				out.Missed, out.Reason = out.Missed+1, kvcache.ReasonUnknown
			}
		}
		return judge(out)
	}
	s.blockSize = e.BlockSize
	s.full[e.Group] = true
	delete(s.windows, e.Group)
	parent := e.Parent
	for i, h := range e.Hashes {
		var extras []kvcache.Extra
		if e.Extras != nil {
			extras = e.Extras[i]
		}
		b := block{h, parent, i == 0 && !e.HasParent, e.Tokens[i*e.BlockSize : (i+1)*e.BlockSize], extras}
		s.storeBlock(e, b, gt, maxOrphans, &out)
		parent = h
	}
	return judge(out)
}

type block struct {
	hash, parent kvcache.EngineHash
	root         bool
	tokens       []uint32
	extras       []kvcache.Extra
}

func (s *modelOwner) storeBlock(e *kvcache.Event, b block, gt groupTier, maxOrphans int, out *kvcache.Outcome) {
	hasher := kvcache.Hasher{BlockSize: e.BlockSize}
	en, p := s.entries[b.hash], s.entries[b.parent]
	if b.root || p != nil && p.known {
		var parent kvcache.Key
		if b.root {
			parent = hasher.Root(kvcache.Scope{Adapter: e.Adapter, Salt: e.Salt})
		} else {
			parent = p.key
		}
		key := hasher.Next(parent, b.tokens, b.extras)
		if en != nil && en.known && (en.key == key || gt.tier != kvcache.TierGPU) {
			// Copies that an offload connector describes lack salt and extra keys.
			s.raise(en, gt, out)
			return
		}
		// The hash means another block from now on.
		if en != nil {
			s.drop(b.hash, en)
		}
		en = &modelEntry{counts: map[groupTier]int{gt: 1}}
		s.entries[b.hash] = en
		s.learn(b.hash, en, key)
		out.Applied++
		out.Adopted += s.adopt()
		return
	}
	same := en != nil && !en.known && en.parent == b.parent &&
		slices.Equal(en.tokens, b.tokens) && slices.Equal(en.extras, b.extras)
	if en != nil && (en.known || same) {
		// An engine's hash stands for the block's content: a known one needs no
		// proof from its parent.
		s.raise(en, gt, out)
		return
	}
	if en != nil {
		s.drop(b.hash, en)
	}
	if s.orphans >= maxOrphans {
		s.lose(lostCopy{b.hash, gt}, kvcache.ReasonOrphanBound)
		out.Missed, out.Reason = out.Missed+1, kvcache.ReasonOrphanBound
		return
	}
	s.orphans++
	out.Orphaned++
	s.entries[b.hash] = &modelEntry{
		parent: b.parent, tokens: slices.Clone(b.tokens), extras: slices.Clone(b.extras),
		blockSize: e.BlockSize, counts: map[groupTier]int{gt: 1},
	}
}

// admit says whether a Stored event can be used at all.
func (s *modelOwner) admit(e *kvcache.Event) kvcache.Reason {
	switch {
	case len(e.Hashes) == 0:
		return kvcache.ReasonEmpty
	case e.AdapterUnnamed:
		return kvcache.ReasonAdapter
	case len(e.Tokens) == 0:
		return kvcache.NoReason
	case e.BlockSize < 1 || len(e.Tokens) != len(e.Hashes)*e.BlockSize:
		return kvcache.ReasonLength
	case e.Extras != nil && len(e.Extras) != len(e.Hashes):
		return kvcache.ReasonLength
	case s.blockSize != 0 && s.blockSize != e.BlockSize:
		return kvcache.ReasonBlockSize
	}
	return kvcache.NoReason
}

func (s *modelOwner) raise(en *modelEntry, gt groupTier, out *kvcache.Outcome) {
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
func (s *modelOwner) confirm(en *modelEntry) {
	if en.known {
		if _, ok := s.tier(en.key); ok {
			delete(s.booked, en.key)
		}
	}
}

func (s *modelOwner) learn(h kvcache.EngineHash, en *modelEntry, key kvcache.Key) {
	en.key, en.known, en.tokens, en.extras = key, true, nil, nil
	s.held[key] = append(s.held[key], h)
	s.confirm(en)
}

// adopt gives keys to the orphans whose parents are known by now.
func (s *modelOwner) adopt() int {
	n := 0
	for again := s.orphans > 0; again; {
		again = false
		for h, en := range s.entries {
			if p := s.entries[en.parent]; !en.known && p != nil && p.known {
				key := kvcache.Hasher{BlockSize: en.blockSize}.Next(p.key, en.tokens, en.extras)
				s.learn(h, en, key)
				s.orphans--
				n++
				again = true
			}
		}
	}
	return n
}

func (s *modelOwner) remove(e *kvcache.Event) kvcache.Outcome {
	switch {
	case len(e.Hashes) == 0:
		return kvcache.Outcome{Reason: kvcache.ReasonEmpty}
	case s.windows[e.Group] != nil:
		return s.removeWindow(e)
	case e.Attention != kvcache.FullAttention:
		return kvcache.Outcome{Reason: kvcache.ReasonAttention}
	}
	var out kvcache.Outcome
	gt := groupTier{e.Group, e.Tier}
	for _, h := range e.Hashes {
		en := s.entries[h]
		switch {
		case en == nil || en.counts[gt] == 0:
			s.missed(lostCopy{h, gt})
			out.Missed, out.Reason = out.Missed+1, kvcache.ReasonUnknown
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
	return judge(out)
}

func (s *modelOwner) drop(h kvcache.EngineHash, en *modelEntry) {
	delete(s.entries, h)
	if !en.known {
		s.orphans--
		return
	}
	hashes := slices.DeleteFunc(s.held[en.key], func(o kvcache.EngineHash) bool { return o == h })
	if s.held[en.key] = hashes; len(hashes) == 0 {
		delete(s.held, en.key)
	}
}

// judge derives the verdict from the counts.
func judge(out kvcache.Outcome) kvcache.Outcome {
	switch {
	case out.Orphaned > 0:
		out.Verdict = kvcache.Orphaned
	case out.Applied+out.Adopted > 0:
		out.Verdict = kvcache.Applied
	case out.Repeated > 0:
		out.Verdict = kvcache.Duplicate
	default:
		out.Verdict = kvcache.Ignored
	}
	return out
}

// tier returns the fastest tier from which key can be used. With several
// full-attention groups a block is usable only if each of them has it, and as
// fast as the slowest of them.
func (s *modelOwner) tier(key kvcache.Key) (kvcache.Tier, bool) {
	best := kvcache.Tier(kvcache.NumTiers)
	for _, h := range s.held[key] {
		var worst kvcache.Tier
		for g := range s.full {
			mine := kvcache.Tier(kvcache.NumTiers)
			for t := range kvcache.Tier(kvcache.NumTiers) {
				if s.entries[h].counts[groupTier{g, t}] > 0 {
					mine = t
					break
				}
			}
			worst = max(worst, mine)
		}
		best = min(best, worst)
	}
	return best, best < kvcache.NumTiers
}

// Match is [kvcache.Index.Match].
func (m *Model) Match(keys []kvcache.Key, owners []kvcache.Owner, hits []kvcache.Hit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	for i, o := range owners {
		hits[i] = kvcache.Hit{}
		if s := m.owners[o]; s != nil {
			s.expire(now)
			hits[i] = s.match(keys)
			if n := int(hits[i].Blocks); s.hybrid() {
				for n > 0 && (len(s.full) == 0 || s.opaque || !s.usable(keys, n)) {
					n--
				}
				hits[i] = s.match(keys[:n])
			}
		}
	}
}

func (s *modelOwner) match(keys []kvcache.Key) (h kvcache.Hit) {
	for _, k := range keys {
		t, ok := s.tier(k)
		if ok && h.Confirmed == h.Blocks {
			h.Confirmed++
		}
		if !ok {
			if _, booked := s.booked[k]; !booked {
				break
			}
			t = kvcache.TierGPU
		}
		h.Blocks++
		h.Tiers[t]++
	}
	return h
}

// BlockSize is [kvcache.Index.BlockSize].
func (m *Model) BlockSize(o kvcache.Owner) int { return m.OwnerStats(o).BlockSize }

// Stats is [kvcache.Index.Stats], with no bytes.
func (m *Model) Stats() kvcache.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := kvcache.Stats{Owners: len(m.owners), Counters: m.gone}
	blocks := map[kvcache.Key]bool{}
	for _, s := range m.owners {
		s.expire(m.opts.Now())
		out.Add(&s.Counters)
		pairs := s.pairs()
		maps.Copy(blocks, pairs)
		out.Pairs += len(pairs)
		out.Provisional += len(s.booked)
		out.Orphans += s.orphans
		if s.short != kvcache.NoReason {
			out.Short++
		}
	}
	out.Blocks = len(blocks)
	return out
}

// OwnerStats is [kvcache.Index.OwnerStats].
func (m *Model) OwnerStats(o kvcache.Owner) kvcache.OwnerStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.owners[o]
	if s == nil {
		return kvcache.OwnerStats{}
	}
	s.expire(m.opts.Now())
	st := s.effective()
	return kvcache.OwnerStats{
		Name: s.name, Pairs: len(s.pairs()), GPU: s.onGPU(), Provisional: len(s.booked), Orphans: s.orphans, Missing: s.missing(),
		Short: s.short, BlockSize: s.blockSize, Windows: s.inWindows(), Trust: st.Trust, TrustReason: st.Reason, Counters: s.Counters,
	}
}

// onGPU counts the blocks that are in GPU memory, or booked and so expected there.
func (s *modelOwner) onGPU() (n int) {
	for k := range s.pairs() {
		_, booked := s.booked[k]
		if tier, ok := s.tier(k); booked || ok && tier == kvcache.TierGPU {
			n++
		}
	}
	return n
}

// pairs is the set of blocks that are held in any group or booked.
func (s *modelOwner) pairs() map[kvcache.Key]bool {
	pairs := map[kvcache.Key]bool{}
	for k := range s.held {
		pairs[k] = true
	}
	for k := range s.booked {
		pairs[k] = true
	}
	return pairs
}
