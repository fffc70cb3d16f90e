package main

import (
	"math"
	"sync"
	"time"
)

// times counts durations by their size, eight steps to a doubling, so that it never grows.
// Safe for concurrent use.
type times struct {
	mu     sync.Mutex
	counts [steps]int
	n      int
	most   time.Duration
}

const (
	stepsPerDoubling = 8
	steps            = 40 * stepsPerDoubling // of microseconds: 12 days
)

func (t *times) add(d time.Duration) {
	us := math.Max(1, float64(d)/float64(time.Microsecond))
	step := min(int(math.Log2(us)*stepsPerDoubling), steps-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[step]++
	t.n++
	t.most = max(t.most, d)
}

// quantile is the upper end of the step that holds it, so at most 9% too long.
func (t *times) quantile(p float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	rank := int(math.Ceil(p * float64(t.n)))
	for step, n := range &t.counts {
		if rank -= n; rank <= 0 {
			return min(t.most, time.Duration(math.Exp2(float64(step+1)/stepsPerDoubling)*float64(time.Microsecond)))
		}
	}
	return t.most
}
