package kvcache

import "slices"

// window is what an owner holds in one group that is not of full attention. Such
// groups keep few of a prompt's blocks, and their events name those by hashes that
// the full-attention groups' events give a place. So it is a set of hashes.
type window struct {
	group int
	kind  Attention
	// tokens is the window's length, size the block size, in tokens; 0 is unknown.
	tokens, size int
	// held counts the copies in GPU memory. Others are not followed: an engine
	// takes the state of all its groups from one tier.
	held map[EngineHash]uint32
}

// windowBytes is an estimate for an entry of window.held, with what the map wastes,
// endBytes for one of owner.ends.
const (
	windowBytes = 40
	endBytes    = 32
)

// windowShare of the budget, as a divisor, is the most that windows may take: they
// are of no use without the blocks that they are windows on.
const windowShare = 2

// What readers see of an owner's groups.
const (
	onlyFull    uint32 = iota
	hybrid             // hits end where every group allows it
	hybridGuess        // and of one of the groups it is not known where that is
)

// reasonGroups is why an owner is Approximate at best.
const reasonGroups = "attention of unknown kind"

func (s *owner) window(group int) *window {
	for i := range s.windows {
		if s.windows[i].group == group {
			return &s.windows[i]
		}
	}
	return nil
}

// ofWindow reports whether a Stored event is of a group that is not of full attention.
func (s *owner) ofWindow(e *Event) bool {
	return len(e.Hashes) > 0 && (e.Attention != FullAttention || len(e.Tokens) == 0 && s.window(e.Group) != nil)
}

// learnWindow takes from an event what it says of a group that is not of full
// attention; nil if the group can't be followed.
func (x *Index) learnWindow(s *owner, e *Event) *window {
	if slices.Contains(s.full, e.Group) {
		return nil // full attention was said before, and is what hits depend on
	}
	g := s.window(e.Group)
	switch {
	case g == nil && len(s.windows) >= groupsMax:
		s.opaque = true
	case g == nil:
		s.windows = append(s.windows, window{group: e.Group, kind: e.Attention, tokens: e.Window, size: e.BlockSize})
		g = &s.windows[len(s.windows)-1]
	case len(e.Tokens) == 0:
		return g // a copy elsewhere, which says nothing of its group
	case g.size == 0:
		g.kind, g.tokens, g.size = e.Attention, e.Window, e.BlockSize
	case g.kind != e.Attention || g.tokens != e.Window || g.size != e.BlockSize:
		g.kind = OtherAttention
	default:
		return g
	}
	x.showGroups(s)
	return g
}

// showGroups tells readers what an owner's groups are.
func (x *Index) showGroups(s *owner) {
	was := &x.slots.Load().groups[s.slot]
	now := onlyFull
	switch {
	case s.opaque || len(s.windows) > 0 && len(s.full) == 0:
		now = hybridGuess
	case len(s.windows) > 0:
		now = hybrid
		for i := range s.windows {
			if need, _ := s.windows[i].needs(s.blockSize); s.windows[i].kind == OtherAttention || need == 0 {
				now = hybridGuess
			}
		}
	default:
	}
	if before := was.Swap(now); before == onlyFull && now != onlyFull {
		x.hybrids.Add(1)
	} else if before != onlyFull && now == onlyFull {
		x.hybrids.Add(-1)
	}
}

// needs returns how many of the group's blocks must be there before the place where
// a hit ends, and of how many of the owner's blocks each is as long, at whose
// multiples hits end. No hit can be told where need is 0.
func (g *window) needs(blockSize int) (need, step int) {
	switch {
	case blockSize < 1 || g.size < 1 || g.size%blockSize != 0:
		return 0, 1 // its blocks end where no block of ours does
	case g.kind == StateAttention:
		return 1, g.size / blockSize
	case g.kind == WindowAttention && g.tokens > 0:
		// The next token sees the window's length less itself. vLLM wants a block
		// even where that is nothing.
		return max(1, (g.tokens-1+g.size-1)/g.size), g.size / blockSize
	default:
		return maxInt, g.size / blockSize // all of them, which is enough for any kind
	}
}

const maxInt = int(^uint(0) >> 1)

