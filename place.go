package kvsteer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Forward is a request without a prompt that a gateway would send to a worker: a path
// that is none of an [API]'s. It is read during [Router.Place] only.
type Forward struct {
	// HTTP is the request. Its method, URL and header are read, and whether it has a
	// body, which is not.
	HTTP *http.Request
	// Body is the body, if the gateway has it: the model that it names narrows the choice.
	Body []byte
	// Among, if not empty, lists the only workers that may serve the request, as in
	// [Request].
	Among []string
	// WorkersOnly keeps the request from external providers, as in [Request].
	WorkersOnly bool
	// Allow says whether such requests are forwarded at all. Nil means [DefaultForward], and
	// what providers have in their Paths.
	Allow func(r *http.Request) bool
	// Describe, if set, is asked about the request, as that of [TransportOptions].
	Describe func(r *http.Request, q *Request)
}

// Placement is a request without a prompt, booked on a worker. Its owner must end it
// with End; it is not released otherwise. It is safe for concurrent use.
type Placement struct {
	router *Router
	keeper *providers.Offer // who has what the path is about
	path   string
	method string
	model  string
	among  []string
	body   []byte     // to send, if the gateway has it
	asked  *Selection // as which the policy is asked
	brings bool       // something that the policy is asked about

	mu      sync.Mutex
	at      place // of rank 0
	booking booking
	target  Target
	tried   []place
	// answered: a worker has; it counts as a request that was served.
	answered, ended, closed bool
}

var errPlacementEnded = errors.New("kvsteer: the Placement has ended")

// Place chooses the least loaded worker for a request without a prompt, of those that
// serve the model that its body names, and books it there. What brings a body goes only
// where the policy lets it. The error is an *Error: [CodeNotForwarded] for a path that is
// not allowed. Place does not block.
func (r *Router) Place(f *Forward) (*Placement, error) {
	p, label, err := r.place(f)
	if err != nil && len(r.opts.hooks.refusal) > 0 {
		model, _ := f.modelIn()
		r.refusal(Refusal{Model: model, TenantLabel: label}, err)
	}
	return p, err
}

// place is Place, and names the sender for metrics as far as it is known.
func (r *Router) place(f *Forward) (_ *Placement, label string, _ error) {
	var keeper *providers.Offer
	if !f.WorkersOnly {
		keeper = r.keeper(f.HTTP.URL.Path)
	}
	switch {
	case !allowed(f.Allow, keeper, f.HTTP):
		return nil, "", notForwarded(f.HTTP.URL.Path, keeper)
	case r.closed.Load():
		return nil, "", &Error{Code: CodeClosed, Message: "the router was closed"}
	default:
	}
	model, known := f.modelIn()
	asked, refused := r.question(f, model)
	if asked != nil && len(r.opts.hooks.refusal) > 0 {
		label = r.opts.label(asked.parsed.hints.tenant)
	}
	if refused == nil {
		refused = unreadable(asked.account.identity, known)
	}
	if refused == nil {
		refused = r.anothers(asked, responseIn(f.HTTP.URL.Path))
	}
	if refused == nil && keeper != nil {
		refused = shares(asked, keeper)
	}
	if refused != nil {
		return nil, label, refused
	}
	body := f.Body
	if keeper == nil {
		if body, refused = r.isolateForward(f, asked); refused != nil {
			return nil, label, refused
		}
		if body, refused = f.unrankForward(body); refused != nil {
			return nil, label, refused
		}
	}
	if refused := r.admitForward(f.HTTP.Context(), asked); refused != nil {
		return nil, label, refused
	}
	p := &Placement{
		router: r, keeper: keeper, path: f.HTTP.URL.Path, method: f.HTTP.Method, body: body, model: model,
		among: slices.Clone(f.Among), asked: asked, brings: f.brings(),
	}
	handed := false
	defer func() {
		if !handed { // a policy may have panicked
			p.release()
			asked.account.give()
		}
	}()
	if refused := p.book(); refused != nil {
		return nil, label, refused
	}
	if p.booking == nil {
		return nil, label, &Error{Code: CodeNoCandidates, Message: "nobody can take the request at the moment", RetryAfter: retrySoon}
	}
	if err := p.enter(); err != nil && r.opts.tenancy.RefuseUnrecorded {
		return nil, label, unrecorded(err)
	}
	handed = true
	return p, label, nil
}

