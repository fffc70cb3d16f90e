package fleettest

// Stats is what an engine did in its present life, over all ranks.
type Stats struct {
	// Requests counts API requests since Start, over all lives; InFlight those
	// being handled now, and MaxInFlight the most at any time.
	Requests, InFlight, MaxInFlight int
	// Running and Waiting count requests in the ranks.
	Running, Waiting int
	// PrefillTokens were computed for prompts, GeneratedTokens for answers.
	PrefillTokens, GeneratedTokens uint64
	// QueriedTokens is the total length of the prompts scheduled, HitTokens the part
	// that was cached.
	QueriedTokens, HitTokens uint64
	// RemoteTokens of the prompts came from engines that had computed them.
	RemoteTokens uint64
	// CachedBlocks is the number of distinct blocks in the caches, UsedBlocks the
	// number that requests hold.
	CachedBlocks, UsedBlocks int
	// Preempted counts how often a request lost its blocks to another.
	Preempted uint64
}

// HitRate is the share of prompt tokens that were cached, 0..1.
func (s *Stats) HitRate() float64 {
	if s.QueriedTokens == 0 {
		return 0
	}
	return float64(s.HitTokens) / float64(s.QueriedTokens)
}

// Stats returns the counters. While a step's duration passes they are those of
// its end.
func (e *Engine) Stats() Stats {
	e.rec.mu.Lock()
	s := Stats{Requests: e.rec.total, InFlight: e.rec.inFlight, MaxInFlight: e.rec.most}
	e.rec.mu.Unlock()
	l := e.current()
	if l == nil {
		return s
	}
	for _, r := range l.ranks {
		g := r.gauges()
		s.Running += g.running
		s.Waiting += g.waiting
		s.UsedBlocks += g.used
		s.PrefillTokens += g.stats.PrefillTokens
		s.GeneratedTokens += g.stats.Generated
		s.QueriedTokens += g.stats.QueriedTokens
		s.HitTokens += g.stats.HitTokens
		s.RemoteTokens += g.stats.RemoteTokens
		s.Preempted += g.stats.Preempted
		s.CachedBlocks += r.cached()
	}
	return s
}

// Requests returns the latest API requests, oldest first. Headers and bodies must
// not be changed.
func (e *Engine) Requests() []Request { return e.rec.list() }

func (r *rank) cached() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sim.CachedBlocks()
}

// CachedHashes returns the hashes of a rank's cached blocks as its events name
// them, in no order; nil while the engine is dead.
func (e *Engine) CachedHashes(rank int) []uint64 {
	l := e.current()
	if l == nil || rank < 0 || rank >= len(l.ranks) {
		return nil
	}
	r := l.ranks[rank]
	r.mu.Lock()
	defer r.mu.Unlock()
	hashes := make([]uint64, 0, r.sim.CachedBlocks())
	r.sim.Cached(func(hash uint64, _ int) bool {
		hashes = append(hashes, hash)
		return true
	})
	return hashes
}

// CachedTokens returns how many leading tokens of a prompt a rank would find in its
// cache now: one for the base model, without salt and images. It is what a router's
// own view of the cache is to be compared with; 0 while the engine is dead.
func (e *Engine) CachedTokens(rank int, tokens []uint32) int {
	l := e.current()
	if l == nil || rank < 0 || rank >= len(l.ranks) {
		return 0
	}
	r := l.ranks[rank]
	chain := r.hashes(&identity{}, tokens)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sim.Match(chain, len(tokens))
}
