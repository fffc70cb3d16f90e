package quota

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Meter is something that a rate counts.
type Meter uint8

// The meters. A request counts 1; tokens count by [Weights], rounded up to whole
// ones for each request and meter.
const (
	Requests Meter = iota
	Tokens         // prompt and answer together
	Input          // the prompt's
	Output         // the answer's
	numRates

	Concurrency // requests at a time
	Money       // in millionths of the currency
	BudgetTokens
)

// String is the meter's name in messages.
func (m Meter) String() string {
	switch m {
	case Requests:
		return "requests"
	case Tokens:
		return "tokens"
	case Input:
		return "input tokens"
	case Output:
		return "output tokens"
	case Concurrency:
		return "requests at a time"
	case Money:
		return "millionths of money"
	case BudgetTokens:
		return "tokens of a budget"
	default:
		return fmt.Sprintf("Meter(%d)", uint8(m))
	}
}

// Rate is so much per time. The zero Rate sets no limit.
type Rate struct {
	// Amount passes each Per in the long run, at least 1, at most 4,294,967,295.
	Amount int64
	// Per is the time that Amount is for. 0 means a minute; at most 31 days.
	Per time.Duration
	// Burst is what may pass at once after a pause, and the largest single prompt; of an
	// estimate that is larger, Burst is reserved. 0 means Amount.
	Burst int64
}

const (
	maxAmount = 1<<32 - 1
	maxPer    = 31 * 24 * time.Hour
	// maxTake bounds one request's estimate; more is taken for this much. It keeps
	// sums within 64 bits.
	maxTake = 1 << 40
)

// Scope is whose requests share a bucket.
type Scope uint8

// The scopes, from wide to narrow. A team is one of an organisation: two
// organisations may have teams of one name.
const (
	Everybody Scope = iota
	PerOrg
	PerTeam
	PerTenant
	PerKey
)

// String is the scope's name in messages.
func (s Scope) String() string {
	switch s {
	case Everybody:
		return "everybody"
	case PerOrg:
		return "organisation"
	case PerTeam:
		return "team"
	case PerTenant:
		return "tenant"
	case PerKey:
		return "key"
	default:
		return fmt.Sprintf("Scope(%d)", uint8(s))
	}
}

// Rule limits some of the requests.
type Rule struct {
	// Name is in refusals and metrics; it is required and unique.
	Name string
	// Level: of rules with one level the first that matches a request holds, so that
	// exceptions come first; those of different levels all hold. Empty means the
	// Scope's name.
	Level string
	// Scope, PerModel and PerClass say whose requests count together.
	Scope    Scope
	PerModel bool
	PerClass bool

	// Orgs, Tenants, Models and Classes are those that the rule is for; empty means
	// all.
	Orgs, Tenants, Models, Classes []string

	// Requests, Tokens, Input and Output are rates. A rate of another Per is a rule of
	// another Level.
	Requests, Tokens, Input, Output Rate
	// Concurrency is how many requests may be under way; 0 means any number. None
	// passes where none shall: see Deny.
	Concurrency int
	// Budget is an amount for a period.
	Budget Budget
	// Deny refuses every request that the rule holds for, for good.
	Deny bool
}

// Weights are how much a token counts against the meters Tokens, Input and Output,
// in hundredths: 100 is a whole token. The zero value counts all as 100.
type Weights struct {
	// Cached are prompt tokens that were found in a cache, CacheWrite those written to
	// one for a price, Reasoning those of an answer that are thought only.
	Cached, CacheWrite, Reasoning Weight
}

// Weight is a share in hundredths, at most 10,000. The zero Weight is a whole.
type Weight struct {
	hundredths int32
	set        bool
}

const whole = 100

// Hundredths makes a Weight; 0 counts nothing.
func Hundredths(n int) Weight { return Weight{hundredths: int32(min(max(n, 0), 100*whole)), set: true} }

func (w Weight) value() int64 {
	if !w.set {
		return whole
	}
	return int64(w.hundredths)
}

// rule is a Rule made ready.
type rule struct {
	Rule

	// id is the same for rules of one Name that count by the same: buckets are kept by it.
	id     uint32
	rates  [numRates]pace
	period period
	orgs, tenants,
	models, classes map[string]bool
}

// level is the rules of which the first that matches holds.
type level struct {
	name  string
	rules []*rule
	// byTenant are those that could match a tenant that some rule names; others those
	// for tenants that none names. Both in order.
	byTenant map[string][]*rule
	others   []*rule
}

