package kvsteer

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// account is what a request owes and to whom. Without WithTenancy it stays empty.
type account struct {
	identity *tenancy.Identity
	label    string // of the tenant, in metrics
	demand   quota.Demand
	answers  int64
	hold     quota.Hold // nil if nothing limits it
	unpriced string     // where the model has no price, "" if it has one wherever it may go
	header   rateHeader // of the answer
	// entry is the record of the current attempt, its State empty before the first. It is
	// the owner's of the Selection until that ends, under its mutex.
	entry ledger.Record
	// Under the Selection's mutex: chunks are the parts with content that a stream had; sent
	// says that a worker has been sent the request, begun that it has begun to answer.
	chunks      int
	sent, begun bool
	left        bool // its sender has gone away: who pays goes by it
	departed    bool // it has, while the answer was read
}

// admit reserves what the request is expected to use.
func (r *Router) admit(ctx context.Context, s *Selection) *Error {
	t := r.opts.tenancy
	if t == nil {
		return nil
	}
	a := &s.account
	w := wishOf(&s.parsed)
	a.demandOf(&s.parsed)
	a.answers = w.answers
	a.demand.Input = int64(s.main().enc.Count)
	a.demand.Output = w.expected(s.parsed.api, t.Outputs, a.demand.Tenant, a.demand.Model)
	a.demand.Cost, a.unpriced = r.expectedCost(s)
	if a.unpriced != "" {
		r.warn("a model has no price, so that it counts as free", errors.New(quote(s.main().model)+": "+a.unpriced))
	}
	return r.reserve(ctx, a)
}

// admitForward reserves a request that no prompt routes: it counts as one, of no tokens.
func (r *Router) admitForward(ctx context.Context, s *Selection) *Error {
	if r.opts.tenancy == nil {
		return nil
	}
	s.account.demandOf(&s.parsed)
	return r.reserve(ctx, &s.account)
}

// demandOf says whose request it is.
func (a *account) demandOf(p *parsed) {
	id := a.identity
	a.demand = quota.Demand{
		Org: id.Org, Team: id.Team, Tenant: p.hints.tenant, Key: id.Key, Model: p.model, Class: p.hints.qos,
	}
}

// reserve takes a's demand from the limits.
func (r *Router) reserve(ctx context.Context, a *account) *Error {
	limits := r.opts.tenancy.Limits
	if limits == nil {
		return nil
	}
	hold, err := limits.Admit(ctx, &a.demand)
	var no *quota.Error
	switch {
	case err == nil:
		if a.hold = hold; hold != nil {
			a.header = standings(hold)
			if why := hold.Degraded(); why != "" {
				r.warn("limits let requests through with less than everything known", errors.New(why))
			}
		}
		return nil
	case errors.As(err, &no):
		return limited(no, err)
	case ctx.Err() != nil:
		return canceled(ctx)
	default:
		r.warn("it could not be found out whether a request may be served", err)
		return &Error{
			Code: CodeUnavailable, RetryAfter: retrySoon, Err: err,
			Message: "it could not be found out whether a limit lets the request through",
		}
	}
}

// limited is the refusal as an answer.
func limited(no *quota.Error, err error) *Error {
	e := &Error{Code: CodeLimited, Rule: no.Rule, RetryAfter: no.RetryAfter, Err: err, Message: strings.TrimPrefix(no.Error(), "quota: ")}
	switch {
	case no.Denied:
		e.Code, e.RetryAfter = CodeForbidden, 0
	case no.Permanent:
		e.Code, e.RetryAfter = CodeTooLarge, 0
	}
	return e
}

// cost is what the use of a model on a worker costs, 0 and true if it has no price.
func (t *TenancyOptions) cost(model string, u *quota.Used) (cost int64, unpriced bool) {
	if t.Prices == nil {
		return 0, false
	}
	cost, known := t.Prices.Cost(price.Fleet, model, priced(u))
	return cost, !known
}

func priced(u *quota.Used) *price.Tokens {
	return &price.Tokens{
		Uncached: u.Uncached, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning,
	}
}

// expectedCost is what the request is expected to cost at the dearest of the places that it
// may go to: many that burst at a time must not pass a limit together. unpriced says where
// that is not known.
func (r *Router) expectedCost(s *Selection) (cost int64, unpriced string) {
	snap := r.fleet.Snapshot()
	_, local := s.policy.(policy.Default)
	for i := range s.views {
		v := &s.views[i]
		u := &quota.Used{Uncached: int64(v.enc.Count), Output: s.account.demand.Output}
		here, offers := len(snap.Serving(v.model)) > 0, s.offers(v.model)
		if here && local {
			offers = nil
		}
		if here || len(offers) == 0 {
			one, unknown := r.opts.tenancy.cost(v.model, u)
			if cost = max(cost, one); unknown {
				unpriced = "the model has no price, so it counts as free"
			}
		}
		for _, o := range offers {
			one, known := r.opts.costAt(o, v.model, priced(u))
			if cost = max(cost, one); !known && unpriced == "" && r.opts.tenancy.Prices != nil {
				unpriced = "the model has no price at the provider " + quote(o.Provider()) + ", so it counts as free there"
			}
		}
	}
	return cost, unpriced
}

// costOf is what the request has cost where it was served.
func (r *Router) costOf(s *Selection, u *quota.Used) (cost int64) {
	if a := &s.attempt; a.offer != nil {
		cost, _ = r.opts.costAt(a.offer, a.target.Model, priced(u))
		return cost
	}
	cost, _ = r.opts.tenancy.cost(s.attempt.target.Model, u)
	return cost
}