// storeWindow applies a Stored event of a group that is not of full attention.
func (x *Index) storeWindow(s *owner, e *Event) Outcome {
	g := x.learnWindow(s, e)
	if g == nil || e.Tier != TierGPU {
		return Outcome{Reason: ReasonAttention}
	}
	if e.AdapterUnnamed {
		return Outcome{Reason: ReasonAdapter}
	}
	var out Outcome
	for i, h := range e.Hashes {
		if i%batchBlocks == 0 && !x.room(1) {
			x.makeRoom(1)
		}
		x.holdWindow(s, g, h, &out)
	}
	return judge(out)
}

// holdWindow adds a copy of a group's block.
func (x *Index) holdWindow(s *owner, g *window, h EngineHash, out *Outcome) {
	n := g.held[h]
	if n > 0 {
		g.held[h] = n + 1
		out.Repeated++
		return
	}
	if x.mem.used+roomBytes > x.mem.max || x.windowed >= x.mem.max/(windowShare*windowBytes) {
		x.lose(s, ReasonBudget, h, groupTier{g.group, TierGPU}, 1)
		out.Missed, out.Reason = out.Missed+1, ReasonBudget
		return
	}
	if g.held == nil {
		g.held = map[EngineHash]uint32{}
	}
	g.held[h] = 1
	x.countWindows(1)
	out.Applied++
}

func (x *Index) countWindows(n int) {
	x.windowed += int64(n)
	x.mem.used += int64(n) * windowBytes
}

func (x *Index) removeWindow(s *owner, g *window, e *Event) Outcome {
	if e.Tier != TierGPU {
		return Outcome{Reason: ReasonAttention}
	}
	var out Outcome
	for _, h := range e.Hashes {
		switch n := g.held[h]; n {
		case 0:
			x.missed(s, h, groupTier{e.Group, e.Tier}, &out)
		case 1:
			delete(g.held, h)
			x.countWindows(-1)
			out.Applied++
		default:
			g.held[h] = n - 1
			out.Repeated++
		}
	}
	if len(g.held) == 0 {
		g.held = nil // a map never shrinks
	}
	return judge(out)
}

// dropWindow forgets a group, which turned out to be of full attention.
func (x *Index) dropWindow(s *owner, group int) {
	for i := range s.windows {
		if s.windows[i].group == group {
			x.countWindows(-len(s.windows[i].held))
			s.windows = slices.Delete(s.windows, i, i+1)
			return
		}
	}
}

func (x *Index) dropWindows(s *owner) {
	x.countWindows(-s.inWindows())
	s.windows, s.opaque = nil, false
	x.showGroups(s)
}

func (s *owner) inWindows() (n int) {
	for i := range s.windows {
		n += len(s.windows[i].held)
	}
	return n
}

// isHybrid reports whether hits of s are shortened.
func (s *owner) isHybrid() bool { return s.opaque || len(s.windows) > 0 }

// bookEnd notes that a prompt that was booked on a hybrid owner ends with the last
// of keys: there the engine will hold the windows as well, and before it nobody
// knows where.
func (x *Index) bookEnd(s *owner, keys []Key) {
	x.findPieces(keys)
	n := len(x.pieces)
	if n == 0 || x.pieces[n-1].to != len(keys) {
		return
	}
	p := x.pieces[n-1]
	last := keys[len(keys)-1]
	if x.open(s, p.run, false) && x.cur.booked(p.to-p.from-1) && !s.ends[last] {
		if s.ends == nil {
			s.ends = map[Key]bool{}
		}
		s.ends[last] = true
		x.mem.used += endBytes
	}
	x.flush()
}

// dropEnd forgets an end whose block is no longer booked.
func (x *Index) dropEnd(c *cover, off int) {
	s, key := c.s, x.keyAt(refOf(c.id, off))
	if !s.ends[key] {
		return
	}
	x.mem.used -= endBytes
	if delete(s.ends, key); len(s.ends) == 0 {
		s.ends = nil
	}
}

func (x *Index) dropEnds(s *owner) {
	x.mem.used -= int64(len(s.ends)) * endBytes
	s.ends = nil
}