// RuleError says what is wrong with a Rule. It is for whoever wrote it; the error of
// [New] joins those of all.
type RuleError struct {
	// Index and Name are the Rule's.
	Index int
	Name  string
	Err   error
}

// Error implements error.
func (e *RuleError) Error() string {
	return fmt.Sprintf("quota: rule %d %q: %v", e.Index, e.Name, e.Err)
}

// Unwrap returns what is wrong.
func (e *RuleError) Unwrap() error { return e.Err }

func compile(rules []Rule) ([]level, []*rule, error) {
	var levels []level
	all := make([]*rule, len(rules))
	names := map[string]bool{}
	var bad []error
	for i := range rules {
		r, err := prepare(&rules[i])
		switch {
		case err != nil:
		case names[r.Name]:
			err = errors.New("there is another rule of that name")
		}
		if err != nil {
			bad = append(bad, &RuleError{Index: i, Name: rules[i].Name, Err: err})
			continue
		}
		names[r.Name] = true
		all[i] = r
		at := slices.IndexFunc(levels, func(l level) bool { return l.name == r.Level })
		if at < 0 {
			at = len(levels)
			levels = append(levels, level{name: r.Level})
		}
		levels[at].rules = append(levels[at].rules, r)
	}
	if len(levels) > maxLevels {
		bad = append(bad, fmt.Errorf("quota: %d levels; a request passes at most %d", len(levels), maxLevels))
	}
	if len(bad) > 0 {
		return nil, nil, errors.Join(bad...)
	}
	for i := range levels {
		levels[i].index()
	}
	return levels, all, nil
}

func (l *level) index() {
	l.byTenant = map[string][]*rule{}
	for _, r := range l.rules {
		for t := range r.tenants {
			l.byTenant[t] = nil
		}
	}
	for _, r := range l.rules {
		if r.tenants == nil {
			l.others = append(l.others, r)
		}
		for t := range l.byTenant {
			if r.tenants == nil || r.tenants[t] {
				l.byTenant[t] = append(l.byTenant[t], r)
			}
		}
	}
}

// find returns the rule that holds for a demand, nil if none does.
func (l *level) find(d *Demand) *rule {
	rules, named := l.byTenant[d.Tenant]
	if !named {
		rules = l.others
	}
	for _, r := range rules {
		if in(r.orgs, d.Org) && in(r.models, d.Model) && in(r.classes, d.Class) {
			return r
		}
	}
	return nil
}

func in(set map[string]bool, s string) bool { return set == nil || set[s] }

func prepare(src *Rule) (*rule, error) {
	r := &rule{Rule: *src}
	if r.Name == "" {
		return nil, errors.New("it has no Name; refusals show it")
	}
	if r.Scope > PerKey {
		return nil, fmt.Errorf("%v is no scope", r.Scope)
	}
	if r.Level == "" {
		r.Level = r.Scope.String()
	}
	limits := false
	for m, rate := range [numRates]Rate{src.Requests, src.Tokens, src.Input, src.Output} {
		if rate == (Rate{}) {
			continue
		}
		p, err := newPace(rate)
		if err != nil {
			return nil, fmt.Errorf("the rate of %v: %w", Meter(m), err)
		}
		r.rates[m], limits = p, true
	}
	if r.Concurrency < 0 {
		return nil, errors.New("a negative Concurrency; 0 means any number, and Deny none")
	}
	p, err := r.Budget.prepare()
	if err != nil {
		return nil, fmt.Errorf("the budget: %w", err)
	}
	r.period = p
	if !limits && r.Concurrency == 0 && !p.limits() && !r.Deny && len(src.Tenants)+len(src.Orgs)+len(src.Models)+len(src.Classes) == 0 {
		return nil, errors.New("it limits nothing and is an exception for nobody")
	}
	r.orgs, r.tenants, r.models, r.classes = setOf(r.Orgs), setOf(r.Tenants), setOf(r.Models), setOf(r.Classes)
	return r, nil
}

func (r *rule) limits() bool {
	if r.Concurrency > 0 || r.period.limits() {
		return true
	}
	for m := range r.rates {
		if r.rates[m].limits() {
			return true
		}
	}
	return false
}

func (r *rule) who(d *Demand) string {
	switch r.Scope {
	case PerOrg:
		return d.Org
	case PerTeam:
		return d.Team
	case PerTenant:
		return d.Tenant
	case PerKey:
		return d.Key
	default:
		return ""
	}
}

func setOf(list []string) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}
