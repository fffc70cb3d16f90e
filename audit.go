package kvsteer

import (
	"sync"

	"github.com/kvsteer/kvsteer/kvcache"
)

// auditStreak is how many consecutive requests must disagree with the index for
// its owner to become Suspect, and agree for it to be trusted again. One lost
// race between a store and a pick is normal; ten in a row are a wrong block
// size, tokenizer or template, or lost events.
const auditStreak = 10

// auditState counts how the engine's reported cached tokens compare with ours.
type auditState struct {
	mu sync.Mutex
	// streak counts consecutive agreements when positive, disagreements when
	// negative.
	streak int
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
	diff := u.CacheRead - a.cached
	agrees := diff < a.block && -diff < a.block
	from, to, changed := home.audits[a.rank].record(r.index, a.owner, agrees)
	if !changed {
		return
	}
	reason := "reported cached tokens agree again"
	if to == kvcache.Suspect {
		reason = "reported cached tokens disagree with the index"
	}
	r.opts.hooks.onTrust(TrustChange{
		Worker: a.target.Worker, Instance: a.target.Instance, Rank: a.rank, From: from, To: to, Reason: reason,
	})
}

func (s *auditState) record(index *kvcache.Index, o kvcache.Owner, agrees bool) (from, to kvcache.Trust, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if agrees != (s.streak > 0) {
		s.streak = 0
	}
	if agrees {
		s.streak++
	} else {
		s.streak--
	}
	now := index.Trust(o)
	switch {
	case s.streak <= -auditStreak && now > kvcache.Suspect:
		s.before = now
		index.SetTrust(o, kvcache.Suspect)
		return now, kvcache.Suspect, true
	case s.streak >= auditStreak && now == kvcache.Suspect && s.before > kvcache.Suspect:
		index.SetTrust(o, s.before)
		return now, s.before, true
	default:
		return now, now, false
	}
}
