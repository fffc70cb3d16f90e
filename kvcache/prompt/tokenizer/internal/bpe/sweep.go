package bpe

import "slices"

// sweep does what queue does, for very long words: positions wait in a list for each rank,
// and a heap holds the ranks. Most merges then go through memory from left to right.
//
// A list that got out of order is sorted when its turn comes. That happens once: while its
// rank is the lowest nothing is added to it, since what is merged meanwhile contains the
// token that the rank makes, and so is longer than the two tokens that the rank merges.
func (m *Model) sweep(s *Scratch) {
	w := &s.sweep
	w.reset()
	for i, g := range s.merge {
		if g != none {
			w.add(g, int32(i))
		}
	}
	for len(w.ranks) > 0 {
		l := &w.lists[uint32(w.ranks[0])]
		if l.done == len(l.at) {
			*l = waiting{rank: l.rank, at: l.at[:0]}
			w.ranks.pop()
			continue
		}
		if l.mixed {
			slices.Sort(l.at[l.done:])
			l.mixed = false
		}
		i := l.at[l.done]
		l.done++
		if g := s.merge[i]; g == none || g>>rankBits != l.rank {
			continue
		}
		before := m.join(s, i)
		if before >= 0 && s.merge[before] != none {
			w.add(s.merge[before], before)
		}
		if s.merge[i] != none {
			w.add(s.merge[i], i)
		}
	}
}

type sweeper struct {
	index map[uint64]uint32 // lists by rank
	lists []waiting
	used  int
	ranks heap // (rank, list) of lists that wait
	last  uint32
}

// waiting is the positions of the pairs of one rank.
type waiting struct {
	rank  uint64
	at    []int32
	done  int  // how many of at are done
	mixed bool // at isn't in order
	waits bool // the list is in the heap
}

func (w *sweeper) reset() {
	if w.index == nil {
		w.index = map[uint64]uint32{}
	}
	clear(w.index)
	w.used, w.last = 0, 0
	w.ranks = w.ranks[:0]
}

func (w *sweeper) add(merge uint64, at int32) {
	rank := merge >> rankBits
	if w.used == 0 || w.lists[w.last].rank != rank {
		k, ok := w.index[rank]
		if !ok {
			k = uint32(w.used)
			w.index[rank] = k
			if w.used == len(w.lists) {
				w.lists = append(w.lists, waiting{})
			}
			l := &w.lists[k]
			*l = waiting{rank: rank, at: l.at[:0]}
			w.used++
		}
		w.last = k
	}
	l := &w.lists[w.last]
	if n := len(l.at); n > 0 && at < l.at[n-1] {
		l.mixed = true
	}
	l.at = append(l.at, at)
	if !l.waits {
		l.waits = true
		w.ranks.push(rank<<rankBits | uint64(w.last))
	}
}
