package bpe

import "slices"

// scanBelow is the number of symbols from which on a heap is faster than looking at all
// pairs for each merge.
const scanBelow = 48

// merge merges s.syms and appends what is left to dst.
func (m *Model) merge(dst []uint32, s *Scratch) []uint32 {
	if len(s.syms) < 2 {
		return append(dst, s.syms...)
	}
	s.merge = slices.Grow(s.merge[:0], len(s.syms))[:len(s.syms)]
	last := len(s.syms) - 1
	for i := range last {
		s.merge[i] = m.pairs.get(s.syms[i], s.syms[i+1])
	}
	s.merge[last] = none
	if len(s.syms) < scanBelow {
		return append(dst, m.scan(s.syms, s.merge)...)
	}
	return m.queue(dst, s)
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
func (m *Model) queue(dst []uint32, s *Scratch) []uint32 {
	n := len(s.syms)
	s.next = slices.Grow(s.next[:0], n)[:n]
	s.prev = slices.Grow(s.prev[:0], n)[:n]
	h := heap(s.heap[:0])
	for i := range n {
		s.next[i], s.prev[i] = int32(i+1), int32(i-1)
		if g := s.merge[i]; g != none {
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
		gone := s.next[i]
		after := s.next[gone]
		s.syms[i] = uint32(g)
		s.merge[gone] = none
		s.next[i] = after
		s.merge[i] = none
		if int(after) < n {
			s.prev[after] = i
			s.merge[i] = m.pairs.get(s.syms[i], s.syms[after])
		}
		// The entry at the top is replaced where possible: one sift instead of two.
		if g := s.merge[i]; g != none {
			h.replace(g>>rankBits<<rankBits | uint64(i))
		} else {
			h.pop()
		}
		if before := s.prev[i]; before >= 0 {
			g := m.pairs.get(s.syms[before], s.syms[i])
			s.merge[before] = g
			if g != none {
				h.push(g>>rankBits<<rankBits | uint64(before))
			}
		}
	}
	s.heap = h
	for i := 0; i < n; i = int(s.next[i]) {
		dst = append(dst, s.syms[i])
	}
	return dst
}

// heap is a binary heap with the least first.
type heap []uint64

func (h heap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h heap) down(i int) {
	v := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= v {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = v
}

func (h heap) replace(v uint64) {
	h[0] = v
	h.down(0)
}

func (h *heap) pop() {
	old := *h
	last := len(old) - 1
	old[0] = old[last]
	*h = old[:last]
	if last > 0 {
		h.down(0)
	}
}

func (h *heap) push(v uint64) {
	*h = append(*h, v)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent] <= v {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = v
}
