package quota

import (
	"strconv"
	"time"
)

// Plan is Options made ready for limits whose state is kept elsewhere: package redis is
// made of it. It says which buckets a request falls into and what it takes from each; and,
// told the state of those, it answers as a [Limiter] would, by the same code. It holds no
// state and is safe for concurrent use.
type Plan struct {
	opts  Options
	rules *ruleSet
}

// NewPlan returns a Plan; the error is as that of [New].
func NewPlan(o Options) (*Plan, error) {
	rules, err := newRuleSet(o.Rules, o.Weights, nil)
	if err != nil {
		return nil, err
	}
	return &Plan{opts: o.withDefaults(), rules: rules}, nil
}

// Update returns a Plan of other rules and weights, and what changes by them: see
// [Limiter.Update], by which a store must go.
func (p *Plan) Update(rules []Rule, w Weights) (*Plan, []Change, error) {
	after, err := newRuleSet(rules, w, p.rules)
	if err != nil {
		return nil, nil, err
	}
	o := p.opts
	o.Rules, o.Weights = rules, w
	return &Plan{opts: o, rules: after}, compare(p.rules, after), nil
}

// Options returns those that the Plan was made of, with their defaults.
func (p *Plan) Options() Options { return p.opts }

// NumRates is how many Meters count rates: those less than it.
const NumRates = int(numRates)

// Amounts are what a request takes, by what counts it.
type Amounts struct {
	// Rates are by Meter.
	Rates [numRates]int64
	// Money and Tokens are of Budgets.
	Money, Tokens int64
}

// Demanded returns what d reserves.
func (p *Plan) Demanded(d *Demand) Amounts {
	t := p.rules.weights.demanded(d)
	return Amounts{t.rates, t.of.money, t.of.tokens}
}

// Used returns what u comes to.
func (p *Plan) Used(u *Used) Amounts {
	t := p.rules.weights.used(u)
	return Amounts{t.rates, t.of.money, t.of.tokens}
}

// Bucket is where the requests are counted that a Rule counts together.
type Bucket struct{ rule *rule }

// Find returns the buckets that d falls into, in the order of their levels, each with its
// key, which says the Rule's Name and whom it is of, and is not that of another one. The
// error says that d is never let through, whatever the state.
func (p *Plan) Find(d *Demand) (buckets []Bucket, keys []string, never *Error) {
	t := p.rules.weights.demanded(d)
	for i := range p.rules.levels {
		r := p.rules.levels[i].find(d)
		switch {
		case r == nil:
		case r.Deny:
			return nil, nil, r.refusal(d, Error{Permanent: true, Denied: true})
		case r.limits():
			never = later(never, r.entry(nil).refuses(&p.opts, d, &t, 0))
			buckets, keys = append(buckets, Bucket{r}), append(keys, r.longKey(d))
		default:
		}
	}
	return buckets, keys, never
}

// longKey is as key, but for everyone who has a Rule of the name that counts by the same.
func (r *rule) longKey(d *Demand) string {
	b := strconv.AppendUint(nil, uint64(r.Scope), 10)
	for _, flag := range []bool{r.PerModel, r.PerClass} {
		if flag {
			b = append(b, '+')
		} else {
			b = append(b, '-')
		}
	}
	b = part(b, r.Name)
	return string(r.owner(b, d))
}

// Rule returns the Rule that counts in it. It must not be modified.
func (b Bucket) Rule() *Rule { return &b.rule.Rule }

// Rate returns the rate of a Meter, with its defaults, and how long one unit takes to
// refill, num/den nanoseconds, both without a common divisor and less than 2^53; ok is
// false without a limit.
func (b Bucket) Rate(m Meter) (r Rate, num, den uint64, ok bool) {
	p := &b.rule.rates[m]
	return p.limit, p.num, p.den, p.limits()
}

