package steer

import "slices"

// How many of those that wait are evaluated for one free worker, see [Look].
const (
	lookFirst = 8
	lookFree  = 8
	lookTurns = 4
)

// Look bounds who of those that wait is evaluated for a worker that is free: the first in
// line; those whose worker is free; and in turn some of the others, which may have come to
// prefer a free one. The rest is taken at its word, so that many that wait for one worker
// keep nobody from another. The zero value is ready.
type Look struct {
	free  int
	turns []*Waiter
}

// Begin begins a round over n that wait, in the order of the line.
func (l *Look) Begin(n int, at func(place int) *Waiter) {
	l.free, l.turns = lookFree, l.turns[:0]
	for place := lookFirst; place < n; place++ {
		w := at(place)
		if len(l.turns) == lookTurns {
			if last := l.turns[lookTurns-1]; !w.Looked.Before(last.Looked) {
				continue
			}
			l.turns = l.turns[:lookTurns-1]
		}
		i, _ := slices.BinarySearchFunc(l.turns, w, func(a, b *Waiter) int { return a.Looked.Compare(b.Looked) })
		l.turns = slices.Insert(l.turns, i, w)
	}
}

// At reports whether w, at its place in line, is evaluated. It is asked once for each that
// waits, in order. busy tells whether the worker that w waits for has a prompt to compute.
func (l *Look) At(place int, w *Waiter, busy func() bool) bool {
	if place < lookFirst || slices.Contains(l.turns, w) {
		return true
	}
	if l.free > 0 && !busy() {
		l.free--
		return true
	}
	return false
}

// End lets go of those that wait.
func (l *Look) End() { clear(l.turns[:cap(l.turns)]) }
