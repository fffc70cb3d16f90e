package quota

import (
	"maps"
	"sync"
	"sync/atomic"
)

// lane is a part of the Reservations that are under way, in the order in which they
// expire, and what has become of those that ended.
type lane struct {
	mu    sync.Mutex
	first *Reservation
	last  *Reservation

	reserved, settled, refunded [numRates]atomic.Int64
	expired                     atomic.Int64
}

// add links r, which is ready but for that.
func (q *lane) add(r *Reservation, expires int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.expires = expires
	r.prev, r.next = q.last, nil
	if q.last == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	for m := range r.takes.rates {
		q.reserved[m].Add(r.takes.rates[m])
	}
	r.state.Store(taken)
}

func (q *lane) remove(r *Reservation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.prev == nil {
		q.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// oldest returns the first that has expired, marked as busy; nil if there is none.
func (q *lane) oldest(now int64) *Reservation {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := q.first; r != nil && r.expires <= now; r = r.next {
		if r.state.CompareAndSwap(taken, busy) {
			return r
		} // else it is being ended, and waits for the lock to be removed
	}
	return nil
}

// expire settles what has been under way for too long, with its estimate.
func (l *Limiter) expire(q *lane, now int64) {
	for r := q.oldest(now); r != nil; r = q.oldest(now) {
		q.remove(r)
		q.expired.Add(1)
		t := r.takes
		r.end(&t, false)
	}
}

// count books what a Reservation came to.
func (l *Limiter) count(q *lane, reserved, used *takes, refund bool) {
	for m := range reserved.rates {
		if refund {
			q.refunded[m].Add(reserved.rates[m])
			continue
		}
		q.settled[m].Add(used.rates[m])
		// What was used beyond the estimate is reserved with hindsight, so that the sum
		// holds; what was not is refunded.
		if more := used.rates[m] - reserved.rates[m]; more > 0 {
			q.reserved[m].Add(more)
		} else {
			q.refunded[m].Add(-more)
		}
	}
}

// Totals are sums over all requests since the Limiter was made, by meter: Reserved is
// always Settled plus Refunded plus what is under way. They are for metrics and tests;
// each number is read by itself, so that they fit only while nothing happens.
type Totals struct {
	Reserved, Settled, Refunded [numRates]int64
	// Running is how many requests are under way, Expired how many were so for longer
	// than MaxAge, Buckets how many are remembered.
	Running, Expired, Buckets int
}

// Totals returns the sums.
func (l *Limiter) Totals() Totals {
	var t Totals
	for i := range l.lanes {
		q := &l.lanes[i]
		for m := range t.Reserved {
			t.Reserved[m] += q.reserved[m].Load()
			t.Settled[m] += q.settled[m].Load()
			t.Refunded[m] += q.refunded[m].Load()
		}
		t.Expired += int(q.expired.Load())
		q.mu.Lock()
		for r := q.first; r != nil; r = r.next {
			t.Running++
		}
		q.mu.Unlock()
	}
	for i := range l.shards {
		l.shards[i].mu.RLock()
		t.Buckets += len(l.shards[i].entries)
		l.shards[i].mu.RUnlock()
	}
	return t
}

// Sweep settles what has expired and forgets every bucket that is full and unused.
// Reserve does some of it each time; call it where requests may stop coming.
func (l *Limiter) Sweep() {
	now, _ := l.clock.now()
	for i := range l.lanes {
		l.expire(&l.lanes[i], now)
	}
	for i := range l.shards {
		l.forget(&l.shards[i], 0, now)
	}
}

// forget forgets buckets that are as good as new, looking at most at so many, 0 for
// all: which ones is by chance.
func (l *Limiter) forget(s *shard, most int, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := 0
	for key, e := range s.entries {
		if seen++; most > 0 && seen > most {
			break
		}
		e.mu.Lock()
		if e.unused(l, now) {
			e.running = forgotten
			delete(s.entries, key)
		}
		e.mu.Unlock()
	}
	// A map keeps the room of all it ever held.
	const slack = 4
	if n := len(s.entries); s.peak > 1<<10 && n < s.peak/slack {
		next := make(map[string]*entry, n)
		maps.Copy(next, s.entries)
		s.entries, s.peak = next, n
	}
}
