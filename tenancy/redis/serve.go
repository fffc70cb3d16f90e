package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// start makes h a reservation that is under way; not after Close.
func (l *Limiter) start(h *hold) bool {
	h.session = l.session.Load()
	h.id = h.session.reservation()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	h.session.open++
	h.expires = time.Now().Add(l.opts.Rules.MaxAge)
	h.place = l.running.PushBack(h)
	return true
}

// drop forgets a reservation that Redis does not have.
func (l *Limiter) drop(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.place != nil {
		l.running.Remove(h.place)
		h.place = nil
		h.session.open--
	}
}

// forget gives back what Redis may have taken or not.
func (l *Limiter) forget(h *hold) { l.end(h, quota.Amounts{}, true) }

// end sees to it that Redis is told, and reports whether it does: once.
func (l *Limiter) end(h *hold, used quota.Amounts, cancel bool) bool {
	if h.id == "" {
		return h.nothing.first()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endLocked(h, used, cancel)
}

func (l *Limiter) endLocked(h *hold, used quota.Amounts, cancel bool) bool {
	if h.place == nil {
		return false
	}
	l.running.Remove(h.place)
	h.place, h.used, h.cancel = nil, used, cancel
	switch {
	case l.closed:
		h.session.open--
		l.counts.dropped.Add(1)
		return false
	case len(l.ended) >= l.opts.Backlog:
		// What is not told would be under way as long as the session is.
		h.session.open--
		l.counts.dropped.Add(1)
		l.retire(h.session, "more ends wait for Redis than Options.Backlog")
		return true
	}
	l.ended = append(l.ended, h)
	l.nudge()
	return true
}

func (l *Limiter) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// serve tells Redis what has ended, renews the session and, while Redis is down, looks
// whether it is back.
func (l *Limiter) serve(ctx context.Context) {
	defer close(l.done)
	lease := time.NewTicker(l.opts.Lease / 3)
	defer lease.Stop()
	look := time.NewTicker(l.opts.Retry)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-lease.C:
			l.renew(ctx)
		case <-look.C:
			l.expire(time.Now())
			if l.health.down() != nil {
				l.renew(ctx)
			}
		}
		// One batch a turn: there may be more for as long as requests come, and the lease
		// must not wait for the last.
		if l.health.down() == nil && l.flush(ctx) {
			l.nudge()
		}
	}
}

// expire ends what has been under way for too long.
func (l *Limiter) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.running.Front(); e != nil; e = l.running.Front() {
		h, ok := e.Value.(*hold)
		if !ok || h.expires.After(now) {
			return
		}
		l.counts.expired.Add(1)
		h.overdue = true
		l.endLocked(h, h.takes, false)
	}
}

// batch is how many ends are told at a time.
const batch = 64

// flush tells Redis of some ends, and reports whether more can be told now.
func (l *Limiter) flush(ctx context.Context) bool {
	l.mu.Lock()
	n := min(len(l.ended), batch)
	ends := make([]*hold, n)
	copy(ends, l.ended)
	l.ended = append(l.ended[:0], l.ended[n:]...)
	l.sending = n
	l.mu.Unlock()
	if n == 0 {
		return false
	}
	left, err := l.send(ctx, ends)
	l.mu.Lock()
	l.sending = 0
	for _, h := range ends {
		h.session.open--
	}
	for _, h := range left {
		h.session.open++
	}
	l.ended = append(left, l.ended...)
	l.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			l.failed(err)
		}
		return false
	}
	l.worked()
	return true
}