// enter records the request in the ledger, as one of no tokens: who serves it reports none
// that are read. The attempts that it takes are one there.
func (p *Placement) enter() error {
	s := p.asked
	s.attempt.number, s.attempt.target = 1, Target{Worker: p.target.Worker, Provider: p.target.Provider, Model: p.model}
	return p.router.enter(s)
}

// book books the request somewhere; nowhere if p.booking is nil then.
func (p *Placement) book() *Error {
	p.booking = nil
	return p.router.bookFor(p)
}

// take books the request on a member or an offer.
func (p *Placement) take(at place) {
	p.at = place{member: at.member, offer: at.offer}
	if at.offer == nil {
		m := at.member
		p.booking = m.Begin(0, fleet.Work{})
		p.target = Target{Worker: m.Name(), Instance: m.ID(), URL: m.URL()}
		return
	}
	sold := at.offer.Begin(0, 0)
	p.booking, p.target = sale{sold}, targetAt(at.offer, p.model)
	p.target.Via = via(at.offer, providers.Exchange{Asked: p.model, Booking: sold, Scope: p.asked.keyScope()})
}

// Target returns where to send the request. It has no Header.
func (p *Placement) Target() Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.target
	t.Remove = p.router.opts.withheld(p.asked.account.identity)
	return t
}

// Body returns the bytes to send to the Target: those of [Forward], but for what keeps
// tenants apart (see [TenancyOptions]). It must not be modified.
func (p *Placement) Body() []byte {
	p.mu.Lock()
	at := p.at.offer
	p.mu.Unlock()
	if at == nil || at == p.keeper {
		return p.body
	}
	return p.router.opts.tenancy.unsaltedForward(p.body)
}

// Next gives up the worker because of cause, which is reported as in [Selection.Next], and
// books the request on another one, never one that was tried before. The error is a
// [CodeUpstream]: nothing is booked any more. Whether a request may be sent twice is for the gateway to know.
func (p *Placement) Next(cause error) error {
	cause = unquoted(cause)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return unreachable(errPlacementEnded)
	}
	if p.booking != nil {
		p.booking.End()
	}
	if m := p.at.member; m != nil && atFault(context.Background(), cause) {
		m.ReportFailure(cause)
	}
	p.tried = append(p.tried, p.at)
	if len(p.tried) >= p.router.opts.maxAttempts {
		return unreachable(cause)
	}
	if refused := p.book(); refused != nil || p.booking == nil {
		return &Error{Code: CodeUpstream, Message: "no worker could be reached", RetryAfter: retrySoon}
	}
	return nil
}

// Answered says that the worker answered with a status. Bad ones count against its
// health.
func (p *Placement) Answered(status int) {
	p.mu.Lock()
	p.answered = true
	p.mu.Unlock()
	if cause := StatusError(status); atFault(context.Background(), cause) {
		p.blame(cause)
	}
}

func (p *Placement) blame(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.at.member; m != nil {
		m.ReportFailure(err)
	}
}

// End releases the request, however it ended. Further calls do nothing.
func (p *Placement) End() {
	p.mu.Lock()
	p.ended = true
	answered := p.answered
	p.mu.Unlock()
	p.release()
	p.close(answered)
}

// close settles what was reserved and recorded; it counts as a request, of no tokens, if a
// worker has answered.
func (p *Placement) close(answered bool) {
	a := &p.asked.account
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	switch {
	case closed:
		return
	case !answered:
		a.give()
	case a.hold != nil:
		a.hold.Settle(quota.Used{})
	}
	if a.entry.State == "" {
		return
	}
	if !answered {
		p.router.void(a)
		return
	}
	e, by := a.entry, p.Target()
	e.State, e.At, e.Source, e.Worker = ledger.Settled, p.router.opts.now().UTC(), ledger.Estimate, by.Worker
	e.Provider = by.Provider
	_ = p.router.append(&e) // the logger has been told
}

// release ends what is booked now.
func (p *Placement) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.booking != nil {
		p.booking.End()
	}
}

func unreachable(err error) *Error {
	return &Error{Code: CodeUpstream, Message: "the worker could not be reached", Err: err}
}
