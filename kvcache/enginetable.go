package kvcache

import "slices"

// engineTable maps one owner's engine hashes to block references. A slot holds
// 32 bits of the hash, the tag, and the reference; the whole hash is beside the
// block, where the caller compares it. The table is cut into segments by the
// tag's first bits, each an open-addressing table that grows and splits on its
// own, so that no insertion waits for the rehashing of millions. Writers only.
type engineTable struct {
	dir   []*segment
	depth uint8 // bits of the tag that index dir
}

type segment struct {
	slots []uint64 // tag<<32 | reference; 0 is empty
	n     int
	depth uint8 // bits of the tag that all its entries share
}

const (
	segmentMax   = 1024 // slots, beyond which a segment splits
	segmentMin   = 8
	segmentDepth = 20 // bits, beyond which it grows instead
)

func tagOf(h EngineHash) uint32 {
	v := uint64(h)
	v ^= v >> 32
	return uint32((v * 0x9e3779b97f4a7c15) >> 32)
}

// home is where an entry would like to be.
func (g *segment) home(tag uint32) int {
	return int(uint64(tag<<g.depth) * uint64(len(g.slots)) >> 32)
}

func (t *engineTable) segment(tag uint32) *segment {
	if t.dir == nil {
		return nil
	}
	return t.dir[tag>>(32-t.depth)]
}

// probe walks the references that are stored under one tag.
type probe struct {
	slots []uint64
	at    int
	tag   uint32
}

func (t *engineTable) find(tag uint32) probe {
	g := t.segment(tag)
	if g == nil || g.n == 0 {
		return probe{}
	}
	return probe{g.slots, g.home(tag), tag}
}

// next returns the next candidate, 0 when there is none.
func (p *probe) next() uint32 {
	for len(p.slots) > 0 {
		s := p.slots[p.at]
		if s == 0 {
			return 0
		}
		if p.at++; p.at == len(p.slots) {
			p.at = 0
		}
		if uint32(s>>32) == p.tag {
			return uint32(s)
		}
	}
	return 0
}

// insert adds an entry; false when the budget has no room.
func (t *engineTable) insert(mem *memory, tag, ref uint32) bool {
	g := t.segment(tag)
	if g == nil {
		g = &segment{}
		t.dir = []*segment{g}
	}
	for (g.n+1)*8 > len(g.slots)*7 {
		if len(g.slots) >= segmentMax && g.depth < segmentDepth {
			if !t.split(mem, g, tag) {
				return g.crowd(tag, ref)
			}
			g = t.segment(tag)
		} else if !g.resize(mem, max(segmentMin, len(g.slots)+len(g.slots)/4)) {
			return g.crowd(tag, ref)
		}
	}
	g.put(tag, ref)
	return true
}

// crowd fills a segment that may not grow beyond its usual load. One slot stays
// empty, so that searches end.
func (g *segment) crowd(tag, ref uint32) bool {
	if g.n+1 >= len(g.slots) {
		return false
	}
	g.put(tag, ref)
	return true
}

func (g *segment) put(tag, ref uint32) {
	i := g.home(tag)
	for g.slots[i] != 0 {
		if i++; i == len(g.slots) {
			i = 0
		}
	}
	g.slots[i] = uint64(tag)<<32 | uint64(ref)
	g.n++
}

// remove deletes one entry and moves those behind it to where they belong.
func (t *engineTable) remove(mem *memory, tag, ref uint32) {
	g := t.segment(tag)
	if g == nil || g.n == 0 {
		return
	}
	n := len(g.slots)
	i, want := g.home(tag), uint64(tag)<<32|uint64(ref)
	for g.slots[i] != want {
		if g.slots[i] == 0 {
			return
		}
		if i++; i == n {
			i = 0
		}
	}
	for j := i; ; {
		if j++; j == n {
			j = 0
		}
		s := g.slots[j]
		if s == 0 {
			break
		}
		// An entry may move to i only if that is not before its home.
		fromHome, fromHole := j-g.home(uint32(s>>32)), j-i
		if fromHome < 0 {
			fromHome += n
		}
		if fromHole < 0 {
			fromHole += n
		}
		if fromHome >= fromHole {
			g.slots[i] = s
			i = j
		}
	}
	g.slots[i] = 0
	g.n--
	if n > 2*segmentMin && g.n*2 < n {
		g.resize(mem, max(segmentMin, g.n+g.n/3+1))
	}
}

func (g *segment) resize(mem *memory, n int) bool {
	slots := slices.Grow([]uint64(nil), n)
	slots = slots[:cap(slots)]
	if !mem.take(int64(len(slots)-len(g.slots))*8, 0) {
		return false
	}
	clear(slots)
	old := g.slots
	g.slots, g.n = slots, 0
	for _, s := range old {
		if s != 0 {
			g.put(uint32(s>>32), uint32(s))
		}
	}
	return true
}

// split gives half of a full segment's entries to a new one.
func (t *engineTable) split(mem *memory, g *segment, tag uint32) bool {
	if g.depth == t.depth {
		if !mem.take(int64(len(t.dir))*8, 0) {
			return false
		}
		dir := make([]*segment, 2*len(t.dir))
		for i := range dir {
			dir[i] = t.dir[i/2]
		}
		t.dir, t.depth = dir, t.depth+1
	}
	depth := g.depth + 1
	bit := uint32(1) << (32 - depth)
	var count [2]int
	for _, s := range g.slots {
		if s != 0 {
			count[b2i(uint32(s>>32)&bit != 0)]++
		}
	}
	var half [2]*segment
	for i := range half {
		half[i] = &segment{depth: depth}
		if !half[i].resize(mem, max(segmentMin, count[i]*5/4+1)) {
			if i == 1 {
				mem.used -= int64(len(half[0].slots)) * 8
			}
			return false
		}
	}
	for _, s := range g.slots {
		if s != 0 {
			half[b2i(uint32(s>>32)&bit != 0)].put(uint32(s>>32), uint32(s))
		}
	}
	mem.used -= int64(len(g.slots)) * 8
	span := len(t.dir) >> g.depth
	first := int(tag>>(32-t.depth)) / span * span
	for i := range span {
		t.dir[first+i] = half[b2i(i >= span/2)]
	}
	return true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// each calls f with every reference.
func (t *engineTable) each(f func(ref uint32)) {
	var last *segment
	for _, g := range t.dir {
		if g == last {
			continue
		}
		last = g
		for _, s := range g.slots {
			if s != 0 {
				f(uint32(s))
			}
		}
	}
}

// drop empties the table and gives its memory back.
func (t *engineTable) drop(mem *memory) {
	var last *segment
	for _, g := range t.dir {
		if g != last {
			mem.used -= int64(len(g.slots)) * 8
			last = g
		}
	}
	if len(t.dir) > 1 {
		mem.used -= int64(len(t.dir)-1) * 8
	}
	*t = engineTable{}
}
