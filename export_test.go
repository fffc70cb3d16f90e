package kvsteer

import (
	"math"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
)

// ForgetEverything makes the index forget what it knows of all workers, behind the
// backs of those who told it.
func (r *Router) ForgetEverything() {
	for _, h := range *r.residency.homes.Load() {
		for _, o := range h.owners {
			r.index.Clear(o)
		}
	}
}

// Responded says that m has a response.
func (r *Router) Responded(id string, m *fleet.Member) {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	r.responses.moved(keyOf(id), place{member: m, rank: 0})
}

// CoolAll lets go of what a snapshot said of workers without events, as if it were old.
func (r *Router) CoolAll() { r.residency.coolAll() }

// KeepsSnapshot reports whether a snapshot waits for workers.
func (r *Router) KeepsSnapshot() bool {
	r.residency.mu.Lock()
	defer r.residency.mu.Unlock()
	return r.residency.warm != nil
}

// MostTogether is how many requests are looked at together at most.
var MostTogether = steer.MostTogether

// Held counts the Selections that a Transport looks after.
func (r *Router) Held() (n int) {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	for s := r.live.head; s != nil; s = s.next {
		if s.touched.Load() == math.MaxInt64 {
			n++
		}
	}
	return n
}

// Come and Go stand for a request that is in Select without choosing.
func (r *Router) Come() { r.moment.comes() }

func (r *Router) Go() {
	if r.moment != nil {
		r.goes()
	}
}

// Gathered counts those that wait for others, Coming those in Select that don't.
func (r *Router) Gathered() int { return int(r.moment.count.Load()) }

func (r *Router) Coming() int { return int(r.moment.coming.Load()) }
