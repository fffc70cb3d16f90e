package providers

import (
	"math/rand/v2"
	"sync"
	"time"
)

// state is what is learned of a model at a provider. It outlives Offers.
type state struct {
	latency *latency

	mu       sync.Mutex
	inFlight int
	waiting  int // of them, for their first token
	gate     gate
	breaker  breaker
	quota    Quota
	// ages count how often each limit was told anew or was full again: what was booked
	// before is not part of it.
	ages [4]uint32
	// cool is until when no request is sent, and why; refusals counts those since the last
	// success that didn't say for how long.
	cool     time.Time
	why      string
	refusals int
	// denials counts the requests in a row that the account was not allowed (403).
	denials int
}

// jitter is 0 to 1.
func jitter() float64 { return rand.Float64() } //nolint:gosec // to spread, not to hide

// The reasons that a Standing gives.
const (
	whyClosed  = "the providers are closed"
	whyAuth    = "the provider refuses the gateway's credentials"
	whyRate    = "cooling down after a rate limit"
	whyQuota   = "the account's quota is used up"
	whyLoad    = "cooling down after an overload"
	whyDenied  = "the provider forbids the gateway this model"
	whyAsked   = "cooling down, as the provider asked"
	whyBreaker = "circuit breaker open after failures"
	whyProbe   = "circuit breaker half-open, its probe is under way"
	whyNothing = "nothing is left of its rate limit"
	whyServes  = "serves again"
)

const (
	firstCool = time.Second
	maxCool   = time.Minute
	// quotaCool is how long an account without money is left alone.
	quotaCool = 10 * time.Minute
	// deniedInRow requests that were not allowed, with none served between them, close a
	// model for deniedCool: so short, because clients can bring it about.
	deniedInRow = 5
	deniedCool  = 5 * time.Second
)

func newState(m *Model, most int) *state {
	return &state{latency: newLatency(m.Prior), gate: newGate(most)}
}

// standing is the Standing but for the account's part.
func (s *state) standing(now time.Time) Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaker.look(now)
	st := Standing{Ready: true, Remaining: 1, InFlight: s.inFlight, Prefilling: s.waiting, Breaker: s.breaker.state}
	left := s.left(now, &st)
	switch {
	case now.Before(s.cool):
		st.deny(s.why, s.cool.Sub(now))
	case s.breaker.state == BreakerOpen:
		st.deny(whyBreaker, s.breaker.until.Sub(now))
	case !s.breaker.admits():
		st.deny(whyProbe, 0)
	case left > 0:
		st.deny(whyNothing, left)
	case s.inFlight >= s.gate.limit:
		st.deny(s.gate.reason, 0)
	default:
	}
	return st
}

func (st *Standing) deny(why string, wait time.Duration) {
	st.Ready, st.Reason, st.RetryAfter = false, why, wait
}

func (q *Quota) limits() [4]*Limit {
	return [4]*Limit{&q.Requests, &q.Tokens, &q.InputTokens, &q.OutputTokens}
}

// left fills in what is left of the quota, and returns how long there is nothing.
func (s *state) left(now time.Time, st *Standing) (wait time.Duration) {
	for i, l := range s.quota.limits() {
		if !l.Known {
			continue
		}
		if !now.Before(l.Reset) {
			// All of it is there again. Of a limit of unknown height nothing is known then.
			if l.Remaining != l.Limit {
				s.ages[i]++
			}
			l.Remaining, l.Known = l.Limit, l.Limit > 0
		}
		if !l.Known {
			continue
		}
		if l.Remaining <= 0 {
			wait = max(wait, l.Reset.Sub(now))
		}
		if l.Limit > 0 {
			st.QuotaKnown = true
			st.Remaining = min(st.Remaining, max(float64(l.Remaining), 0)/float64(l.Limit))
		}
	}
	return wait
}

func (s *state) begin(b *Booking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaker.look(b.begun)
	s.inFlight++
	s.waiting++
	s.breaker.begin(b)
	b.ages = s.ages
	for i, n := range b.takes() {
		if l := s.quota.limits()[i]; l.Known {
			l.Remaining -= n
		}
	}
}

