package simulate

import (
	"math/rand/v2"
	"time"
)

// arrivals draws when sessions begin in an open loop.
type arrivals struct {
	rng *rand.Rand
	at  time.Duration // of the last one
	// gaps were drawn, at a rate of one a second. Each of the load generator's processes
	// goes through them by itself.
	gaps      []float64
	processes []process
}

type process struct {
	drawn int
	wake  time.Duration // when it draws again
}

// sleeps is how long before what it has drawn is due a process draws again.
const sleeps = 5 * time.Second

// newArrivals makes them of so many processes that draw from the same sequence each, as
// GuideLLM 0.8.1's do: every worker process has a generator of the same seed, and adds its
// gaps to one clock for all. So each gap comes as often as there are processes, one after
// the other, which makes bursts of short ones. One process makes a Poisson process.
func newArrivals(rng *rand.Rand, n int) *arrivals {
	return &arrivals{rng: rng, processes: make([]process, max(n, 1))}
}

// next is the time of the next session, at a rate.
func (a *arrivals) next(perSecond float64) time.Duration {
	p := &a.processes[0]
	for i := range a.processes {
		if q := &a.processes[i]; q.wake < p.wake || q.wake == p.wake && q.drawn < p.drawn {
			p = q
		}
	}
	if p.drawn == len(a.gaps) {
		a.gaps = append(a.gaps, a.rng.ExpFloat64())
	}
	a.at += time.Duration(a.gaps[p.drawn] / perSecond * float64(time.Second))
	p.drawn++
	p.wake = max(p.wake, a.at-sleeps)
	return a.at
}
