package follow

import (
	"log/slog"

	"github.com/kvsteer/kvsteer/kvcache"
)

// ledger is what an [Index] may offer beside its own methods; [*kvcache.Index]
// does. With it a Follower says why an owner is not exact, leaves behind where a
// successor can go on, and knows what the index's bounds have taken away.
type ledger interface {
	SetStanding(o kvcache.Owner, st kvcache.Standing)
	SetPosition(o kvcache.Owner, p kvcache.Position)
	Position(o kvcache.Owner) (kvcache.Position, bool)
	Short(o kvcache.Owner) kvcache.Reason
	OwnerStats(o kvcache.Owner) kvcache.OwnerStats
	Stats() kvcache.Stats
}

// resume goes on where the index says that somebody stopped: a snapshot that was
// imported, or an earlier Follower. Nothing of it counts before the publisher has
// returned the message of that place unchanged; until then trust is left alone.
func (f *Follower) resume(t *target) {
	if f.ledger == nil || t == nil || f.cfg.Endpoint.Replay == "" {
		return // nobody to ask for a proof
	}
	p, ok := f.ledger.Position(t.owner)
	if !ok || p.Seq+1 == 0 {
		return
	}
	f.last = mark{seq: p.Seq, hash: p.Proof}
	base := f.last
	f.inherited = &base
	f.base, f.next, f.placed, f.unproven, f.resumed = &base, p.Seq+1, true, true, true
	f.whole, f.why, t.applied = p.Whole, ReasonNone, true
	if !p.Whole {
		f.why = ReasonSnapshot
	}
	t.whole, t.why = f.whole, f.why
	f.count(func(s *Stats) { s.Next = f.next })
	f.log(slog.LevelInfo, "going on where the index was left", slog.Uint64("seq", p.Seq), slog.Bool("whole", p.Whole))
}

// adopt decides on what an owner holds already of which the stream speaks for the
// first time, after others.
func (f *Follower) adopt(t *target) {
	if f.inherited != nil {
		p, ok := f.ledger.Position(t.owner)
		if ok && p.Seq == f.inherited.seq && p.Proof == f.inherited.hash {
			t.whole, t.applied = p.Whole, true
			if !p.Whole {
				t.why = ReasonSnapshot
			}
			return
		}
		t.whole, t.why = false, ReasonSnapshot
	}
	if f.holds(t.owner) {
		f.cfg.Index.Clear(t.owner) // nobody vouches for it
	}
}

// resumedProven notes that the publisher is the one that was followed before.
func (f *Follower) resumedProven() {
	if !f.resumed {
		return
	}
	f.resumed, f.heard = false, true
	f.count(func(s *Stats) { s.Resumed++ })
}

// keep records how far the owners' events have been applied. While there is a
// doubt whose messages they were, nothing is recorded: the proof would be that of
// the wrong publisher.
func (f *Follower) keep() {
	if f.ledger == nil || f.unproven || f.base != nil || !f.placed || f.next == 0 {
		return
	}
	for _, t := range f.targets {
		f.ledger.SetPosition(t.owner, kvcache.Position{Seq: f.last.seq, Proof: f.last.hash, Whole: t.whole})
	}
}
