package kvsteer

import (
	"errors"
	"log/slog"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
)

// errPassedOver is what a worker is told to have failed with that a proxy gave up.
var errPassedOver = errors.New("kvsteer: the proxy in front was answered by another worker instead")

// errElsewhere is why a Selection is aborted that went where nobody knows.
var errElsewhere = errors.New("kvsteer: the proxy in front was answered by a worker that the fleet does not know")

// Moved says that a proxy, which was told of the Target and its Alternatives, was answered
// by the worker at address, a host:port. If that is the Target's nothing happens.
// Otherwise the booking moves there, and the Target, which the proxy gave up, counts one
// failure. What was foretold for the Target says nothing about the worker that answered:
// neither the predictor nor the audit of caches learns from the request. If the fleet
// knows no such worker the request ends here. Call it before [Selection.Answer].
func (s *Selection) Moved(address string) {
	was, known := s.move(address)
	switch {
	case !known:
		s.Abort(errElsewhere)
	case was != nil:
		was.ReportFailure(errPassedOver)
		s.router.freed()
	}
}

// move returns the worker that the request has left, nil if it stays, and whether the
// one at address is known.
func (s *Selection) move(address string) (was *fleet.Member, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, r := &s.attempt, s.router
	if s.ended || a.ttft != 0 || a.offer != nil || isAt(a.member, address) {
		return nil, true
	}
	for _, m := range r.fleet.Snapshot().Members() {
		if !isAt(m, address) {
			continue
		}
		if l := r.opts.logger; l != nil {
			l.Warn("kvsteer: a proxy was answered by another worker than the first choice", slog.Uint64("decision", s.decision.ID),
				slog.String("worker", a.target.Worker), slog.String("served", m.Name()))
		}
		was = a.member
		a.release()
		r.rebook(s, m)
		return was, true
	}
	a.astray = true
	return nil, false
}

// rebook books the current attempt on m, as if nothing of its prompt was cached there. The
// caller holds s.mu, and has released it elsewhere.
func (r *Router) rebook(s *Selection, m *fleet.Member) {
	a, home := &s.attempt, r.residency.of(m.ID())
	rank := a.rank // its header went to whoever was tried
	if rank >= m.Ranks() {
		rank = 0
	}
	a.relay, a.assumed, a.moved, a.blamed = nil, nil, true, false
	a.member, a.rank, a.target, a.owner, a.cached = m, rank, targetOf(m, rank, a.target.Model), home.owner(rank), 0
	a.sure = 0
	a.inferred = r.index.Standing(a.owner).Trust <= kvcache.Approximate
	for i := range s.views {
		if &s.views[i] == a.view {
			a.block = r.blockSize(a.owner, m)
			a.keys = s.keys.of(s, i, a.block, a.view.adapterOn(m))
		}
	}
	a.booking = m.Begin(rank, fleet.Work{
		PrefillTokens: a.prompt, PrefillPairs: int64(AttentionPairs(a.prompt, 0)), PromptTokens: a.prompt,
	})
	s.assume(a, s.foretold(a))
}
