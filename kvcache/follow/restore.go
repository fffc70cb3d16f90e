package follow

import (
	"errors"
	"log/slog"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

const (
	// restoreBytes is the memory that a block is expected to need. It is more than
	// most do, so that what is won back does not push others out.
	restoreBytes = 64
	// maxRestorePause is the longest pause between two attempts to win back what
	// the index's bounds took away.
	maxRestorePause = time.Hour
)

// errPartial ends a replay of everything that does not begin at number 0 and would
// replace what is known by less.
var errPartial = errors.New("follow: the history is no longer complete")

// short returns why the index holds less of t than its events said.
func (f *Follower) short(t *target) kvcache.Reason {
	if f.ledger == nil {
		return kvcache.NoReason
	}
	return f.ledger.Short(t.owner)
}

// wanting reports whether a replay of everything would bring back what is missing
// for no other reason than our own bounds, or because a snapshot was not complete.
func (f *Follower) wanting() bool {
	if f.ledger == nil || !f.up || f.unproven || f.recoverable || !f.mayReplay() {
		return false
	}
	found := false
	for _, t := range f.targets {
		short := f.short(t)
		switch {
		case !t.whole && t.why != ReasonSnapshot:
			return false // it would not be whole afterwards either
		case !t.whole:
			found = true
		case short == kvcache.NoReason:
		case short != kvcache.ReasonOrphanBound && !f.room(t):
			return false
		default:
			found = true
		}
	}
	return found
}

// room reports whether the budget has room for what t is missing.
func (f *Follower) room(t *target) bool {
	s := f.ledger.Stats()
	return s.Bytes+int64(f.ledger.OwnerStats(t.owner).Missing)*restoreBytes <= s.Budget
}

// restore replays everything, if the publisher still has everything. When that
// was of no use, as with a budget that is too small for all owners, the next
// attempt is later and later, and the owners stay lower bounds by name.
func (f *Follower) restore(conn Conn) error {
	if f.restorePause == 0 || time.Since(f.restoreAt) > f.restorePause {
		f.restorePause = f.cfg.ResyncEvery
	} else {
		f.restorePause = min(2*f.restorePause, max(maxRestorePause, f.cfg.ResyncEvery))
	}
	f.restoreAt = time.Now().Add(f.restorePause)
	f.count(func(s *Stats) { s.Restores++ })
	f.busy = ReasonStarting // from before the first block goes
	f.settle()
	err := f.replayAll(conn, true)
	switch {
	case errors.Is(err, errPartial):
		f.log(slog.LevelDebug, "what the index lost can't be replayed any more")
		f.restorePause = maxRestorePause
		f.restoreAt = time.Now().Add(f.restorePause)
		return nil
	case errors.Is(err, errUnanswered):
		f.busy = ReasonNone
	default:
	}
	return err
}
