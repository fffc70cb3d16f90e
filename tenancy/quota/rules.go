package quota

import (
	"slices"
	"time"
)

// ruleSet is the rules that hold at one time. It doesn't change.
type ruleSet struct {
	levels  []level
	rules   []*rule
	byID    map[uint32]*rule
	weights Weights
	ids     map[counted]uint32
	lastID  uint32
}

// counted is what buckets are kept by: rules that are equal in it share them, before
// and after a change.
type counted struct {
	name               string
	scope              Scope
	perModel, perClass bool
}

func (r *Rule) counted() counted { return counted{r.Name, r.Scope, r.PerModel, r.PerClass} }

// newRuleSet makes rules ready that come after others; nil if they are the first.
func newRuleSet(rules []Rule, w Weights, before *ruleSet) (*ruleSet, error) {
	levels, all, err := compile(rules)
	if err != nil {
		return nil, err
	}
	s := &ruleSet{levels: levels, rules: all, weights: w, byID: map[uint32]*rule{}, ids: map[counted]uint32{}}
	if before != nil {
		s.lastID = before.lastID
	}
	for _, r := range all {
		c := r.counted()
		id, known := uint32(0), false
		if before != nil {
			id, known = before.ids[c]
		}
		if !known {
			s.lastID++
			id = s.lastID
		}
		r.id = id
		s.ids[c], s.byID[id] = id, r
	}
	return s, nil
}

// Change is what became of a rule whose text has changed.
type Change struct {
	// Rule is its name; What is "new", "removed" or "changed".
	Rule, What string
	// Lost says which state began anew, "" if none did.
	Lost string
}

// What a change loses.
const (
	lostBuckets = "all buckets and budgets: requests are counted by something else now"
	lostBudget  = "what was spent of the budget: its period, zone or window has changed"
	lostRemoved = "all buckets and budgets"
)

// Update puts other rules and weights in force. The state of rules that stay as they
// were stays; so does that of changed ones as long as the Name, Scope, PerModel and
// PerClass do: requests under way, what was spent of a Budget (unless its Period, Zone or
// Window changes), and of a rate the time that its bucket needs to be full again. The
// Changes say what was lost. On an error, which is as that of [New], nothing changes.
//
// Requests go on being decided meanwhile, each by the one or the other.
func (l *Limiter) Update(rules []Rule, w Weights) ([]Change, error) {
	l.updating.Lock()
	defer l.updating.Unlock()
	before := l.rules.Load()
	after, err := newRuleSet(rules, w, before)
	if err != nil {
		return nil, err
	}
	changes := compare(before, after)
	l.rules.Store(after)
	for i := range l.shards {
		l.shards[i].adopt(after)
	}
	return changes, nil
}

func compare(before, after *ruleSet) (changes []Change) {
	was := map[string]*rule{}
	for _, r := range before.rules {
		was[r.Name] = r
	}
	for _, r := range after.rules {
		old := was[r.Name]
		delete(was, r.Name)
		switch {
		case old == nil:
			changes = append(changes, Change{Rule: r.Name, What: "new"})
		case old.id != r.id:
			changes = append(changes, Change{Rule: r.Name, What: "changed", Lost: lostBuckets})
		case !old.same(r):
			c := Change{Rule: r.Name, What: "changed"}
			if old.period.limits() && !old.period.alike(&r.period) {
				c.Lost = lostBudget
			}
			changes = append(changes, c)
		default:
		}
	}
	for _, r := range before.rules {
		if was[r.Name] != nil {
			changes = append(changes, Change{Rule: r.Name, What: "removed", Lost: lostRemoved})
		}
	}
	return changes
}

// same reports whether two rules say the same.
func (r *rule) same(o *rule) bool {
	return r.Level == o.Level && r.Deny == o.Deny && r.Concurrency == o.Concurrency && r.rates == o.rates &&
		r.period.alike(&o.period) && r.period.Money == o.period.Money && r.period.Tokens == o.period.Tokens &&
		r.period.SoftAt == o.period.SoftAt && r.period.Soft == o.period.Soft &&
		slices.Equal(r.Orgs, o.Orgs) && slices.Equal(r.Tenants, o.Tenants) &&
		slices.Equal(r.Models, o.Models) && slices.Equal(r.Classes, o.Classes)
}

// alike reports whether what was spent in one counts in the other.
func (p *period) alike(o *period) bool {
	return p.limits() == o.limits() && p.Period == o.Period && p.Window == o.Window && zoneName(p.Zone) == zoneName(o.Zone)
}

func zoneName(z *time.Location) string {
	if z == nil {
		return ""
	}
	return z.String()
}

// adopt gives the buckets their rules of now. Those without one are forgotten as soon
// as no request that is under way has taken from them.
func (s *shard) adopt(now *ruleSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		e.mu.Lock()
		if r := now.byID[e.rule.id]; r != nil {
			e.adopt(r, key)
		} else {
			if e.running == 0 {
				e.running = forgotten
			}
			delete(s.entries, key)
		}
		e.mu.Unlock()
	}
}

// adopt makes r the rule of an entry, which is kept by key. Its mutex is held.
func (e *entry) adopt(r *rule, key string) {
	for m := range r.rates {
		if b := &e.rates[m]; e.rule.rates[m] != r.rates[m] {
			if b.frac > 0 { // it is of another denominator
				b.full, b.frac = b.full+1, 0
			}
			b.fills++ // what was taken at the old pace isn't given back at the new one
		}
	}
	if !e.rule.period.alike(&r.period) {
		e.budget = nil
		if r.period.limits() {
			e.budget = r.spending(key)
		}
	}
	e.rule = r
}
