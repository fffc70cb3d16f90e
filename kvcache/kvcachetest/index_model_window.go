package kvcachetest

import "github.com/kvsteer/kvsteer/kvcache"

// modelWindow is a group that is not of full attention: which blocks it has in GPU
// memory, by the engine's hashes.
type modelWindow struct {
	kind         kvcache.Attention
	tokens, size int
	held         map[kvcache.EngineHash]int
}

// maxGroups is how many such groups an owner may have.
const maxGroups = 64

// ofWindow reports whether a Stored event is of a group that is not of full attention.
func (s *modelOwner) ofWindow(e *kvcache.Event) bool {
	return len(e.Hashes) > 0 && (e.Attention != kvcache.FullAttention || len(e.Tokens) == 0 && s.windows[e.Group] != nil)
}

func (s *modelOwner) storeWindow(e *kvcache.Event) kvcache.Outcome {
	if s.full[e.Group] {
		return kvcache.Outcome{Reason: kvcache.ReasonAttention}
	}
	g := s.windows[e.Group]
	switch {
	case g == nil && len(s.windows) == maxGroups:
		s.opaque = true
		return kvcache.Outcome{Reason: kvcache.ReasonAttention}
	case g == nil:
		g = &modelWindow{e.Attention, e.Window, e.BlockSize, map[kvcache.EngineHash]int{}}
		s.windows[e.Group] = g
	case len(e.Tokens) == 0:
	case g.size == 0:
		g.kind, g.tokens, g.size = e.Attention, e.Window, e.BlockSize
	case g.kind != e.Attention || g.tokens != e.Window || g.size != e.BlockSize:
		g.kind = kvcache.OtherAttention
	}
	switch {
	case e.Tier != kvcache.TierGPU:
		return kvcache.Outcome{Reason: kvcache.ReasonAttention}
	case e.AdapterUnnamed:
		return kvcache.Outcome{Reason: kvcache.ReasonAdapter}
	}
	var out kvcache.Outcome
	for _, h := range e.Hashes {
		if g.held[h]++; g.held[h] == 1 {
			out.Applied++
		} else {
			out.Repeated++
		}
	}
	return judge(out)
}

func (s *modelOwner) removeWindow(e *kvcache.Event) kvcache.Outcome {
	if e.Tier != kvcache.TierGPU {
		return kvcache.Outcome{Reason: kvcache.ReasonAttention}
	}
	g := s.windows[e.Group]
	var out kvcache.Outcome
	for _, h := range e.Hashes {
		switch g.held[h] {
		case 0:
			s.missed(lostCopy{h, groupTier{e.Group, e.Tier}})
			out.Missed, out.Reason = out.Missed+1, kvcache.ReasonUnknown
			continue
		case 1:
			delete(g.held, h)
			out.Applied++
		default:
			g.held[h]--
			out.Repeated++
		}
	}
	return judge(out)
}

func (s *modelOwner) hybrid() bool { return s.opaque || len(s.windows) > 0 }

// guess reports whether it is not known what the engine can use.
func (s *modelOwner) guess() bool {
	for _, g := range s.windows {
		if g.kind == kvcache.OtherAttention || !g.fits(s.blockSize) {
			return true
		}
	}
	return s.opaque || len(s.windows) > 0 && len(s.full) == 0
}

func (g *modelWindow) fits(blockSize int) bool {
	return blockSize > 0 && g.size > 0 && g.size%blockSize == 0
}

// usable reports whether an engine whose groups have what they have can use exactly
// the first n blocks of a prompt.
func (s *modelOwner) usable(keys []kvcache.Key, n int) bool {
	for _, k := range keys[:n] {
		if t, ok := s.tier(k); ok && t != kvcache.TierGPU {
			return false
		}
	}
	if b, ok := s.booked[keys[n-1]]; ok && b.end {
		return true
	}
	for _, g := range s.windows {
		if !g.allows(s, keys, n) {
			return false
		}
	}
	return true
}

// allows reports whether a hit of n blocks has what the next token sees of the group.
func (g *modelWindow) allows(s *modelOwner, keys []kvcache.Key, n int) bool {
	if !g.fits(s.blockSize) || n*s.blockSize%g.size != 0 {
		return false
	}
	seen := n * s.blockSize // tokens before the end of which the blocks must be there
	switch {
	case g.kind == kvcache.StateAttention:
		seen = 1
	case g.kind == kvcache.WindowAttention && g.tokens > 0:
		seen = max(1, g.tokens-1)
	default:
	}
	for end := n * s.blockSize; end > 0 && end > n*s.blockSize-seen; end -= g.size {
		if !g.has(s, keys[end/s.blockSize-1]) {
			return false
		}
	}
	return true
}

func (g *modelWindow) has(s *modelOwner, k kvcache.Key) bool {
	for _, h := range s.held[k] {
		if g.held[h] > 0 {
			return true
		}
	}
	return false
}

func (s *modelOwner) inWindows() (n int) {
	for _, g := range s.windows {
		n += len(g.held)
	}
	return n
}
