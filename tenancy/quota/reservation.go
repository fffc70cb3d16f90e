package quota

import (
	"sync/atomic"
	"time"
)

// maxLevels is how many levels of rules a request may pass.
const maxLevels = 8

// Reservation is what a request has taken. The zero value is ready for
// [Limiter.Reserve]; it may be used again once it is ended, and must not be copied
// while it is not. Settle and Refund may be called at the same time.
type Reservation struct {
	state   atomic.Uint32
	limiter *Limiter
	holds   [maxLevels]*entry
	loans   [maxLevels][numRates]loan
	// spendings are the budgets that holds had, of which costs were reserved: a change of the
	// rules may give them others.
	spendings [maxLevels]*spending
	costs     [maxLevels]amount
	n         int
	takes     takes

	// Guarded by lane.mu.
	lane       *lane
	prev, next *Reservation
	expires    int64
}

// The states of a Reservation.
const (
	idle  uint32 = iota // ready for Reserve
	busy                // being made or ended by whoever set it
	taken               // under way
)

// Settle replaces what was reserved by what was used. It reports whether it did: not
// if the Reservation was ended before.
func (r *Reservation) Settle(u Used) bool {
	if !r.unlink() {
		return false
	}
	t := r.limiter.rules.Load().weights.used(&u)
	r.end(&t, false)
	return true
}

// Refund gives everything back: nothing was served. It reports whether it did: not if
// the Reservation was ended before.
func (r *Reservation) Refund() bool {
	if !r.unlink() {
		return false
	}
	r.end(&takes{}, true)
	return true
}

// unlink takes the Reservation from those that are under way, and reports whether it
// was among them.
func (r *Reservation) unlink() bool {
	if !r.state.CompareAndSwap(taken, busy) {
		return false
	}
	r.lane.remove(r)
	return true
}

// end books what became of a Reservation that its caller has unlinked.
func (r *Reservation) end(used *takes, refund bool) {
	l := r.limiter
	now, wall := l.clock.now()
	var soft []Notice
	for i, e := range r.holds[:r.n] {
		e.mu.Lock()
		for m := range e.rule.rates {
			p := &e.rule.rates[m]
			if !p.limits() {
				continue
			}
			switch lent, took := &r.loans[i][m], used.rates[m]; {
			case took > lent.n:
				e.rates[m].take(p, took-lent.n, now)
			case took < lent.n:
				e.rates[m].put(p, lent.n-took, lent, now)
			default:
			}
		}
		e.running--
		if s := r.spendings[i]; s != nil {
			s.reserved = s.reserved.minus(r.costs[i])
		}
		if s := e.budget; s != nil {
			s.advance(&e.rule.period, wall)
			if s.spend(&e.rule.period, used.of, wall) && l.opts.OnSoft != nil {
				soft = append(soft, e.rule.notice(s, s.spent(), wall))
			}
		}
		e.mu.Unlock()
	}
	l.count(r.lane, &r.takes, used, refund)
	r.n = 0
	clear(r.holds[:])
	clear(r.spendings[:])
	r.state.Store(idle)
	for i := range soft {
		l.opts.OnSoft(&soft[i])
	}
}

// Standing is how a rate stands for whoever has a Reservation.
type Standing struct {
	Rule string
	// Limit is the rate's Burst, Left what may be taken at once, 0 in debt; the bucket is
	// full again after Full if nothing more is taken.
	Limit, Left int64
	Full        time.Duration
}

// Standing returns how the tightest of the rates that count a meter stands, the one of
// which the least is left; ok is false if none does, or the Reservation was ended. It may
// be called while the Reservation is being ended, but not while it is being reserved.
func (r *Reservation) Standing(m Meter) (s Standing, ok bool) {
	if m >= numRates {
		return Standing{}, false
	}
	holds, n := r.held()
	if n == 0 {
		return Standing{}, false
	}
	now, _ := r.limiter.clock.now()
	for _, e := range holds[:n] {
		e.mu.Lock()
		limits, b, rule := e.rule.rates[m].limits(), e.rates[m], e.rule
		e.mu.Unlock()
		if !limits {
			continue
		}
		s, ok = tighter(s, ok, rule.standing(m, &b, now)), true
	}
	return s, ok
}

// held returns a copy of the holds while r is under way, else none: another request may find
// that r has expired, and end it, at any time. Who ends r takes it from its lane first.
func (r *Reservation) held() (holds [maxLevels]*entry, n int) {
	if r.state.Load() != taken {
		return holds, 0
	}
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	if r.state.Load() != taken {
		return holds, 0
	}
	return r.holds, r.n
}

// standing is that of one of the rule's rates.
func (r *rule) standing(m Meter, b *bucket, now int64) Standing {
	p := &r.rates[m]
	return Standing{Rule: r.Name, Limit: p.limit.Burst, Left: max(b.left(p, now), 0), Full: time.Duration(max(b.full-now, 0))}
}

// tighter returns the one of which less is left; a counts only if there is one.
func tighter(a Standing, there bool, b Standing) Standing {
	if there && a.Left <= b.Left {
		return a
	}
	return b
}
