package simulate

import (
	"math"
	"slices"
)

// Bound is not a rule that a router could follow: all workers share one cache of
// their summed size, and a call waits in one queue until a worker has nothing
// left to prefill. The least work is served first, which makes for the lowest
// mean; with FIFO the oldest call.
type Bound struct{ FIFO bool }

// Pick implements [Rule]; it is not used.
func (*Bound) Pick(*State) int { return -1 }

// Bind implements [Binder].
func (b *Bound) Bind(s *State, waiting []*Job) (job, worker int) {
	free, fewest := -1, math.MaxInt
	for i := range s.Workers {
		if s.Engine(i).Outstanding() == 0 && s.Workers[i].Decoding < fewest {
			free, fewest = i, s.Workers[i].Decoding
		}
	}
	if free < 0 {
		return -1, -1
	}
	if b.FIFO {
		return 0, free
	}
	if slices.ContainsFunc(waiting, func(j *Job) bool { return j.Arrived == s.Now }) {
		s.Wake(1) // there may be a shorter one among those of the same instant
		return -1, -1
	}
	best, least := 0, math.MaxInt
	for n, j := range waiting {
		size := s.Workers[free].BlockSize
		full := min(j.Call.Prompt/size, len(j.Call.Blocks))
		if work := j.Call.Prompt - size*s.cluster.pool.hits(j.Call.Blocks[:full]); work < least {
			best, least = n, work
		}
	}
	return best, free
}

// pool is the cache that the bound's workers share: the least recently used
// block goes first, the end of a prompt before its beginning.
type pool struct {
	most  int
	nodes map[uint64]*node
	head  node // a ring: next is the most recent
}

type node struct {
	block      uint64
	prev, next *node
}

func newPool(blocks int) *pool {
	p := &pool{most: blocks, nodes: map[uint64]*node{}}
	p.head.prev, p.head.next = &p.head, &p.head
	return p
}

// hits returns how many leading blocks are there.
func (p *pool) hits(blocks []uint64) int {
	for i, b := range blocks {
		if p.nodes[b] == nil {
			return i
		}
	}
	return len(blocks)
}

// use returns the hits and makes all blocks the most recent.
func (p *pool) use(blocks []uint64) int {
	found := p.hits(blocks)
	for _, b := range slices.Backward(blocks) {
		n := p.nodes[b]
		if n == nil {
			n = &node{block: b}
			p.nodes[b] = n
		} else {
			n.prev.next, n.next.prev = n.next, n.prev
		}
		n.prev, n.next = &p.head, p.head.next
		n.prev.next, n.next.prev = n, n
	}
	for len(p.nodes) > p.most {
		n := p.head.prev
		n.prev.next, p.head.prev = &p.head, n.prev
		delete(p.nodes, n.block)
	}
	return found
}
