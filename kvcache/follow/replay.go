package follow

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Outcomes of a replay that the rest of the Follower handles; other errors end
// the connection.
var (
	// errUnanswered: the publisher gave no answer, or not all of it.
	errUnanswered = errors.New("follow: replay unanswered")
	// errOther: the answer is not that of the publisher whose messages were
	// applied.
	errOther = errors.New("follow: another publisher")
)

const (
	// replayFactor times ReplayTimeout bounds a replay that never stands still.
	replayFactor = 60
	// maxPauses times ReplayTimeout is the longest pause after an unanswered
	// replay: live messages wait while one is waited for, so a replay address
	// that never answers must not take much of the time.
	maxPauses = 4
	// proofDepth is how many messages before the latest are part of a proof.
	proofDepth = 63
	// confirmAfter is how soon after a new history its continuity is checked.
	confirmAfter = time.Second
	// maxRebirths bounds how often a publisher may restart within one sync.
	maxRebirths = 3
)

// mayReplay reports whether asking for a replay makes sense now.
func (f *Follower) mayReplay() bool {
	return f.replays() && !time.Now().Before(f.askAgain)
}

// replays reports whether there is a replay to ask for at all.
func (f *Follower) replays() bool { return f.cfg.Endpoint.Replay != "" && !f.hollow }

// replay asks for the messages from number from on. It returns nil after the end
// marker, fn's error, errUnanswered, or an error that ends the connection.
func (f *Follower) replay(conn Conn, from uint64, fn func(Message) error) error {
	f.count(func(s *Stats) { s.Replays++ })
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	// What we do with the messages is no time of the publisher's.
	left := replayFactor * f.cfg.ReplayTimeout
	asked := time.Now()
	stall := time.AfterFunc(f.cfg.ReplayTimeout, cancel)
	defer stall.Stop()
	var own error
	err := conn.Replay(ctx, from, func(m Message) error {
		stall.Stop()
		left -= time.Since(asked)
		f.count(func(s *Stats) { s.Replayed++ })
		own = fn(m)
		asked = time.Now()
		stall.Reset(min(f.cfg.ReplayTimeout, left))
		return own
	})
	switch {
	case f.ctx.Err() != nil:
		return f.ctx.Err()
	case own != nil:
		f.problems.replay = ""
		return own
	case err == nil:
		f.pause, f.problems.replay = 0, ""
		return nil
	case errors.Is(err, ErrClosed):
		return err
	}
	f.problems.replay = f.whyUnanswered(err)
	// ErrDisconnected too: if the live connection broke as well, Recv says so,
	// and if only the replay address is wrong, live messages still count.
	f.count(func(s *Stats) { s.Unanswered++ })
	f.log(slog.LevelDebug, "replay unanswered", slog.Uint64("from", from), slog.Any("error", err))
	f.postpone()
	return errUnanswered
}

// postpone holds back the next replay, longer each time.
func (f *Follower) postpone() {
	f.pause = nextPause(f.pause, f.cfg.ReplayTimeout, maxPauses*f.cfg.ReplayTimeout)
	f.askAgain = time.Now().Add(jitter(f.pause))
}

// restart begins anew: everything from number 0, or as far back as the publisher
// remembers. What is known is cleared when the answer begins, not before, so
// that an unanswered request costs nothing.
func (f *Follower) restart(conn Conn) error { return f.replayAll(conn, false) }

// replayAll is restart, except that with whole set it changes nothing and returns
// errPartial if the publisher no longer remembers everything.
func (f *Follower) replayAll(conn Conn, whole bool) error {
	silent := f.placed && f.next == 0 && f.whole // it had published nothing
	for range maxRebirths {
		begun := false
		err := f.replay(conn, 0, func(m Message) error {
			switch {
			case !begun && whole && m.Seq > 0:
				return errPartial
			case !begun:
				begun = true
				if !silent && slices.ContainsFunc(f.targets, func(t *target) bool { return t.trust == kvcache.Exact }) {
					f.busy = ReasonStarting // one rank may be exact where another one is in doubt
					f.settle()
				}
				f.begin(m.Seq, ReasonWrapped)
				if m.Seq > 0 {
					f.count(func(s *Stats) { s.Wraps++ })
				}
			case m.Seq < f.next:
				return errOther // it restarted while it answered
			case m.Seq > f.next:
				f.lose(m.Seq, ReasonLost)
			}
			f.accept(m)
			return nil
		})
		switch {
		case err == nil && !begun && whole:
			return errPartial
		case err == nil && !begun && f.live:
			return f.empty()
		case err == nil:
			if !begun {
				f.begin(0, ReasonNone) // it has published nothing yet
			}
			f.prove()
			f.anew = true
			if silent && !begun {
				return nil
			}
			// Messages of a predecessor may still wait on the connection and fit
			// behind these. The next proof shows it.
			f.confirmSoon()
			return nil
		case errors.Is(err, errOther):
			continue
		case errors.Is(err, errUnanswered):
			// As in catchUp, a request in vain of itself proves nothing and spoils
			// nothing.
			f.unproven = f.unproven || begun || !silent
			return errUnanswered
		default:
			return err
		}
	}
	f.unproven = true
	f.postpone()
	return errUnanswered
}

