package providers

import (
	"sync"
	"time"
)

// Booking is a request that is under way. Its methods are idempotent and safe for
// concurrent use; those of a nil *Booking do nothing.
type Booking struct {
	offer          *Offer
	begun          time.Time
	prompt, output int

	mu       sync.Mutex
	streamed bool // the answer comes token by token
	first    time.Time
	answered bool
	sent     bool // by a RoundTripper, and perhaps seen by the service
	ended    bool

	ages [4]uint32 // of the limits, when it was begun: see state.ages
}

// maxTokens bounds what is booked, so that sums can't overflow.
const maxTokens = 1 << 30

// Begin books a request: it counts as under way until End, and takes from the quota, which
// End gives back if no RoundTripper sent it; negative numbers of tokens count as 0. It doesn't refuse: ask Standing first, and begin
// before the next one asks. A half-open breaker's permission goes with the Booking.
func (o *Offer) Begin(promptTokens, outputTokens int) *Booking {
	b := &Booking{
		offer: o, begun: o.set.clock(),
		prompt: min(max(promptTokens, 0), maxTokens), output: min(max(outputTokens, 0), maxTokens),
	}
	o.state.begin(b)
	return b
}

// FirstToken says that the first token is there. Of an answer that is not streamed, the
// first token comes with the last, and nothing is learned from it here.
func (b *Booking) FirstToken() {
	if b == nil {
		return
	}
	now := b.offer.set.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || !b.first.IsZero() {
		return
	}
	b.first = now
	b.offer.state.firstToken()
	if b.streamed {
		b.offer.state.latency.first(b.prompt, now.Sub(b.begun))
	}
}

// Answered says how many tokens the answer had, once it is whole.
func (b *Booking) Answered(outputTokens int) {
	if b == nil {
		return
	}
	now := b.offer.set.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.answered {
		return
	}
	b.answered = true
	took := now.Sub(b.first)
	if !b.streamed || b.first.IsZero() {
		// What is left when the first token came when it was expected.
		took = now.Sub(b.begun) - b.offer.Expect(b.prompt, 0).TTFT
	}
	b.offer.state.latency.rest(min(outputTokens, maxTokens), took)
}

// End ends the booking, whatever happened: the request is no longer under way, and a
// breaker's permission that it had and did not use is there for another.
func (b *Booking) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	b.offer.state.end(b, b.first.IsZero(), b.sent)
}

// used notes that the service may have seen the request.
func (b *Booking) used() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.sent = true
	b.mu.Unlock()
}

// stream notes that the answer comes token by token.
func (b *Booking) stream() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.streamed = true
	b.mu.Unlock()
}
