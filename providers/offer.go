package providers

import (
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// Offer is one model at one provider, or, from [Set.ForPath], one provider. Its pointer is
// its identity: an Update keeps the Offers that it doesn't change. It is safe for
// concurrent use, and goes on serving what it was picked for after an Update has dropped it.
type Offer struct {
	id     string
	from   Provider
	model  Model
	url    *url.URL
	labels map[string]string
}

// Provider is the provider's name.
func (o *Offer) Provider() string { return o.from.Name }

// Model is what clients call the model; "" for an Offer of a path.
func (o *Offer) Model() string { return o.model.Name }

// Upstream is the provider's name for the model.
func (o *Offer) Upstream() string { return o.model.Upstream }

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

// Takes reports whether a request can be served: its API, natively or by translation, and
// what its body needs of the model. why is a fixed phrase.
func (o *Offer) Takes(api prompt.API, body jsonscan.Object) (ok bool, why string) {
	return false, notWritten
}

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
	// InFlight requests are under way, Prefilling ones of them without a first token.
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

// Standing says how the Offer stands.
func (o *Offer) Standing(now time.Time) Standing { return Standing{Reason: notWritten} }

// Expectation is what to expect of a request.
type Expectation struct {
	// TTFT is the time to the first token, its median; P90 what nine of ten requests take at most.
	TTFT, P90 time.Duration
	// ITL is the time from one token to the next; E2E that of the whole answer.
	ITL, E2E time.Duration
	// Observations is how many requests that is learned from; 0: it is a prior.
	Observations int
}

// Expect says what to expect of a request with so many tokens; outputTokens that nobody
// knows are 0.
func (o *Offer) Expect(promptTokens, outputTokens int) Expectation { return Expectation{} }

// Cost is what a request costs, in millionths of the currency, rounded up; known is false
// if there is no price.
func (o *Offer) Cost(t *price.Tokens) (cost int64, known bool) { return 0, false }

// Begin books a request: it counts as under way, and takes from the quota, until End. It
// doesn't refuse: ask Standing first, and begin before the next one asks. A half-open
// breaker's permission goes with the Booking.
func (o *Offer) Begin(promptTokens, outputTokens int) *Booking { return &Booking{} }

// Booking is a request that is under way. Its methods are idempotent and safe for
// concurrent use; those of a nil *Booking do nothing.
type Booking struct{}

// FirstToken says that the first token is there.
func (b *Booking) FirstToken() {}

// Answered says how many tokens the answer had, once it is whole.
func (b *Booking) Answered(outputTokens int) {}

// End ends the booking, whatever happened.
func (b *Booking) End() {}

// Exchange is what a RoundTripper must know of a request.
type Exchange struct {
	// API is the client's; 0: the body passes as it is, to the path that the request has.
	API prompt.API
	// Asked is the name that the client asked for the model by; "" is the Offer's Model.
	Asked string
	// Warn is told what of the request the provider doesn't see, by translation: where it
	// stands and a fixed phrase. It may be nil. It is called by RoundTrip.
	Warn func(field, reason string)
	// Booking is that of the request; nil if it was not booked.
	Booking *Booking
}

// RoundTripper returns a transport for one request, or several of the same kind one after
// the other: it takes the request as the client sent it, whatever URL it has but for its
// path, and returns the answer as the client expects it. base sends, and must not follow
// redirects; nil is http.DefaultTransport.
//
// An answer with a status of 400 or more has a Body with a method Failure() *Failure.
// Errors are *Error; with ClassUnsupported nothing was sent.
func (o *Offer) RoundTripper(base http.RoundTripper, x Exchange) http.RoundTripper {
	return unwritten{o}
}

type unwritten struct{ o *Offer }

func (u unwritten) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &Error{Provider: u.o.Provider(), Model: u.o.Model(), Class: ClassServer, Message: notWritten}
}

const notWritten = "not written yet"

// merged returns both, the second counting more.
func merged(a, b map[string]string) map[string]string {
	m := make(map[string]string, len(a)+len(b))
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}
