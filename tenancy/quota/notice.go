package quota

import "time"

// Notice says that a budget's soft limit was reached.
type Notice struct {
	Rule  string
	Scope Scope
	// Who, Model and Class are whose budget it is, as in [Error].
	Who, Model, Class string
	// Money and Tokens were spent in the period so far; the limits are the rule's. What
	// requests under way may cost is counted by [Hold] only.
	Money, Tokens           int64
	MoneyLimit, TokensLimit int64
	// Reset is when the budget's period ends; for a window, when the oldest that it
	// counts leaves it.
	Reset time.Time
}

// notice says that sum was spent.
func (r *rule) notice(s *spending, sum amount, now time.Time) Notice {
	p := &r.period
	reset := p.next(p.start(now))
	if p.Window > 0 {
		reset = now.Add(p.Window)
		if len(s.steps) > 0 {
			reset = time.Unix(0, s.steps[0].start).Add(p.Window + p.Window/windowSteps).In(p.Zone)
		}
	}
	return Notice{
		Rule: r.Name, Scope: r.Scope, Who: s.who, Model: s.model, Class: s.class,
		Money: sum.money, Tokens: sum.tokens, MoneyLimit: p.Money, TokensLimit: p.Tokens, Reset: reset,
	}
}

// Soft implements [Hold]. It may be called when Standing may.
func (r *Reservation) Soft() (past []Notice) {
	holds, n := r.held()
	for _, e := range holds[:n] {
		if n, ok := e.soft(r.limiter.opts.Now()); ok {
			past = append(past, n)
		}
	}
	return past
}

// soft reports whether what is spent and reserved has reached the soft limit.
func (e *entry) soft(now time.Time) (Notice, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, p := e.budget, &e.rule.period
	if s == nil {
		return Notice{}, false
	}
	s.advance(p, now)
	sum := s.spent().plus(s.reserved)
	if !p.softly(sum) {
		return Notice{}, false
	}
	return e.rule.notice(s, sum, now), true
}
