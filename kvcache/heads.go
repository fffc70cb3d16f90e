package kvcache

import "sync/atomic"

// heads maps the key of a run's first block to the run. Readers look it up
// without a lock: an entry never moves within a table, a removed one leaves a
// mark, and a table that fills up is replaced as a whole. It is cut into parts
// by the key's first bits, so that a replacement is short.
type heads struct {
	parts [headParts]headPart
}

type headPart struct {
	table atomic.Pointer[headTable]
	live  int // entries
	used  int // entries and marks
}

// headTable's slots hold 32 bits of the key, the tag, and the run; 0 is empty.
type headTable struct {
	slots []atomic.Uint64
}

const (
	headPartBits = 6
	headParts    = 1 << headPartBits
	headMark     = 1 << 32 // no run has number 0
	headMin      = 8
)

func (h *heads) part(k Key) *headPart { return &h.parts[k>>(64-headPartBits)] }

func headTag(k Key) uint32 { return uint32(k >> (32 - headPartBits)) }

// insert adds a key that is not there; false when the budget has no room.
func (h *heads) insert(mem *memory, k Key, run uint32) bool {
	p := h.part(k)
	t := p.table.Load()
	if t == nil || (p.used+1)*4 > len(t.slots)*3 {
		if !p.rebuild(mem) {
			return false
		}
		t = p.table.Load()
	}
	tag := headTag(k)
	mask := uint32(len(t.slots) - 1)
	i := tag & mask
	for {
		s := t.slots[i].Load()
		if uint32(s) == 0 {
			if s == 0 {
				p.used++
			}
			break
		}
		i = (i + 1) & mask
	}
	p.live++
	t.slots[i].Store(uint64(tag)<<32 | uint64(run))
	return true
}

func (h *heads) remove(mem *memory, k Key, run uint32) {
	p := h.part(k)
	t := p.table.Load()
	want := uint64(headTag(k))<<32 | uint64(run)
	mask := uint32(len(t.slots) - 1)
	i := headTag(k) & mask
	for t.slots[i].Load() != want {
		i = (i + 1) & mask
	}
	t.slots[i].Store(headMark)
	p.live--
	switch {
	case p.live > 0:
	case len(t.slots) == headMin:
		// No entry is there for a reader to miss.
		for i := range t.slots {
			t.slots[i].Store(0)
		}
		p.used = 0
	default:
		p.table.Store(nil)
		p.used = 0
		mem.used -= int64(len(t.slots)) * 8
	}
}

func (p *headPart) rebuild(mem *memory) bool {
	old := p.table.Load()
	n := headMin
	for (p.live+1)*2 > n {
		n *= 2
	}
	was := 0
	if old != nil {
		was = len(old.slots)
	}
	if !mem.take(int64(n-was)*8, 0) {
		return false
	}
	t := &headTable{make([]atomic.Uint64, n)}
	mask := uint32(n - 1)
	for i := range was {
		s := old.slots[i].Load()
		if uint32(s) == 0 {
			continue
		}
		j := uint32(s>>32) & mask
		for t.slots[j].Load() != 0 {
			j = (j + 1) & mask
		}
		t.slots[j].Store(s)
	}
	p.used = p.live
	p.table.Store(t)
	return true
}
