package kvsteer

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// silenceAfter is how many answered requests in a row must have given an engine
// something to announce before its silence is taken for a fault. Events come
// with the engine's next step; they are never ten requests late.
const silenceAfter = 10

const reasonSilent = "requests complete but the engine publishes no KV events; check its --kv-events-config and prefix caching"

// silence notices a rank whose event stream stands, but stands still.
type silence struct {
	mu       sync.Mutex
	messages uint64 // of its followers, when last looked at
	answered int    // since then
	// silent is written under mu and read by every pick.
	silent atomic.Bool
}

// heard takes in an answered request and reports whether the rank's silence
// began or ended with it.
func (s *silence) heard(messages uint64) (changed, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if messages != s.messages {
		s.messages, s.answered = messages, 0
	} else {
		s.answered++
	}
	silent = s.answered >= silenceAfter
	return s.silent.Swap(silent) != silent, silent
}

// silent reports whether a rank announces nothing of what it computes.
func (h *residence) silent(rank int) bool {
	return h != nil && rank < len(h.silences) && h.silences[rank].silent.Load()
}

// listen compares what a rank was asked to compute with what it announced.
func (r *Router) listen(a *leg, u Usage) {
	home, cached := r.residency.of(a.member.ID()), a.cached
	if u.CachedKnown {
		cached = max(cached, u.CacheRead) // it may hold what we don't know of
	}
	if home == nil || a.rank >= len(home.silences) || a.prompt-cached < 2*a.block {
		return // nothing new that fills a block for certain
	}
	messages, followed := home.messages(a.rank)
	if !followed {
		return
	}
	changed, silent := home.silences[a.rank].heard(messages)
	if l := r.opts.logger; l != nil && changed && silent {
		l.Warn("kvsteer: "+reasonSilent, slog.String("worker", a.target.Worker), slog.Int("rank", a.rank))
	}
}

// messages counts those of the streams that speak of a rank; false if there is none.
func (h *residence) messages(rank int) (n uint64, followed bool) {
	for _, f := range h.followers {
		if f.rank == rank || f.rank < 0 {
			st := f.Stats()
			n, followed = n+st.Messages+st.Replayed, true
		}
	}
	return n, followed
}
