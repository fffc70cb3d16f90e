package follow

import (
	"errors"
	"log/slog"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// place finds a live message's place in the numbering and applies it when its
// turn has come. A replay is asked for at most once per message.
func (f *Follower) place(conn Conn, m Message) error {
	asked, answered := false, false
	for {
		if planted.GapUnnoticed && f.placed && m.Seq > f.next {
			f.next = m.Seq
		}
		if f.placed && m.Seq > f.next && !asked {
			f.gap(m)
		}
		mayAsk := !asked && f.mayReplay()
		how := f.catchUp
		switch {
		case !f.placed && !mayAsk:
			f.join(m)
			return nil
		case !f.placed:
			how = f.restart
		case m.Seq == f.next && f.resumed && mayAsk:
			// It fits, but so may that of another publisher.
		case m.Seq == f.next:
			f.accept(m)
			return nil
		case m.Seq < f.next && f.repeated(m):
			return nil
		case m.Seq < f.next && !mayAsk:
			f.odd(m, answered)
			return nil
		case m.Seq > f.next && !mayAsk:
			f.skipTo(m, answered)
			return nil
		default:
		}
		err := how(conn)
		asked, answered = true, err == nil
		if err != nil && !errors.Is(err, errUnanswered) {
			return err
		}
	}
}

// join takes the first message that there is for the start of what is known.
func (f *Follower) join(m Message) {
	why := ReasonNoReplay
	if f.cfg.Endpoint.Replay != "" {
		why = ReasonUnanswered
	}
	f.begin(m.Seq, why)
	if m.Seq == 0 {
		f.hollow = false // another publisher, perhaps with a memory
	}
	f.recoverable = why == ReasonUnanswered && m.Seq > 0
	f.accept(m)
}

// gap notes that messages before m have not come.
func (f *Follower) gap(m Message) {
	f.count(func(s *Stats) { s.Gaps++; s.Missing += m.Seq - f.next })
	f.log(slog.LevelDebug, "gap in the event stream", slog.Uint64("from", f.next), slog.Uint64("to", m.Seq-1))
	f.busy = ReasonGap
	f.settle()
}

// skipTo goes on at m without what came before it.
func (f *Follower) skipTo(m Message, answered bool) {
	why := ReasonLost
	if !answered && f.cfg.Endpoint.Replay != "" {
		why = ReasonUnanswered
	}
	f.lose(m.Seq, why)
	f.recoverable = why == ReasonUnanswered
	f.accept(m)
}

// repeated reports whether m has been applied already.
func (f *Follower) repeated(m Message) bool {
	h, known := f.recent.hash(m.Seq)
	switch {
	case known && h == markOf(m).hash:
	case !known && f.stray != nil && m.Seq == *f.stray+1:
		f.stray = &m.Seq
	default:
		return false
	}
	f.count(func(s *Stats) { s.Duplicates++ })
	return true
}

// odd deals with a message that has an old number and yet is not known.
func (f *Follower) odd(m Message, answered bool) {
	_, known := f.recent.hash(m.Seq)
	switch {
	case answered && !known:
		// The publisher numbers as before, so this is an old message.
		f.stray = &m.Seq
		f.count(func(s *Stats) { s.Duplicates++ })
	case answered:
		f.count(func(s *Stats) { s.Conflicts++ })
		f.log(slog.LevelWarn, "two messages have one number; is there one publisher per address?", slog.Uint64("seq", m.Seq))
		f.doubt(ReasonConflict)
		f.recoverable = true // it may have been the rest of a broken connection
		// Every message of the other publisher would ask again.
		f.askAgain = time.Now().Add(f.cfg.CheckEvery)
	default:
		// The numbers fell: the publisher restarted.
		f.count(func(s *Stats) { s.Restarts++ })
		f.log(slog.LevelWarn, "publisher restarted", slog.Uint64("seq", m.Seq))
		f.join(m)
	}
}
