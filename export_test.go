package kvsteer

import "github.com/kvsteer/kvsteer/fleet"

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
