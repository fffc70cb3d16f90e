package providers

import (
	"net/http"
	"net/url"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// Offer is one model at one provider, or, from [Set.ForPath], one provider. Its pointer is
// its identity: an Update keeps the Offers that it doesn't change. It is safe for
// concurrent use, and goes on serving what it was picked for after an Update has dropped it.
type Offer struct {
	id      string
	from    Provider
	model   Model
	url     *url.URL
	labels  map[string]string
	apis    []prompt.API // that it takes natively
	codec   dialect.Service
	target  prompt.API // whose endpoint takes what the codec makes
	prices  *price.Entry
	state   *state
	account *account
	set     *Set
}

// Provider is the provider's name.
func (o *Offer) Provider() string { return o.from.Name }

// Model is what clients call the model; "" for an Offer of a path.
func (o *Offer) Model() string { return o.model.Name }

// Upstream is the provider's name for the model.
func (o *Offer) Upstream() string { return o.model.Upstream }

// Kind is the provider's kind, as its String has it.
func (o *Offer) Kind() string { return o.from.Kind.String() }

// ID is "provider/model@n", with another n for each Offer that a Set ever had.
func (o *Offer) ID() string { return o.id }

// Labels are the provider's and the model's, and must not be modified.
func (o *Offer) Labels() map[string]string { return o.labels }

// URL is the provider's base URL, a copy.
func (o *Offer) URL() *url.URL {
	u := *o.url
	return &u
}

// ContextWindow is what prompt and answer may have together, in tokens; 0: unknown.
func (o *Offer) ContextWindow() int { return o.model.ContextWindow }

// MaxOutput is what the answer may have, in tokens; 0: unknown.
func (o *Offer) MaxOutput() int { return o.model.MaxOutput }

// Standing is how an Offer stands at some time.
type Standing struct {
	// Ready reports whether a request may be sent now. Else Reason says why not, in a fixed
	// phrase but for a number, and RetryAfter when it may be different, 0 if nobody knows.
	Ready      bool
	Reason     string
	RetryAfter time.Duration
	// Remaining is the share that is left of the quota of which least is left, 0 to 1;
	// 1 unless QuotaKnown.
	Remaining  float64
	QuotaKnown bool
	// InFlight requests are under way, Prefilling ones of them without a first token. They
	// are those of all Offers of the model's Upstream at the provider.
	InFlight, Prefilling int
	Breaker              Breaker
}

// Breaker is the state of a circuit breaker.
type Breaker uint8

// The states.
const (
	BreakerClosed   Breaker = iota // requests flow
	BreakerOpen                    // none does, for a while
	BreakerHalfOpen                // one at a time does, to see
)

// String returns the state's name.
func (b Breaker) String() string {
	switch b {
	case BreakerClosed:
		return "closed"
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half-open"
	default:
		return "unknown"
	}
}

// Standing says how the Offer stands. It doesn't allocate.
func (o *Offer) Standing(now time.Time) Standing {
	st := o.state.standing(now)
	if wait := o.account.closed(now); wait > 0 {
		st.deny(whyAuth, max(wait, st.RetryAfter))
	}
	if o.set.closed.Load() {
		st.deny(whyClosed, 0)
	}
	return st
}

// Expectation is what to expect of a request.
type Expectation struct {
	// TTFT is the time to the first token, its median; P90 what nine of ten requests take at most.
	TTFT, P90 time.Duration
	// ITL is the time from one token to the next; E2E that of the whole answer.
	ITL, E2E time.Duration
	// Observations is how many times to the first token that is learned from. The model's
	// Prior weighs as much as a few of them: below 20 it is still to be seen.
	Observations int
}

// Expect says what to expect of a request with so many tokens; outputTokens that nobody
// knows are 0. It takes no lock and doesn't allocate.
func (o *Offer) Expect(promptTokens, outputTokens int) Expectation {
	return o.state.latency.expect(promptTokens, outputTokens)
}

// Cost is what a request costs, in millionths of the currency, rounded up; known is false
// if there is no price.
func (o *Offer) Cost(t *price.Tokens) (cost int64, known bool) {
	if o.prices == nil {
		return 0, false
	}
	return o.prices.Cost(t), true
}

// Exchange is what a RoundTripper must know of a request.
type Exchange struct {
	// API is the client's; 0: the body passes as it is, to the path that the request has.
	API prompt.API
	// Asked is the name that the client asked for the model by; "" is the Offer's Model.
	Asked string
	// Scope is whom the request comes from, where many share the account: an Idempotency-Key
	// is sent as a hash of both, so that no one's requests are taken for another's. "" sends
	// it as it is.
	Scope string
	// Warn is told what of the request the provider doesn't see: where it stands, and a
	// fixed phrase. It may be nil. It is called within RoundTrip.
	Warn func(field, reason string)
	// Booking is that of the request; nil if it was not booked.
	Booking *Booking
}

// RoundTripper returns a transport for one request: it takes the request as the client
// sent it, whatever URL it has but for its path, and returns the answer as the client
// expects it. base sends, and must not follow redirects; nil is a transport of the Set's own.
//
// The deadline is that of the request's context. An answer with a status of 400 or more
// has a Body with a method Failure() *Failure. Errors are *[Error]; with ClassUnsupported
// nothing was sent. What becomes of the request is noted in how the Offer stands.
func (o *Offer) RoundTripper(base http.RoundTripper, x Exchange) http.RoundTripper {
	if base == nil {
		base = o.set.base
	}
	if x.Asked == "" {
		x.Asked = o.model.Name
	}
	return &roundTripper{offer: o, base: base, x: x}
}

// tell reports a change of state, with no lock held.
func (o *Offer) tell(c *change) {
	if c == nil {
		return
	}
	o.set.tell(StateChange{
		Provider: o.from.Name, Model: o.model.Name, Breaker: c.breaker, Reason: c.reason, RetryAfter: c.wait,
	})
}
