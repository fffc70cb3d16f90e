package kvsteer

import (
	"log/slog"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// auditor counts how the engine's reported cached tokens compare with ours.
type auditor struct {
	mu    sync.Mutex
	count steer.Audit
	// resynced is when doubts last had the events read anew; that is done again no
	// sooner than pause later.
	resynced time.Time
	pause    time.Duration
}

// Reading events anew helps if some were lost or misread. If it doesn't, because
// the block size or the tokenizer is wrong, it is done ever more rarely: until
// doubts return, the cache would be counted on.
const (
	resyncPause    = time.Minute
	maxResyncPause = time.Hour
)

// mayResync reports whether it is time to read the events anew, and if so counts
// that as done.
func (a *auditor) mayResync(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := now.Sub(a.resynced)
	switch {
	case a.resynced.IsZero() || since > 2*maxResyncPause:
		a.pause = resyncPause
	case since < a.pause:
		return false
	default:
		a.pause = min(2*a.pause, maxResyncPause)
	}
	a.resynced = now
	return true
}

// auditable reports whether the engine's count of cached tokens says anything
// about the index: not when the prompt's tokens were estimated, when they are
// those of one prompt of several, or when engines don't look into their cache.
func (s *Selection) auditable(l *leg) bool {
	enc := &l.view.enc
	return enc.Source.Exact() && len(enc.Tokens) == enc.Count && !s.parsed.bypass
}

// audit compares the cached tokens that the engine reported for a finished
// request with those that the index predicted at pick time, and lowers or
// restores the owner's trust.
func (r *Router) audit(a *leg, u Usage) {
	if !u.CachedKnown {
		return // absent is not zero
	}
	home := r.residency.of(a.member.ID())
	if home == nil || a.rank >= len(home.audits) {
		return // the instance is gone
	}
	if !steer.Tells(u.CacheRead, a.cached) {
		return
	}
	agrees := steer.Agrees(u.CacheRead, a.cached, a.block)
	from, to, changed := home.audits[a.rank].record(r.index, a.owner, agrees)
	if !changed {
		return
	}
	reason := "reported cached tokens agree again"
	if to == kvcache.Suspect {
		reason = reasonSuspect
		if home.audits[a.rank].mayResync(r.opts.now()) {
			home.resync(a.rank)
		}
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

func (a *auditor) record(index *kvcache.Index, o kvcache.Owner, agrees bool) (from, to kvcache.Trust, changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from = index.Trust(o)
	to, changed = a.count.Record(agrees, from)
	if changed {
		reason := ""
		if to == kvcache.Suspect {
			reason = reasonSuspect
		}
		index.SetStanding(o, kvcache.Standing{Trust: to, Reason: reason})
	}
	return from, to, changed
}
