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
	at := m.fleet.opts.Now().UnixNano()
	r.lock()
	defer r.unlock()
	var before InFlight
	if old := r.peers.Load(); old != nil {
		before = *old
	}
	if f.PrefillTokens > before.PrefillTokens {
		r.heard.note(at, f.PrefillTokens-before.PrefillTokens)
	}
	if f.PrefillRequests < before.PrefillRequests {
		// The rank has done with a prompt of theirs: no other was computed before.
		r.latest = at
		if r.prefillRequests.Load() > 0 {
			r.prefillSince.Store(at)
		}
	}
	// Who waits behind another router's prompt may not have heard yet that it is done.
	if f.PrefillRequests > 0 && !f.PrefillSince.IsZero() && f.PrefillSince.UnixNano() < r.latest {
		f.PrefillSince = time.Unix(0, r.latest)
	}
	r.peers.Store(now)
}

// theirsBegin: the rank has done with a prompt of ours at time now, so that the oldest of
// peers' was not computed before. The caller holds mu.
func (r *ranked) theirsBegin(now int64) {
	r.latest = now
	f := r.peers.Load()
	if f == nil || f.PrefillRequests == 0 || f.PrefillSince.UnixNano() >= now {
		return
	}
	later := *f
	later.PrefillSince = time.Unix(0, now)
	r.peers.Store(&later)
}

// Peers returns what SetPeers said last. It takes no lock and does not allocate. A rank
// the worker doesn't have reads as rank 0.
func (m *Member) Peers(rank int) InFlight {
	if f := m.rank(rank).peers.Load(); f != nil {
		return *f
	}
	return InFlight{}
}
