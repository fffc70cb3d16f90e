package fleet

// SetPeers says what other routers have in flight on a rank, all of them together; it
// replaces what was said before. Picks is ignored. A rank that the worker doesn't have
// is ignored. It is for one Router of a Fleet: the one that hears the others.
func (m *Member) SetPeers(rank int, f InFlight) {
	if rank < 0 || rank >= len(m.ranks) {
		return
	}
	f.Picks = 0
	if f.Requests = f.PrefillRequests + f.DecodeRequests; f.Requests == 0 {
		m.ranks[rank].peers.Store(nil)
		return
	}
	m.ranks[rank].peers.Store(&f)
}

// Peers returns what SetPeers said last. It takes no lock and does not allocate. A rank
// the worker doesn't have reads as rank 0.
func (m *Member) Peers(rank int) InFlight {
	if f := m.rank(rank).peers.Load(); f != nil {
		return *f
	}
	return InFlight{}
}
