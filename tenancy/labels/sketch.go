package labels

import "container/heap"

// sketch counts the traffic of those that have no value, in bounded memory: the
// Space-Saving algorithm of Metwally, Agrawal and El Abbadi (2005). Of whoever had more
// than a share of one in its size it knows, and by how much it may be wrong.
type sketch struct {
	size  int
	at    map[uint64]int // a tenant's hash to its place in heap
	items []item         // a heap, the least count first
}

type item struct {
	hash uint64
	// count is at least what was seen, and at most by extra more.
	count, extra uint64
}

func newSketch(size int) *sketch {
	return &sketch{size: size, at: make(map[uint64]int, size), items: make([]item, 0, size)}
}

func (s *sketch) see(hash uint64) {
	if i, ok := s.at[hash]; ok {
		s.items[i].count++
		heap.Fix(s, i)
		return
	}
	if len(s.items) < s.size {
		i := len(s.items)
		s.items = append(s.items, item{hash: hash, count: 1})
		s.at[hash] = i
		heap.Fix(s, i)
		return
	}
	least := &s.items[0]
	delete(s.at, least.hash)
	*least = item{hash: hash, count: least.count + 1, extra: least.count}
	s.at[hash] = 0
	heap.Fix(s, 0)
}

func (s *sketch) reset() {
	clear(s.at)
	s.items = s.items[:0]
}

// sure is what was seen at least.
func (i *item) sure() uint64 { return i.count - i.extra }

// Len, Less and Swap are heap.Interface's; its others are not called.
func (s *sketch) Len() int           { return len(s.items) }
func (s *sketch) Less(i, j int) bool { return s.items[i].count < s.items[j].count }
func (s *sketch) Swap(i, j int) {
	s.items[i], s.items[j] = s.items[j], s.items[i]
	s.at[s.items[i].hash], s.at[s.items[j].hash] = i, j
}

// Push and Pop are there because heap.Interface has them.
func (s *sketch) Push(any) {}
func (s *sketch) Pop() any { return nil }
