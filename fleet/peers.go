package fleet

import "time"

// SetPeers says what other routers have in flight on a rank, all of them together; it
// replaces what was said before. Picks is ignored. A rank that the worker doesn't have
// is ignored. It is for one Router of a Fleet: the one that hears the others.
func (m *Member) SetPeers(rank int, f InFlight) {
	if rank < 0 || rank >= len(m.ranks) {
		return
	}
	f.Picks = 0
	now := &f
	if f.Requests = f.PrefillRequests + f.DecodeRequests; f.Requests == 0 {
		now = nil
	}
	r := &m.ranks[rank]
	before := r.peers.Swap(now)
	if before == nil || f.PrefillRequests >= before.PrefillRequests || r.prefillRequests.Load() == 0 {
		return
	}
	// The rank has done with a prompt of theirs: the oldest of ours was not computed before.
	r.lock()
	defer r.unlock()
	if r.prefillRequests.Load() > 0 {
		r.prefillSince.Store(m.fleet.opts.Now().UnixNano())
	}
}

// theirsBegin: the rank has done with a prompt of ours at time now, so that the oldest of
// peers' was not computed before.
func (r *ranked) theirsBegin(now int64) {
	f := r.peers.Load()
	if f == nil || f.PrefillRequests == 0 || f.PrefillSince.UnixNano() >= now {
		return
	}
	later := *f
	later.PrefillSince = time.Unix(0, now)
	r.peers.CompareAndSwap(f, &later) // else there is news
}

// Peers returns what SetPeers said last. It takes no lock and does not allocate. A rank
// the worker doesn't have reads as rank 0.
func (m *Member) Peers(rank int) InFlight {
	if f := m.rank(rank).peers.Load(); f != nil {
		return *f
	}
	return InFlight{}
}