// Reserves returns how much of what a request demands it takes from this bucket: no more of an
// estimate than there can be in it.
func (b Bucket) Reserves(a Amounts) Amounts {
	for m := range a.Rates {
		if p := &b.rule.rates[m]; p.limits() {
			a.Rates[m] = p.capped(a.Rates[m])
		}
	}
	of := b.rule.period.capped(amount{a.Money, a.Tokens})
	a.Money, a.Tokens = of.money, of.tokens
	return a
}

// Span is how long n units of a Meter take to refill: ns nanoseconds and frac/den of one.
// It saturates at 73 years.
func (b Bucket) Span(m Meter, n int64) (ns int64, frac uint32) { return b.rule.rates[m].span(n) }

// Budget returns the Rule's, with its defaults; ok is false without one.
func (b Bucket) Budget() (of Budget, ok bool) { return b.rule.period.Budget, b.rule.period.limits() }

// Step returns the period of the Budget that now is in, or the step of its window: when
// it began and when the next does, and from when on what was spent counts.
func (b Bucket) Step(now time.Time) (oldest, start, next time.Time) {
	p := &b.rule.period
	start = p.start(now)
	if p.Window > 0 {
		return start.Add(-p.Window), start, start.Add(p.Window / windowSteps)
	}
	return start, start, p.next(start)
}

// State is that of a Bucket. The zero State is that of one that nobody has used.
type State struct {
	// Rates are by Meter.
	Rates [numRates]Fill
	// Running is how many requests are under way, Money and Tokens what they may cost.
	Running       int
	Money, Tokens int64
	// Steps are what was spent, oldest first: one for a calendar's period.
	Steps []Step
}

// Fill is when a rate's bucket will be full: in Ns nanoseconds and Frac/den of one; 0 or
// less if it is.
type Fill struct {
	Ns   int64
	Frac uint32
}

// Step is what was spent in a period, or in a step of a window, that began at Start.
type Step struct {
	Start         time.Time
	Money, Tokens int64
}

// entry is a bucket with that state, at 0 nanoseconds; nil is the zero State.
func (r *rule) entry(s *State) *entry {
	e := &entry{rule: r}
	if r.period.limits() {
		e.budget = &spending{}
	}
	if s == nil {
		return e
	}
	for m, f := range s.Rates {
		e.rates[m] = bucket{full: f.Ns, frac: f.Frac}
	}
	e.running = int32(s.Running)
	if e.budget != nil {
		e.budget.reserved = amount{s.Money, s.Tokens}
		for _, st := range s.Steps {
			e.budget.steps = append(e.budget.steps, step{st.Start.UnixNano(), amount{st.Money, st.Tokens}})
		}
	}
	return e
}

// Refusal returns why buckets, which are d's, don't let it through at that time; nil if
// they do.
func (p *Plan) Refusal(d *Demand, buckets []Bucket, states []State, now time.Time) (no *Error) {
	t, o := p.rules.weights.demanded(d), p.opts
	o.Now = func() time.Time { return now }
	for i, b := range buckets {
		no = later(no, b.rule.entry(&states[i]).refuses(&o, d, &t, 0))
	}
	return no
}

// Standing is as that of a [Hold].
func (p *Plan) Standing(m Meter, buckets []Bucket, states []State) (s Standing, ok bool) {
	if m >= numRates {
		return Standing{}, false
	}
	for i, b := range buckets {
		if b.rule.rates[m].limits() {
			f := states[i].Rates[m]
			s, ok = tighter(s, ok, b.rule.standing(m, &bucket{full: f.Ns, frac: f.Frac}, 0)), true
		}
	}
	return s, ok
}

// Soft is as that of a [Hold] of d's.
func (p *Plan) Soft(d *Demand, buckets []Bucket, states []State, now time.Time) (past []Notice) {
	for i, b := range buckets {
		e := b.rule.entry(&states[i])
		if e.budget == nil {
			continue
		}
		no := b.rule.refusal(d, Error{})
		e.budget.who, e.budget.model, e.budget.class = no.Who, no.Model, no.Class
		if n, ok := e.soft(now); ok {
			past = append(past, n)
		}
	}
	return past
}
