package follow

import (
	"context"
	"log/slog"

	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/kvcache"
)

// target is one owner that the stream has events for. Nearly always there is
// one: each rank of an engine has a publisher of its own.
type target struct {
	rank  int
	owner kvcache.Owner
	// whole: everything since the owner's cache was empty has been applied.
	whole bool
	// why not whole.
	why Reason
	// applied: something was applied since the owner was cleared.
	applied bool
	trust   kvcache.Trust
	reason  Reason
	// told is what the index was told last.
	told kvcache.Standing
}

// target returns the owner of rank, nil if there is none.
func (f *Follower) target(rank int) *target {
	for _, t := range f.targets {
		if t.rank == rank {
			return t
		}
	}
	o, ok := f.cfg.Owner(rank)
	if !ok {
		return nil
	}
	t := &target{rank: rank, owner: o, whole: f.whole, why: f.why}
	if len(f.targets) > 0 {
		f.adopt(t)
	}
	f.targets = append(f.targets, t)
	return t
}

// clear forgets all blocks. What comes after is complete if the cache is empty
// now, and otherwise a lower bound, for the reason why.
func (f *Follower) clear(why Reason) {
	f.whole, f.why = why == ReasonNone, why
	for _, t := range f.targets {
		t.whole, t.why = f.whole, why
	}
	if !f.whole {
		f.settle() // before it is so
	}
	for _, t := range f.targets {
		// Clear takes the bookings of requests that are under way as well, which
		// an owner that holds nothing else has no reason to lose.
		if (t.applied || f.holds(t.owner)) && !planted.RestartKeepsBlocks {
			f.cfg.Index.Clear(t.owner)
			t.applied = false
		}
	}
}

// holds reports whether somebody else gave o blocks that are no bookings: a
// predecessor, or a snapshot.
func (f *Follower) holds(o kvcache.Owner) bool {
	if f.ledger == nil {
		return false
	}
	s := f.ledger.OwnerStats(o)
	return s.Pairs > s.Provisional || s.Orphans > 0
}

// accept applies the message whose turn it is.
func (f *Follower) accept(m Message) {
	k := markOf(m)
	f.recent.add(k)
	f.last, f.next, f.placed, f.heard = k, m.Seq+1, true, true
	b, err := f.cfg.Decoder.Decode(m.Payload)
	if err != nil {
		f.count(func(s *Stats) { s.Next = f.next; s.Undecodable++ })
		f.log(slog.LevelWarn, "undecodable event message", slog.Uint64("seq", m.Seq), slog.Any("error", err))
		if !planted.UndecodableKept {
			f.clear(ReasonUndecodable)
		}
		f.recoverable = false
		return
	}
	rank := b.Rank
	if rank < 0 {
		rank = f.cfg.Endpoint.Rank
	}
	t := f.target(rank)
	if t == nil {
		f.count(func(s *Stats) { s.Next = f.next; s.Foreign += uint64(len(b.Events)) })
		return
	}
	f.count(func(s *Stats) {
		s.Next = f.next
		s.Events += uint64(len(b.Events))
		s.Malformed += uint64(b.Malformed)
		s.Unknown += uint64(b.Unknown)
	})
	for i := range b.Events {
		e := &b.Events[i]
		t.applied = true
		if planted.RemovalIgnored && e.Kind == kvcache.Removed {
			continue
		}
		out := f.cfg.Index.Apply(t.owner, e)
		if e.Kind == kvcache.Cleared {
			t.whole, t.why = true, ReasonNone
			if len(f.targets) == 1 {
				// Of ranks that have not been heard of yet it says nothing: f.whole stays.
				f.recoverable = false
			}
		}
		if f.lessensKnowledge(out.Reason) {
			t.whole, t.why = false, ReasonRefused
		}
	}
	if b.Malformed > 0 {
		t.whole, t.why = false, ReasonMalformed
	}
	f.keep()
}

