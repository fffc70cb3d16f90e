package redis

import (
	"crypto/rand"
	"encoding/hex"
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
}

func newSession() *session {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it doesn't fail
	return &session{id: hex.EncodeToString(b[:])}
}

func (s *session) reservation() string { return strconv.FormatUint(s.next.Add(1), 36) }

// lost replaces a session that Redis doesn't have any more, or that can't be kept.
func (l *Limiter) lost(s *session, why string) {
	if l.session.CompareAndSwap(s, newSession()) {
		l.opts.Logger.Warn("the session in Redis has ended; what was under way counts as estimated", "why", why)
	}
}