// enter records that the current attempt has begun, and that the one before is over.
func (r *Router) enter(s *Selection) error {
	t := r.opts.tenancy
	if t == nil || t.Ledger == nil {
		return nil
	}
	a := &s.account
	if a.entry.State != "" {
		r.void(a)
	}
	d := &a.demand
	at := s.attempt.target
	if a.entry.ID == "" {
		a.entry.ID = r.run + "-" + strconv.FormatUint(r.entries.Add(1), 10)
	}
	a.entry = ledger.Record{
		ID: a.entry.ID, Attempt: s.attempt.number, State: ledger.Reserved, At: r.opts.now().UTC(),
		Org: d.Org, Team: d.Team, Tenant: d.Tenant, Key: d.Key, Class: d.Class,
		Model: d.Model, Served: at.Model, Worker: at.Worker, Provider: at.Provider,
		Uncached: d.Input, Output: d.Output, Cost: d.Cost,
	}
	if planted.PromptInLedger {
		a.entry.Class = string(s.parsed.body)
	}
	return r.append(&a.entry)
}

// void records that nothing came of the attempt.
func (r *Router) void(a *account) {
	e := a.entry
	e.State, e.At = ledger.Voided, r.opts.now().UTC()
	e.Uncached, e.Cached, e.CachedKnown, e.CacheWrite, e.Output, e.Reasoning, e.Cost, e.Source = 0, 0, false, 0, 0, 0, 0, ""
	_ = r.append(&e) // the logger has been told
}

func (r *Router) append(e *ledger.Record) error {
	err := r.opts.tenancy.Ledger.Append(e)
	if err != nil {
		r.warn("the ledger did not take a record", err)
	}
	return err //nolint:wrapcheck // callers drop it or wrap it
}

// unrecorded refuses a request that the ledger did not take.
func unrecorded(err error) *Error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: retrySoon, Err: err,
		Message: "the request can't be recorded, and none may be served that isn't",
	}
}

// give gives everything back: the request was never sent.
func (a *account) give() {
	if a.hold != nil && !planted.RefundForgotten {
		a.hold.Refund()
	}
}

// closeAccount settles what was reserved by what was used, or gives it back. It is called once,
// by whoever has ended the Selection.
// It returns what the request cost.
func (r *Router) closeAccount(s *Selection, u Usage, reason error, reaped bool) int64 {
	t := r.opts.tenancy
	if t == nil {
		return 0
	}
	a := &s.account
	used, source := a.used(u, reason, reaped)
	if source == "" {
		a.give()
		if t.Ledger != nil && a.entry.State != "" {
			r.void(a)
		}
		return 0
	}
	used.Cost = r.costOf(s, &used)
	if a.hold != nil {
		a.hold.Settle(used)
	}
	if reason == nil && u.Known && u.Output > 0 {
		t.Outputs.Learn(a.demand.Tenant, a.demand.Model, int64(u.Output)/max(a.answers, 1))
	}
	if t.Ledger == nil || a.entry.State == "" {
		return used.Cost
	}
	e := a.entry
	e.State, e.At, e.Source = ledger.Settled, r.opts.now().UTC(), source
	e.Worker, e.Served = s.attempt.target.Worker, s.attempt.target.Model // it may have moved
	e.Uncached, e.Cached, e.CachedKnown, e.CacheWrite = used.Uncached, used.CacheRead, u.CachedKnown, used.CacheWrite
	e.Output, e.Reasoning, e.Cost = used.Output, used.Reasoning, used.Cost
	_ = r.append(&e) // the logger has been told
	return used.Cost
}

// used is what a request took, and how that is known; no source if nothing was served. What
// a worker failed at is free. Who leaves before there is an answer has made a worker read the
// prompt all the same: if it cost nothing, anybody could keep all workers busy for nothing.
func (a *account) used(u Usage, reason error, reaped bool) (quota.Used, ledger.Source) {
	used := quota.Used{
		Uncached: int64(u.Uncached), CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite),
		Output: int64(u.Output), Reasoning: int64(u.Reasoning),
	}
	counted := int64(a.chunks)
	switch {
	case u.Known && (reason == nil || a.begun || u.Output > 0):
		// What was reported before the end need not be all: Anthropic's streams begin with
		// an output of one token.
		if reason != nil && counted > used.Output {
			used.Output = counted
			return used, ledger.Stream
		}
		return used, ledger.Provider
	case counted > 0:
		return quota.Used{Uncached: a.demand.Input, Output: counted}, ledger.Stream
	case reason == nil, a.begun, reaped:
		return quota.Used{Uncached: a.demand.Input, Output: a.demand.Output}, ledger.Estimate
	case a.sent && a.left:
		return quota.Used{Uncached: a.demand.Input}, ledger.Estimate
	default:
		return quota.Used{}, ""
	}
}

// departure reports whether a reason says that a request's sender has gone away. A deadline
// that is only wrapped may be anybody's: errors of dials wrap one.
func departure(reason error) bool {
	own := reason == context.DeadlineExceeded //nolint:errorlint // see above
	return own || errors.Is(reason, context.Canceled) || CodeOf(reason) == CodeCanceled
}

// degraded adds what was less than fully known when the request was let through.
func (a *account) degraded(list []string) []string {
	if a.unpriced != "" {
		list = append(list, "cost: "+a.unpriced)
	}
	if a.hold != nil {
		if why := a.hold.Degraded(); why != "" {
			list = append(list, "limits: "+why)
		}
	}
	return list
}
