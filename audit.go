package kvsteer

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// auditor counts how the engine's reported cached tokens compare with ours.
type auditor struct {
	mu    sync.Mutex
	count steer.Audit
	// doubted is the count's, for picks, which don't lock. It stands beside the index's
	// Standing, which the Follower alone moves.
	doubted atomic.Bool
	// rereading: events are being read anew because of doubts, which ends them.
	rereading bool
	// resynced is when doubts last had the events read anew; that is done again no
	// sooner than pause later.
	resynced time.Time
	pause    time.Duration
	// said is why the rank became Suspect last, with the numbers that show it.
	said atomic.Pointer[string]
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
	a.resynced, a.rereading = now, true
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
// request with those that the index predicted at pick time, and doubts the owner or
// trusts it again.
func (r *Router) audit(a *leg, u Usage) {
	if !u.CachedKnown {
		return // absent is not zero
	}
	home := r.residency.of(a.member.ID())
	if home == nil || a.rank >= len(home.audits) {
		return // the instance is gone
	}
	c := steer.Comparison{Reported: u.CacheRead, Expected: a.cached, Sure: a.sure, Prompt: a.prompt, Counted: u.Prompt(), Block: a.block}
	v := home.audits[a.rank].record(r.index, a.owner, &c, blockSizeOf(a.member))
	if v.doubts && home.audits[a.rank].mayResync(r.opts.now()) {
		home.resync(a.rank)
	}
	if v.from == v.to {
		return
	}
	if l := r.opts.logger; l != nil {
		l.Warn("kvsteer: cache trust changed", slog.String("worker", a.target.Worker), slog.Int("rank", a.rank),
			slog.String("from", v.from.String()), slog.String("to", v.to.String()), slog.String("reason", v.reason),
			slog.String("evidence", v.evidence), slog.Int("reported", u.CacheRead), slog.Int("expected", a.cached))
	}
	r.opts.hooks.onTrust(TrustChange{
		Worker: a.target.Worker, Instance: a.target.Instance, Rank: a.rank, From: v.from, To: v.to,
		Reason: v.reason, Evidence: v.evidence,
	})
}

// blockSizeOf is the block size that an engine states, 0 if it doesn't.
func blockSizeOf(m *fleet.Member) int {
	if m.Worker().BlockSize > 0 { // it is what somebody says of it
		return 0
	}
	return m.BlockSize()
}

const (
	reasonSuspect  = "reported cached tokens disagree with the index"
	reasonRestored = "reported cached tokens agree again"
	reasonReread   = "events were read anew"
)

// verdict is what a comparison made of an owner's trust.
type verdict struct {
	from, to         kvcache.Trust
	doubts           bool // a test has just failed, the first or another one
	reason, evidence string
}

func (a *auditor) record(index *kvcache.Index, o kvcache.Owner, c *steer.Comparison, stated int) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	trust := index.Trust(o)
	v := verdict{from: a.lowers(trust)}
	turn := a.count.Record(c, trust)
	a.doubted.Store(a.count.Doubted())
	v.to = a.lowers(trust)
	switch turn {
	case steer.Doubted, steer.Confirmed:
		cause, numbers := a.count.Doubts.Cause(steer.Engine{BlockSize: stated, Announces: index.OwnerStats(o).Stored > 0})
		v.reason, v.evidence, v.doubts = reasonSuspect+": "+cause.String(), numbers, true
		said := v.reason + " (" + numbers + ")"
		a.said.Store(&said)
	case steer.Restored:
		v.reason, a.rereading = reasonRestored, false
	default:
	}
	return v
}

// lowers returns what an owner is trusted as of which the index says t.
func (a *auditor) lowers(t kvcache.Trust) kvcache.Trust {
	if a.doubted.Load() {
		return steer.Suspected(t)
	}
	return t
}

// reread ends the doubts that had the events read anew, now that they were, and reports
// whether there were any.
func (a *auditor) reread() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.rereading {
		return false
	}
	a.rereading = false
	a.count.Forget()
	return a.doubted.Swap(false)
}

// reread ends doubts in a rank, or in all if rank is -1, whose events were read anew.
func (r *residency) reread(m *fleet.Member, h *residence, rank int) {
	for i := range h.audits {
		if rank >= 0 && i != rank || !h.audits[i].reread() {
			continue
		}
		to := r.index.Trust(h.owners[i])
		from := steer.Suspected(to)
		if from == to {
			continue
		}
		r.opts.hooks.onTrust(TrustChange{
			Worker: m.Name(), Instance: m.ID(), Rank: i, From: from, To: to, Reason: reasonReread,
		})
	}
}

// doubt says why a Suspect is one. It does not allocate.
func (a *auditor) doubt() string {
	if said := a.said.Load(); said != nil {
		return *said
	}
	return reasonSuspect
}