// takes is what a booking takes of each limit.
func (b *Booking) takes() [4]int64 {
	return [4]int64{1, int64(b.prompt) + int64(b.output), int64(b.prompt), int64(b.output)}
}

// told takes in what an answer's headers say of the quota.
func (s *state) told(q *Quota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.quota.limits()
	for i, l := range q.limits() {
		if l.Known {
			*now[i] = *l
			s.ages[i]++
		}
	}
}

// change is what happened to a state that somebody may want to know; nil for nothing.
type change struct {
	breaker Breaker
	reason  string
	wait    time.Duration
}

// taken notes that the service took a request: its headers are there, and say yes.
func (s *state) taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate.taken(s.inFlight)
}

// good notes that a request is being served.
func (s *state) good(b *Booking, now time.Time) *change {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denials = 0
	again := s.breaker.good(b, now)
	// What was sent before the service refused others says nothing of what it does now.
	if s.why != "" && !now.Before(s.cool) && (b == nil || !b.begun.Before(s.cool)) {
		s.why, s.refusals, again = "", 0, true
	}
	if !again || s.breaker.state != BreakerClosed {
		return nil
	}
	return &change{breaker: BreakerClosed, reason: whyServes}
}

// bad notes that a request failed. wait is what the service said, told whether it did.
func (s *state) bad(b *Booking, c Class, wait time.Duration, told bool, now time.Time) (time.Duration, *change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaker.look(now)
	begun := now
	if b != nil {
		begun = b.begun
	}
	switch c {
	case ClassRateLimited:
		news := s.gate.refused(begun, now, s.inFlight)
		return s.pause(whyRate, wait, told, news, now)
	case ClassQuota:
		return s.pause(whyQuota, quotaCool, true, true, now)
	case ClassOverloaded:
		return s.failed(b, whyLoad, wait, told, now)
	case ClassConnect, ClassTimeout, ClassServer:
		return s.failed(b, whyAsked, wait, told, now)
	case ClassAuth: // a request that the account is not allowed
		if s.denials++; s.denials < deniedInRow {
			return 0, nil
		}
		s.denials = 0
		return s.pause(whyDenied, deniedCool, true, true, now)
	default: // the request's own fault: the service works
		s.breaker.good(b, now)
		return 0, nil
	}
}

// failed counts a failure for the breaker, and does what the service asked for.
func (s *state) failed(b *Booking, why string, wait time.Duration, told bool, now time.Time) (d time.Duration, ch *change) {
	opened := s.breaker.bad(b, now, jitter())
	if told {
		d, ch = s.pause(why, wait, true, true, now)
	}
	if opened {
		d = max(d, s.breaker.until.Sub(now))
		ch = &change{breaker: BreakerOpen, reason: whyBreaker, wait: d}
	}
	return d, ch
}

// pause lets no request through for a while. news is whether this refusal is the first of
// those that were sent before anybody could know.
func (s *state) pause(why string, wait time.Duration, told, news bool, now time.Time) (time.Duration, *change) {
	if !told {
		if news {
			s.refusals++
		}
		wait = min(firstCool<<min(max(s.refusals-1, 0), 6), maxCool)
		wait += time.Duration(jitter() * float64(wait) / 5)
		if !news && now.Before(s.cool) {
			return s.cool.Sub(now), nil
		}
	}
	wait = clampRetry(wait)
	was := now.Before(s.cool)
	if until := now.Add(wait); until.After(s.cool) {
		s.cool, s.why = until, why
	}
	if was {
		return s.cool.Sub(now), nil
	}
	return wait, &change{breaker: s.breaker.state, reason: why, wait: wait}
}

func (s *state) firstToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
}

func (s *state) end(b *Booking, waits, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sent {
		for i, n := range b.takes() {
			if l := s.quota.limits()[i]; l.Known && s.ages[i] == b.ages[i] {
				l.Remaining += n
			}
		}
	}
	s.inFlight--
	if waits {
		s.waiting--
	}
	s.breaker.end(b)
}