// confirmSoon brings the next check forward.
func (f *Follower) confirmSoon() {
	if soon := time.Now().Add(confirmAfter); soon.Before(f.nextCheck) {
		f.nextCheck = soon
	}
}

// empty deals with a replay of nothing from a publisher whose messages have come
// on this connection. Either it keeps none, and asking again would be to forget
// again; or it restarted behind a relay and is silent since, and will go on with
// number 0.
func (f *Follower) empty() error {
	f.hollow, f.unproven = true, true
	f.problems.replay = "it has none of the messages that were published; does the engine keep any (buffer_steps)?"
	f.doubt(ReasonUnanswered)
	return errUnanswered
}

// begin starts a history at number seq with an empty index, complete if seq is 0
// and otherwise a lower bound for the reason why.
func (f *Follower) begin(seq uint64, why Reason) {
	if seq == 0 {
		why = ReasonNone
	}
	f.clear(why)
	f.recent.clear()
	f.next, f.placed, f.heard = seq, true, true
	f.base, f.stray = nil, nil
	f.recoverable, f.unproven, f.resumed, f.inherited = false, false, false, nil
	f.count(func(s *Stats) { s.Next = seq })
}

// lose gives up the messages before number seq. What they removed is unknown, so
// that nothing known before can be relied on.
func (f *Follower) lose(seq uint64, why Reason) {
	f.count(func(s *Stats) { s.Lost++ })
	f.log(slog.LevelWarn, "event messages lost", slog.Uint64("from", f.next), slog.Uint64("to", seq-1))
	f.clear(why)
	f.next = seq
	f.count(func(s *Stats) { s.Next = seq })
}

// catchUp has the publisher prove that it is still the one whose messages were
// applied, and brings what came after. The proof are the latest messages that
// were applied (after a reconnection: the latest before it), which it must
// return unchanged. One would do against a restart that the transport reports;
// several also show one behind a relay, after which the new numbers happen to
// continue the old ones.
func (f *Follower) catchUp(conn Conn) error { return f.proof(conn, false) }

// check is catchUp for no other reason than that it is time.
func (f *Follower) check(conn Conn) error { return f.proof(conn, true) }

func (f *Follower) proof(conn Conn, routine bool) error {
	if !f.placed || f.next == 0 {
		return f.restart(conn)
	}
	anchor := f.last
	if f.base != nil {
		anchor = *f.base
	}
	known := func(seq uint64) (uint64, bool) {
		if seq == anchor.seq {
			return anchor.hash, true
		}
		return f.recent.hash(seq)
	}
	from := anchor.seq
	for from > 0 && anchor.seq-from < proofDepth {
		if _, ok := known(from - 1); !ok {
			break
		}
		from--
	}
	begun, wrapped, proven := false, false, false
	err := f.replay(conn, from, func(m Message) error {
		if !begun {
			begun = true
			if wrapped = m.Seq > anchor.seq; wrapped {
				return errOther
			}
		}
		switch {
		case m.Seq < f.next:
			if h, ok := known(m.Seq); ok && h != markOf(m).hash {
				return errOther
			}
			proven = proven || m.Seq == anchor.seq
			return nil
		case !proven:
			return errOther // it has others behind it, but not the anchor
		case m.Seq > f.next:
			f.lose(m.Seq, ReasonLost)
			f.recoverable = false
		}
		f.accept(m)
		return nil
	})
	switch {
	case err == nil && proven:
		f.prove()
		return nil
	case wrapped && routine && f.lags():
		return nil
	case err == nil || errors.Is(err, errOther):
		// It restarted, or its buffer has wrapped beyond the proof: either way
		// nothing links what is known to what it will say.
		if !wrapped {
			f.count(func(s *Stats) { s.Restarts++ })
		}
		f.log(slog.LevelWarn, "publisher began anew", slog.Uint64("proof", anchor.seq), slog.Bool("wrapped", wrapped))
		f.forget(ReasonStarting)
		return f.restart(conn)
	default:
		return err
	}
}

// lags reports whether the publisher may merely be so far ahead that its memory is
// full of messages that still wait in the transport. Then there is no proof, but
// nothing is missing either, and one is due as soon as they have been applied. If
// none came since this was asked last, none is waiting.
func (f *Follower) lags() bool {
	if f.base != nil || f.quiet && f.laggedAt == f.next {
		return false
	}
	f.laggedAt, f.quiet, f.unproven = f.next, false, true
	f.confirmSoon()
	return true
}

// forget drops everything known, at once.
func (f *Follower) forget(why Reason) {
	f.clear(why)
	f.recent.clear()
	f.placed, f.base, f.stray = false, nil, nil
	f.recoverable, f.resumed, f.inherited = true, false, nil
	f.settle()
}

// doubt lowers what is known to a lower bound without forgetting it.
func (f *Follower) doubt(why Reason) {
	f.whole, f.why = false, why
	for _, t := range f.targets {
		t.whole, t.why = false, why
	}
	f.keep()
}

// prove notes that the publisher has just answered in full.
func (f *Follower) prove() {
	f.base, f.unproven, f.failedChecks = nil, false, 0
	f.lostAt = time.Time{}
	f.resumedProven()
	f.keep()
}
