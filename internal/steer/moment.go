package steer

import (
	"cmp"
	"math"
	"slices"
)

// Bid is one of the ways to serve a contender: where its prompt would be computed, at
// what objective, and for how long that keeps those that come after it there, in
// seconds.
type Bid struct {
	Place         int
	Cost, Prefill float64
}

// Contender is one of several requests that are there at the same moment.
type Contender struct {
	// Priority: lower goes first.
	Priority int
	// Bids are its candidates, the best first. Their places are counted from 0.
	Bids []Bid
}

// Moment finds the order in which requests of one moment are best chosen for. The zero
// value is ready; it keeps its memory and is not safe for concurrent use.
type Moment struct {
	added []float64 // work by place
	order []int
}

// passes bounds how often all pairs are looked at. Three are nearly always enough.
const passes = 8

// MostTogether is how many requests of one moment are looked at together that each have so
// many candidates: as each choice changes what the rest are offered, n of them take n*n/2
// evaluations, in one hold of a lock. 12 with 8 candidates is under a millisecond.
func MostTogether(candidates int) int {
	const (
		most = 12
		work = most * most * 8
	)
	return min(max(int(math.Sqrt(work/float64(max(candidates, 1)))), 2), most) //nolint:mnd // fewer are not together
}

// Order returns the indices of all contenders in the order in which they are to be
// chosen for, valid until the next call. Each takes the best that those before it have
// left. In the order of arrival the first would take whatever suits it, be it by
// little, from one that it suits by far. So pairs change places for as long as that
// makes the sum of all objectives less, beginning with the shortest prefill first; but
// never those of different priorities.
func (m *Moment) Order(all []Contender) []int {
	places := 0
	m.order = m.order[:0]
	for i := range all {
		m.order = append(m.order, i)
		for _, b := range all[i].Bids {
			places = max(places, b.Place+1)
		}
	}
	slices.SortStableFunc(m.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(all[a].Priority, all[b].Priority), cmp.Compare(all[a].shortest(), all[b].shortest()))
	})
	m.added = slices.Grow(m.added[:0], places)[:places]
	least := m.total(all)
	for range passes {
		before := least
		for b := range m.order {
			for a := range b {
				least = m.exchange(all, a, b, least)
			}
		}
		if least == before {
			break
		}
	}
	return m.order
}

// exchange lets two change places if that is better than least, and returns what then is
// least.
func (m *Moment) exchange(all []Contender, a, b int, least float64) float64 {
	o := m.order
	if all[o[a]].Priority != all[o[b]].Priority {
		return least
	}
	const enough = 1e-9 // by less the sums of floats differ
	o[a], o[b] = o[b], o[a]
	if t := m.total(all); t < least*(1-enough) {
		return t
	}
	o[a], o[b] = o[b], o[a]
	return least
}

// total is the sum of the objectives if all are chosen for in this order.
func (m *Moment) total(all []Contender) (sum float64) {
	clear(m.added)
	for _, i := range m.order {
		best, at := math.Inf(1), -1
		bids := all[i].Bids
		for k := range bids {
			if c := bids[k].Cost + m.added[bids[k].Place]; c < best {
				best, at = c, k
			}
		}
		if at >= 0 {
			sum += best
			m.added[bids[at].Place] += bids[at].Prefill
		}
	}
	return sum
}

// shortest is its prefill where it would go if it were alone.
func (c *Contender) shortest() float64 {
	if len(c.Bids) == 0 {
		return 0
	}
	return c.Bids[0].Prefill
}

// Bids appends what the choice that was made of r says: a bid for each candidate that is
// at the head of the plan. place is where candidate i has its prompt computed, and how
// many seconds that takes.
func (r *Round) Bids(dst []Bid, place func(i int) (place int, prefill float64)) []Bid {
	for _, i := range r.Plan.Order[:r.Plan.Head()] {
		at, prefill := place(i)
		dst = append(dst, Bid{Place: at, Cost: r.Candidates[i].Objective().Seconds(), Prefill: prefill})
	}
	return dst
}
