package providers

import (
	"math/bits"
	"time"
)

// breaker is a circuit breaker. It opens after failures; when its time is over, one
// request at a time goes through, and what becomes of it decides. The permission for that
// one is the booking's: it can't be lost, because bookings end.
type breaker struct {
	state Breaker
	until time.Time // open until then
	pause time.Duration
	// history has a bit for each of the last outcomes, set for failures.
	history uint32
	row     int // failures since the last success
	probe   *Booking
	since   time.Time // when it was closed again: what was sent before counts no more
}

const (
	failuresInRow = 5
	window        = 20
	failuresOfAll = window / 2
	firstPause    = 5 * time.Second
	maxPause      = time.Minute
)

// look lets an open breaker become half-open when its time is over.
func (b *breaker) look(now time.Time) {
	if b.state == BreakerOpen && !now.Before(b.until) {
		b.state = BreakerHalfOpen
	}
}

// admits reports whether a request may be sent.
func (b *breaker) admits() bool {
	return b.state == BreakerClosed || b.state == BreakerHalfOpen && b.probe == nil
}

// begin gives the permission of a half-open breaker to a booking, if it is there.
func (b *breaker) begin(k *Booking) {
	if b.state == BreakerHalfOpen && b.probe == nil {
		b.probe = k
	}
}

// end takes it back.
func (b *breaker) end(k *Booking) {
	if b.probe == k {
		b.probe = nil
	}
}

// good notes a request that the service served. Only the probe closes the breaker: who was
// sent before it opened says nothing of now. k is nil for a request that was not booked.
func (b *breaker) good(k *Booking, now time.Time) (changed bool) {
	switch b.state {
	case BreakerClosed:
		b.history, b.row = b.history<<1&(1<<window-1), 0
		return false
	case BreakerHalfOpen:
		if k != nil && b.probe != k {
			return false
		}
		*b = breaker{since: now}
		return true
	case BreakerOpen:
		return false
	default:
		return false
	}
}

// bad notes one that it failed. jitter is 0 to 1.
func (b *breaker) bad(k *Booking, now time.Time, jitter float64) (changed bool) {
	switch b.state {
	case BreakerClosed:
		if k != nil && k.begun.Before(b.since) {
			return false
		}
		b.history = (b.history<<1 | 1) & (1<<window - 1)
		b.row++
		if b.row < failuresInRow && bits.OnesCount32(b.history) < failuresOfAll {
			return false
		}
		b.open(now, firstPause, jitter)
		return true
	case BreakerHalfOpen:
		if k != nil && b.probe != k {
			return false
		}
		b.open(now, min(2*b.pause, maxPause), jitter)
		return true
	case BreakerOpen:
		return false
	default:
		return false
	}
}

// open opens it for the pause and up to a fifth more, so that many gateways don't probe at once.
func (b *breaker) open(now time.Time, pause time.Duration, jitter float64) {
	*b = breaker{state: BreakerOpen, pause: pause, until: now.Add(pause + time.Duration(jitter*float64(pause)/5)), probe: b.probe}
}
