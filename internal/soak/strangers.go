package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
)

// half is how many sessions the router remembers before it begins anew, and forgets those of
// the time before.
const half = 1 << 15

// strangers are sessions with one request each, which nobody hears of again. They are as many
// as it takes, beside those of the load, for the router's memory of sessions to begin anew
// once in a generation of workers, so that it goes up and down with that whatever the rate
// is.
type strangers struct {
	seed maphash.Seed

	mu sync.Mutex
	// seen is which sessions the load has had in this generation, by the bits of a hash: few
	// enough to be told apart, and always of one size.
	seen [1 << 14]uint64
	n    int // of them
	each int // strangers that come each time
}

func newStrangers(generation int) *strangers {
	return &strangers{seed: maphash.MakeSeed(), each: half / generation}
}

// meet is told of each session that the load has. The router knows it for each model apart.
func (s *strangers) meet(session, model string) {
	if session == "" {
		return
	}
	bit := maphash.String(s.seed, session+"/"+model) % uint64(len(s.seen)*bits)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, mask := &s.seen[bit/bits], uint64(1)<<(bit%bits); *at&mask == 0 {
		*at |= mask
		s.n++
	}
}

// bits of a word.
const bits = 64

// due is how many come with the nth happening. It goes by what the load had in the generation
// before.
func (s *strangers) due(nth, generation int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if nth > 0 && nth%generation == 0 {
		s.each = max(0, half-s.n) / generation
		clear(s.seen[:])
		s.n = 0
	}
	return s.each
}

// invite lets those come that are due.
func (w *workers) invite(ctx context.Context, nth int) error {
	const tenants = 4
	for n := range w.strangers.due(nth, w.generation()) {
		if err := w.rig.once(ctx, fmt.Sprintf("strangers-%d", n%tenants), fmt.Sprintf("stranger-%d-%d", nth, n)); err != nil {
			return fmt.Errorf("a stranger: %w", err)
		}
	}
	return nil
}