// lessensKnowledge reports whether the index left out something that another
// index would have taken, so that it now holds less than the engine. What its own
// bounds took away an index with a ledger says itself, see [Follower.short].
func (f *Follower) lessensKnowledge(r kvcache.Reason) bool {
	switch r {
	case kvcache.ReasonLength, kvcache.ReasonBlockSize:
		return true
	case kvcache.ReasonOrphanBound, kvcache.ReasonBudget:
		return f.ledger == nil
	default:
		return false
	}
}

// settle brings each owner's trust in line with what the stream is at.
func (f *Follower) settle() {
	defer f.report()
	defer f.resynced()
	for _, t := range f.targets {
		trust, reason := f.judge(t)
		f.stand(t, trust, reason)
		if trust == kvcache.Exact {
			trust, reason = f.asHeld(t)
		}
		if trust == t.trust && reason == t.reason {
			continue
		}
		from := t.trust
		t.trust, t.reason = trust, reason
		if t.rank == f.cfg.Endpoint.Rank {
			f.count(func(s *Stats) { s.Trust, s.Reason = trust, reason })
		}
		if trust == from {
			continue
		}
		attrs := []slog.Attr{
			slog.Int("rank", t.rank), slog.String("from", from.String()), slog.String("to", trust.String()),
		}
		if reason != ReasonNone {
			attrs = append(attrs, slog.String("reason", string(reason)))
		}
		f.log(slog.LevelInfo, "trust changed", attrs...)
		if f.cfg.OnTrust != nil {
			f.cfg.OnTrust(Change{Rank: t.rank, Owner: t.owner, From: from, To: trust, Reason: reason})
		}
	}
}

// resynced tells of a Resync that is done.
func (f *Follower) resynced() {
	if f.owed && f.anew {
		f.owed = false
		if f.cfg.OnResync != nil {
			f.cfg.OnResync()
		}
	}
	f.anew = false
}

// asHeld returns what becomes of Exact in an index that knows what it lacks, or
// what it can't tell of an engine's groups.
func (f *Follower) asHeld(t *target) (kvcache.Trust, Reason) {
	if short := f.short(t); short != kvcache.NoReason {
		return kvcache.Resyncing, Reason(short.String())
	}
	if x, ok := f.cfg.Index.(interface {
		Standing(o kvcache.Owner) kvcache.Standing
	}); ok {
		if st := x.Standing(t.owner); st.Trust == kvcache.Approximate {
			return st.Trust, Reason(st.Reason)
		}
	}
	return kvcache.Exact, ReasonNone
}

// stand tells the index.
func (f *Follower) stand(t *target, trust kvcache.Trust, reason Reason) {
	st := kvcache.Standing{Trust: trust, Reason: string(reason)}
	switch {
	case st == t.told:
		return
	case f.ledger != nil && (trust != kvcache.Blind || t.told.Trust != kvcache.Blind):
		f.ledger.SetStanding(t.owner, st)
	case trust != t.told.Trust:
		f.cfg.Index.SetTrust(t.owner, trust)
	}
	t.told = st
}

// maxFailedChecks in a row, with no message between them, end Exact: silence is
// then no longer known to be that of an idle engine.
const maxFailedChecks = 2

func (f *Follower) judge(t *target) (kvcache.Trust, Reason) {
	switch {
	case f.ctx.Err() != nil:
		return kvcache.Blind, ReasonClosed
	case !f.heard && !f.up && f.fault != nil && f.busy != ReasonStale:
		return kvcache.Blind, ReasonNotConnected
	case !f.heard:
		return kvcache.Blind, f.busy
	case f.busy != ReasonNone:
		return kvcache.Resyncing, f.busy
	case !f.up:
		return kvcache.Resyncing, ReasonNotConnected
	case !t.whole:
		return kvcache.Resyncing, t.why
	case f.unproven || f.failedChecks >= maxFailedChecks:
		return kvcache.Resyncing, ReasonUnanswered
	default:
		return kvcache.Exact, ReasonNone
	}
}

func (f *Follower) log(level slog.Level, text string, attrs ...slog.Attr) {
	if f.cfg.Logger.Enabled(context.Background(), level) {
		f.cfg.Logger.LogAttrs(context.Background(), level, text, //nolint:sloglint // constant at every caller
			append(attrs, slog.String("endpoint", f.cfg.Endpoint.Events))...)
	}
}