// send returns what is to be told again, and why at once is too soon.
func (l *Limiter) send(ctx context.Context, ends []*hold) (left []*hold, err error) {
	// More than a request waits: it is many, and nobody waits for them.
	const patient = 4
	ctx, cancel := context.WithTimeout(ctx, patient*l.opts.Deadline)
	defer cancel()
	p := l.opts.Client.Pipeline()
	cmds := make([]*goredis.Cmd, len(ends))
	now := l.time.now()
	for i, h := range ends {
		cmds[i] = l.scripts.finish.EvalSha(ctx, p, l.keysOf(h.session, h.id, h.bucketKeys), l.finishRequest(h, now))
	}
	_, missed := p.Exec(ctx)
	for i, h := range ends {
		v, failed := cmds[i].Result()
		if failed == nil && v == nil { // those that were not sent have no error of their own
			failed = cmp.Or(missed, errReply)
		}
		if failed != nil && strings.HasPrefix(failed.Error(), "NOSCRIPT") {
			v, failed = l.scripts.finish.Eval(ctx, l.opts.Client, l.keysOf(h.session, h.id, h.bucketKeys), l.finishRequest(h, now)).Result()
		}
		again, why := l.told(h, v, failed)
		if again {
			left = append(left, h)
		}
		if why != nil {
			err = why
		}
	}
	return left, err
}

// told takes in what Redis said to the end of h, and reports whether it must be told
// again.
func (l *Limiter) told(h *hold, v any, err error) (again bool, why error) {
	const tries = 3
	var r reply
	if err == nil {
		r, err = parse(v)
	}
	switch {
	case err == nil:
	case transient(err):
		return true, err
	default:
		return l.unbookable(h, err), nil
	}
	l.time.is(r.now)
	switch r.status {
	case statusStale:
		if h.attempts++; h.attempts < tries {
			return true, nil
		}
		return l.unbookable(h, errors.New("its clock runs away")), nil
	case statusLost:
		if !h.cancel {
			if !h.overdue {
				l.counts.expired.Add(1)
			}
			l.lost(h.session, "its lease has ended")
		}
	case statusYes:
		l.soft(h, r)
	default: // it has been told before
	}
	return false, nil
}

func (l *Limiter) unbookable(h *hold, err error) bool {
	l.counts.failed.Add(1)
	l.opts.Logger.Error("an end of a request can't be booked in Redis; it counts as estimated", "error", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retire(h.session, "an end could not be booked")
	return false
}

// soft tells of the buckets that have reached their soft limits, which the reply holds.
func (l *Limiter) soft(h *hold, r reply) {
	for _, v := range r.rest {
		n, err := numbers(v)
		if err != nil || len(n) == 0 {
			continue
		}
		at := int(n[len(n)-1]) - 1
		if at < 0 || at >= len(h.buckets) {
			continue
		}
		s, _, err := state(n[:len(n)-1], h.buckets[at])
		if err != nil {
			continue
		}
		l.tell(h, h.buckets[at:at+1], []quota.State{s}, []bool{true}, fromMicros(r.now))
	}
}

// Close tells Redis what has ended, until ctx does, and ends the session: whatever is
// still under way counts as estimated. The error says how many ends Redis was not told.
// Requests should have ended before. The Client may be closed after it.
func (l *Limiter) Close(ctx context.Context) error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		<-l.done
		return nil
	}
	l.stop()
	<-l.done
	var err error
	for ctx.Err() == nil {
		if l.flush(ctx) {
			continue
		}
		if l.waiting() == 0 {
			err = l.leave(ctx)
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(l.opts.Retry):
		}
	}
	if n := l.waiting(); n > 0 {
		l.counts.dropped.Add(uint64(n))
		return fmt.Errorf("quota/redis: %d ends of requests were not told to Redis; they count as estimated when the lease ends", n)
	}
	return err
}

func (l *Limiter) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ended)
}

// leave ends the session.
func (l *Limiter) leave(ctx context.Context) error {
	s := l.session.Load()
	if !s.begun.Load() {
		return nil
	}
	_, err := l.ask(ctx, l.scripts.renew, l.keysOf(s, "", nil), func(int64) []byte {
		return append(l.begin(s, ""), `,"cancel":true}`...)
	})
	if err != nil {
		return fmt.Errorf("quota/redis: the session was not ended: %w; Redis ends it when its lease does", err)
	}
	return nil
}
