package bpe

// none is the merge of a pair that has none. It ranks after all others.
const none = ^uint64(0)

// pairs maps two neighbouring symbols to their merge: its rank in the upper half, the
// merged symbol in the lower. It is a hash table with linear probing.
type pairs struct {
	slots []pairSlot
	shift uint8
}

type pairSlot struct{ key, merge uint64 }

func pairKey(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }

func newPairs(n int) *pairs {
	bits := uint8(4)
	for 1<<bits < n+n/2 {
		bits++
	}
	p := &pairs{slots: make([]pairSlot, 1<<bits), shift: 64 - bits}
	for i := range p.slots {
		p.slots[i].merge = none
	}
	return p
}

func (p *pairs) slot(key uint64) *pairSlot {
	const golden = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio: spreads keys over the upper bits
	mask := uint64(len(p.slots) - 1)
	for i := (key ^ key>>29) * golden >> p.shift; ; i = (i + 1) & mask {
		s := &p.slots[i]
		if s.key == key || s.merge == none {
			return s
		}
	}
}

func (p *pairs) put(a, b uint32, merge uint64) {
	key := pairKey(a, b)
	*p.slot(key) = pairSlot{key, merge}
}

// get returns the merge of two symbols, or none.
func (p *pairs) get(a, b uint32) uint64 {
	key := pairKey(a, b)
	s := p.slot(key)
	if s.key != key {
		return none
	}
	return s.merge
}
