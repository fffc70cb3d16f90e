package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"sync/atomic"
)

// session is what Redis knows this process by. What is under way is counted by session,
// and is so no more when the session's lease ends. A session that was lost is not taken up
// again, or what Redis has given up already would count once more.
type session struct {
	id   string
	next atomic.Uint64
	// begun: Redis has it.
	begun atomic.Bool
	// open is how many reservations of it Redis is still to be told the end of. Guarded by
	// the Limiter's mu.
	open int
}

func newSession() *session {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it doesn't fail
	return &session{id: hex.EncodeToString(b[:])}
}

func (s *session) reservation() string { return strconv.FormatUint(s.next.Add(1), 36) }

// lost replaces a session that Redis doesn't have any more.
func (l *Limiter) lost(s *session, why string) {
	if l.session.CompareAndSwap(s, newSession()) {
		l.opts.Logger.Warn("the session in Redis was lost; what was under way counts as estimated", "why", why)
	}
}

// retire replaces a session in which something would be under way for ever: it is kept
// until all else in it has ended. mu is held.
func (l *Limiter) retire(s *session, why string) {
	if l.session.CompareAndSwap(s, newSession()) {
		l.retired = append(l.retired, s)
		l.opts.Logger.Warn("a new session in Redis is begun", "why", why)
	}
}

// sessions are those whose leases are to be renewed.
func (l *Limiter) sessions() []*session {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = slices.DeleteFunc(l.retired, func(s *session) bool { return s.open <= 0 })
	return append([]*session{l.session.Load()}, l.retired...)
}

// renew renews the leases, as only a Redis does that can do its work.
func (l *Limiter) renew(ctx context.Context) {
	for _, s := range l.sessions() {
		if !l.renewOne(ctx, s) {
			return
		}
	}
	l.worked()
}

func (l *Limiter) renewOne(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Deadline)
	defer cancel()
	r, err := l.ask(ctx, l.scripts.renew, l.keysOf(s, "", nil), func(int64) []byte { return append(l.begin(s, ""), '}') })
	switch {
	case err != nil:
		l.failed(err)
		return false
	case r.status == statusLost && s.begun.Load():
		l.lost(s, "its lease has ended")
		l.mu.Lock()
		l.retired = slices.DeleteFunc(l.retired, func(o *session) bool { return o == s })
		l.mu.Unlock()
	default:
	}
	return true
}
