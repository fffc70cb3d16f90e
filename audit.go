package kvsteer

import (
	"log/slog"
	"math/bits"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache"
)

// An owner becomes Suspect when auditBad of its last auditWindow telling requests
// disagree with the index, and is trusted again after auditGood agreements in a
// row. One lost race between a store and a pick is normal; half of them are a
// wrong block size, tokenizer or template, events of another worker, or lost
// ones.
const (
	auditWindow = 16 // the bits of auditState.past
	auditBad    = 8
	auditGood   = 10
)

// auditState counts how the engine's reported cached tokens compare with ours.
type auditState struct {
	mu sync.Mutex
	// past holds the latest comparisons, the newest in the lowest bit; set is a
	// disagreement.
	past   uint16        // auditWindow of them
	agreed int           // in a row
	before kvcache.Trust // what Suspect replaced
}

// auditable reports whether the engine's count of cached tokens says anything
// about the index: not when the prompt's tokens were estimated, when they are
// those of one prompt of several, or when engines don't look into their cache.
func (s *Selection) auditable() bool {
	return s.enc.Source.Exact() && len(s.enc.Tokens) == s.enc.Count && !s.parsed.bypass
}

// audit compares the cached tokens that the engine reported for a finished
// request with those that the index predicted at pick time, and lowers or
// restores the owner's trust.
func (r *Router) audit(a *attempt, u Usage) {
	if !u.CachedKnown {
		return // absent is not zero
	}
	home := r.residency.of(a.member.ID())
	if home == nil || a.rank >= len(home.audits) {
		return // the instance is gone
	}
	if u.CacheRead == 0 && a.cached == 0 {
		return // nothing was cached, and whatever is wrong would say so too
	}
	diff := u.CacheRead - a.cached
	agrees := diff < a.block && -diff < a.block
	from, to, changed := home.audits[a.rank].record(r.index, a.owner, agrees)
	if !changed {
		return
	}
	reason := "reported cached tokens agree again"
	if to == kvcache.Suspect {
		reason = reasonSuspect
	}
	if l := r.opts.logger; l != nil {
		l.Warn("kvsteer: cache trust changed", slog.String("worker", a.target.Worker), slog.Int("rank", a.rank),
			slog.String("from", from.String()), slog.String("to", to.String()), slog.String("reason", reason),
			slog.Int("reported", u.CacheRead), slog.Int("expected", a.cached))
	}
	r.opts.hooks.onTrust(TrustChange{
		Worker: a.target.Worker, Instance: a.target.Instance, Rank: a.rank, From: from, To: to, Reason: reason,
	})
}

const reasonSuspect = "reported cached tokens disagree with the index"

func (s *auditState) record(index *kvcache.Index, o kvcache.Owner, agrees bool) (from, to kvcache.Trust, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past <<= 1
	s.agreed++
	if !agrees {
		s.past |= 1
		s.agreed = 0
	}
	now := index.Trust(o)
	switch {
	case now > kvcache.Suspect && bits.OnesCount16(s.past) >= auditBad:
		s.before = now
		index.SetTrust(o, kvcache.Suspect)
		return now, kvcache.Suspect, true
	case now == kvcache.Suspect && s.agreed >= auditGood && s.before > kvcache.Suspect:
		s.past = 0
		index.SetTrust(o, s.before)
		return now, s.before, true
	default:
		return now, now, false
	}
}
