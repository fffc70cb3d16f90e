package quota

import (
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// entry is one bucket of each rate of a rule, for one of those that the rule counts
// apart. There may be a million of them: it is as small as it can be. A request locks
// its entries in the order of their ids.
type entry struct {
	mu    sync.Mutex
	rule  *rule
	rates [numRates]bucket
	// running are the requests under way, each with a Reservation that points here;
	// forgotten if it is not to be used any more, but looked up again.
	running int32
	// id is the rule's, which doesn't change, whatever becomes of the rule. No two entries
	// of one request have the same.
	id     uint32
	budget *spending
}

const forgotten = -1

// inLockOrder returns holds as they are to be locked. Two requests may have the same ones in
// two orders, since Update may change the order of levels.
func inLockOrder(holds []*entry) (order [maxLevels]*entry) {
	for i, e := range holds {
		at := i
		for ; at > 0 && order[at-1].id > e.id; at-- {
			order[at] = order[at-1]
		}
		order[at] = e
	}
	return order
}

// unused reports whether forgetting the entry changes nothing. Its mutex is held.
func (e *entry) unused(l *Limiter, now int64) bool {
	if e.running != 0 {
		return false
	}
	for m := range e.rule.rates {
		if b := &e.rates[m]; e.rule.rates[m].limits() && (b.full > now || b.full == now && b.frac > 0) {
			return false
		}
	}
	if e.budget == nil {
		return true
	}
	e.budget.advance(&e.rule.period, l.opts.Now())
	return e.budget.idle()
}

// refuses returns why the entry lets t not through, nil if it does. Its mutex is held.
func (e *entry) refuses(o *Options, d *Demand, t *takes, now int64) *Error {
	var worst *Error
	for m := range e.rule.rates {
		p, asked := &e.rule.rates[m], t.rates[m]
		if !p.limits() || asked == 0 {
			continue
		}
		if known := t.known(Meter(m)); known > p.limit.Burst {
			return e.rule.refusal(d, Error{Meter: Meter(m), Limit: p.limit.Burst, Asked: known, Permanent: true})
		}
		asked = p.capped(asked)
		if wait := e.rates[m].wait(p, asked, now); wait > 0 && !planted.RateIgnored {
			worst = later(worst, e.rule.refusal(d, Error{
				Meter: Meter(m), Limit: p.limit.Burst, Asked: asked, Left: e.rates[m].left(p, now),
				RetryAfter: time.Duration(wait), Exact: true,
			}))
		}
	}
	if c := e.rule.Concurrency; c > 0 && int(e.running) >= c {
		worst = later(worst, e.rule.refusal(d, Error{
			Meter: Concurrency, Limit: int64(c), Asked: 1, RetryAfter: o.ConcurrencyRetry,
		}))
	}
	if e.budget != nil {
		if r := e.overBudget(o, d, t); r != nil {
			worst = later(worst, r)
		}
	}
	return worst
}

func (e *entry) overBudget(o *Options, d *Demand, t *takes) *Error {
	p, wall := &e.rule.period, o.Now()
	e.budget.advance(p, wall)
	if p.Soft {
		return nil
	}
	if p.Tokens > 0 && t.least > p.Tokens {
		return e.rule.refusal(d, Error{Meter: BudgetTokens, Limit: p.Tokens, Asked: t.least, Permanent: true})
	}
	of := p.capped(t.of)
	m, over := e.budget.exceeded(p, of)
	if !over {
		return nil
	}
	sum := e.budget.spent().plus(e.budget.reserved)
	r := Error{Meter: m, Limit: p.Money, Asked: of.money, Spent: sum.money}
	if m == BudgetTokens {
		r.Limit, r.Asked, r.Spent = p.Tokens, of.tokens, sum.tokens
	}
	r.Left = r.Limit - r.Spent
	var room time.Time
	room, r.Exact = e.budget.room(p, of, wall)
	r.RetryAfter = max(room.Sub(wall), 1)
	if !r.Exact {
		r.RetryAfter = max(r.RetryAfter, o.ConcurrencyRetry)
	}
	r.Reset = wall.Add(r.RetryAfter)
	if p.Window == 0 {
		r.Reset = p.next(p.start(wall))
	}
	r.Reset = r.Reset.In(p.Zone)
	return e.rule.refusal(d, r)
}

// refusal says whose bucket it is.
func (r *rule) refusal(d *Demand, no Error) *Error {
	no.Rule, no.Scope, no.Who = r.Name, r.Scope, r.who(d)
	if r.PerModel {
		no.Model = d.Model
	}
	if r.PerClass {
		no.Class = d.Class
	}
	return &no
}

// later returns the Error that lasts longer; one is as good as none. When a request can
// come again isn't known exactly if that of either isn't.
func later(a, b *Error) *Error {
	switch {
	case a == nil:
		return b
	case b == nil || a.Permanent:
		return a
	case b.Permanent:
		return b
	}
	exact := a.Exact && b.Exact
	if b.RetryAfter > a.RetryAfter {
		a = b
	}
	a.Exact = exact
	return a
}

// takeAll takes t, and returns the budget that it is of and what it has reserved there. Its
// mutex is held, and refuses has said nil.
func (e *entry) takeAll(t *takes, now int64, loans *[numRates]loan) (*spending, amount) {
	for m := range e.rule.rates {
		loans[m] = loan{n: t.rates[m]}
		if p := &e.rule.rates[m]; p.limits() {
			loans[m] = e.rates[m].take(p, p.capped(t.rates[m]), now)
		}
	}
	e.running++
	cost := e.rule.period.capped(t.of)
	if e.budget != nil {
		e.budget.reserved = e.budget.reserved.plus(cost)
	}
	return e.budget, cost
}
