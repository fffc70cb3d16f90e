package labels

import "sync/atomic"

// Counters are numbers that only grow, some for each value. Make them with
// [Policy.NewCounters]. Safe for concurrent use.
type Counters struct {
	policy *Policy
	width  int
	cells  []atomic.Uint64 // width for each row
}

// NewCounters returns Counters of so many numbers, at least 1, for each value. They live
// as long as the Policy.
func (p *Policy) NewCounters(width int) *Counters {
	c := &Counters{policy: p, width: max(width, 1)}
	c.cells = make([]atomic.Uint64, c.width*len(p.rows))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counters = append(p.counters, c)
	return c
}

// Add adds to number i, counted from 0, of a tenant's value. It counts as traffic of the
// tenant, as a call of Label does.
func (c *Counters) Add(tenant string, i int, n uint64) {
	p := c.policy
	p.tend(tenant)
	p.mu.RLock()
	defer p.mu.RUnlock()
	c.cells[c.width*p.row(tenant)+i].Add(n)
}

// Each calls fn with each value and its numbers, which fn may keep. Values that have just
// been given are all zeros.
func (c *Counters) Each(fn func(value string, numbers []uint64)) {
	p := c.policy
	type series struct {
		value   string
		numbers []uint64
	}
	var all []series
	p.mu.RLock()
	for i := range p.rows {
		r := &p.rows[i]
		if i < p.rest && r.state == vacant {
			continue
		}
		s := series{r.value, make([]uint64, c.width)}
		for k := range s.numbers {
			s.numbers[k] = c.cells[c.width*i+k].Load()
		}
		all = append(all, s)
	}
	p.mu.RUnlock()
	for _, s := range all {
		fn(s.value, s.numbers)
	}
}

// fold adds what one row holds to another. Nobody adds meanwhile: the Policy's lock is
// held for writing.
func (c *Counters) fold(from, to int) {
	for k := range c.width {
		c.cells[c.width*to+k].Add(c.cells[c.width*from+k].Swap(0))
	}
}
