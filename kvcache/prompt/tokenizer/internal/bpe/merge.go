package bpe

import "slices"

const (
	// scanBelow is the number of symbols from which on a heap is faster than looking at all
	// pairs for each merge.
	scanBelow = 48
	// heapBelow is the number from which on the heap no longer fits the processor's caches.
	heapBelow = 2048
)

// merge merges s.syms and appends what is left to dst.
func (m *Model) merge(dst []uint32, s *Scratch) []uint32 {
	if len(s.syms) < 2 {
		return append(dst, s.syms...)
	}
	m.look(s)
	switch {
	case len(s.syms) < scanBelow:
		return append(dst, m.scan(s.syms, s.merge)...)
	case len(s.syms) < heapBelow:
		m.link(s)
		m.queue(s)
	default:
		m.link(s)
		m.sweep(s)
	}
	return m.left(dst, s)
}

// look looks up the merge of each symbol and the one after it.
func (m *Model) look(s *Scratch) {
	s.merge = slices.Grow(s.merge[:0], len(s.syms))[:len(s.syms)]
	last := len(s.syms) - 1
	for i := range last {
		s.merge[i] = m.pairs.get(s.syms[i], s.syms[i+1])
	}
	s.merge[last] = none
}

// left appends the symbols that are left on the list.
func (m *Model) left(dst []uint32, s *Scratch) []uint32 {
	for i := 0; i < len(s.syms); i = int(s.next[i]) {
		dst = append(dst, s.syms[i])
	}
	return dst
}

// scan merges in place, by looking for the best pair each time. merges[i] is the merge of
// symbol i and the one after it.
func (m *Model) scan(syms []uint32, merges []uint64) []uint32 {
	for {
		best, at := none, 0
		for i, g := range merges {
			if g < best {
				best, at = g, i
			}
		}
		if best == none {
			return syms
		}
		syms[at] = uint32(best)
		n := copy(syms[at+1:], syms[at+2:])
		copy(merges[at+1:], merges[at+2:])
		syms, merges = syms[:at+1+n], merges[:at+1+n]
		merges[at] = none
		if at+1 < len(syms) {
			merges[at] = m.pairs.get(syms[at], syms[at+1])
		}
		if at > 0 {
			merges[at-1] = m.pairs.get(syms[at-1], syms[at])
		}
	}
}

const rankBits = 32

// queue merges with a heap of (rank, position). An entry is stale unless the pair that
// begins there still has that rank. Stale entries are as harmless as in the Rust code:
// tokens have distinct ids, so two pairs at one place never make the same token.
func (m *Model) queue(s *Scratch) {
	h := heap(s.heap[:0])
	for i, g := range s.merge {
		if g != none {
			h = append(h, g>>rankBits<<rankBits|uint64(i))
		}
	}
	h.init()
	for len(h) > 0 {
		top := h[0]
		i := int32(uint32(top))
		g := s.merge[i]
		if g == none || g>>rankBits != top>>rankBits {
			h.pop()
			continue
		}
		before := m.join(s, i)
		// The entry at the top is replaced where possible: one sift instead of two.
		if g := s.merge[i]; g != none {
			h.replace(g>>rankBits<<rankBits | uint64(i))
		} else {
			h.pop()
		}
		if before >= 0 && s.merge[before] != none {
			h.push(s.merge[before]>>rankBits<<rankBits | uint64(before))
		}
	}
	s.heap = h
}

// link makes a list of the symbols.
func (m *Model) link(s *Scratch) {
	n := len(s.syms)
	s.next = slices.Grow(s.next[:0], n)[:n]
	s.prev = slices.Grow(s.prev[:0], n)[:n]
	for i := range n {
		s.next[i], s.prev[i] = int32(i+1), int32(i-1)
	}
}

// join merges symbol i with the one after it, and looks up what it can be merged with now.
// It returns the symbol before, -1 if there is none.
func (m *Model) join(s *Scratch, i int32) int32 {
	gone := s.next[i]
	after := s.next[gone]
	s.syms[i] = uint32(s.merge[i])
	s.merge[gone], s.merge[i] = none, none
	s.next[i] = after
	if int(after) < len(s.syms) {
		s.prev[after] = i
		s.merge[i] = m.pairs.get(s.syms[i], s.syms[after])
	}
	before := s.prev[i]
	if before >= 0 {
		s.merge[before] = m.pairs.get(s.syms[before], s.syms[i])
	}
	return before
}
