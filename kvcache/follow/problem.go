package follow

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

const (
	// warnAgainAfter is how soon a problem that was solved and came back is worth
	// another warning.
	warnAgainAfter = time.Minute
	// maxWarned bounds the problems that are remembered as warned of, for
	// transports whose errors never read the same twice.
	maxWarned = 16
)

// problems keeps what there is to say about the endpoint's addresses. It belongs
// to run's goroutine.
type problems struct {
	// replay is why the latest replay brought nothing, "" if it was answered.
	replay string
	// warned has when each text was logged, solved is when there last was no
	// problem.
	warned map[string]time.Time
	solved time.Time
}

// Problem says in one line what is wrong with the endpoint's addresses, "" if
// nothing is known to be: "event stream not connected (tcp://10.0.0.7:5557):
// connection refused". It has no secrets in it. Each problem is also logged once,
// as a warning. It is safe for concurrent use and takes no lock.
func (f *Follower) Problem() string {
	if p := f.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// report brings Problem up to date and warns of what is new.
func (f *Follower) report() {
	what, address, cause := f.trouble()
	text := ""
	if what != "" {
		text = fmt.Sprintf("%s (%s): %s", what, address, cause)
	}
	if text == f.Problem() {
		return
	}
	f.problem.Store(&text)
	now := time.Now()
	if text == "" {
		f.problems.solved = now
		return
	}
	last, known := f.problems.warned[text]
	if known && (!last.Before(f.problems.solved) || now.Sub(last) < warnAgainAfter) {
		return
	}
	if !known && len(f.problems.warned) >= maxWarned {
		if f.problems.solved.IsZero() || now.Sub(f.problems.solved) < warnAgainAfter {
			return
		}
		clear(f.problems.warned)
	}
	if f.problems.warned == nil {
		f.problems.warned = make(map[string]time.Time)
	}
	f.problems.warned[text] = now
	f.log(slog.LevelWarn, what, slog.Int("rank", f.cfg.Endpoint.Rank),
		slog.String("address", address), slog.String("error", cause))
}

// trouble finds the first thing that is wrong, from which others may follow.
func (f *Follower) trouble() (what, address, cause string) {
	switch {
	case f.ctx.Err() != nil:
		return "", "", ""
	case !f.up && f.fault != nil:
		return "event stream not connected", f.cfg.Endpoint.Events, f.fault.Error()
	case f.problems.replay != "" && !f.exact():
		return "replay unanswered", f.cfg.Endpoint.Replay, f.problems.replay
	default:
		return "", "", ""
	}
}

// exact reports whether all owners are: then one replay that goes unanswered is
// that of an engine within a long step, not a problem.
func (f *Follower) exact() bool {
	for _, t := range f.targets {
		if t.trust != kvcache.Exact {
			return false
		}
	}
	return true
}

// whyUnanswered says why a replay failed with err, without the parts that Problem
// has already.
func (f *Follower) whyUnanswered(err error) string {
	text := strings.Replace(err.Error(), ErrDisconnected.Error(), "connection lost", 1)
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if text == ended.Error() {
			return fmt.Sprintf("no answer within %v", f.cfg.ReplayTimeout)
		}
		text = strings.TrimPrefix(text, ended.Error()+": ")
	}
	return strings.TrimPrefix(text, "not connected to "+f.cfg.Endpoint.Replay+": ")
}
