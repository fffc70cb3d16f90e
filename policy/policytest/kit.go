package policytest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvsteer/kvsteer/policy"
)

// Kit tests one policy. It is safe for concurrent use.
type Kit struct {
	set *policy.Set

	mu    sync.Mutex
	tried map[part]bool
}

// New returns a Kit for a compiled policy.
func New(set *policy.Set) *Kit {
	return &Kit{set: set, tried: make(map[part]bool)}
}

// Load compiles a policy file and returns a Kit for it. The test fails if the file
// can't be read or is wrong.
func Load(t testing.TB, path string) *Kit {
	t.Helper()
	set, err := load(path)
	if err != nil {
		t.Fatalf("policytest: %v", err)
	}
	return New(set)
}

// Set is the policy.
func (k *Kit) Set() *policy.Set { return k.set }

// Outcome is what a policy makes of a request and candidates.
type Outcome struct {
	Request    policy.Request
	Candidates []policy.Candidate
	Plan       policy.Plan

	set *policy.Set
}

// Evaluate asks the policy, and counts what decided as tried.
func (k *Kit) Evaluate(req policy.Request, candidates ...policy.Candidate) *Outcome {
	o := evaluate(k.set, req, candidates)
	k.note(o)
	return o
}

func evaluate(set *policy.Set, req policy.Request, candidates []policy.Candidate) *Outcome {
	o := &Outcome{Request: req, Candidates: candidates, set: set}
	set.Evaluate(&o.Request, o.Candidates, &o.Plan)
	return o
}

// First is the candidate that gets the request, nil if none does.
func (o *Outcome) First() *policy.Candidate {
	if len(o.Plan.Order) == 0 {
		return nil
	}
	return &o.Candidates[o.Plan.Order[0]]
}

// Order is the names of the candidates that may get the request, now or after others
// have failed, the first first.
func (o *Outcome) Order() []string {
	names := make([]string, 0, len(o.Plan.Order))
	for _, i := range o.Plan.Order {
		names = append(names, o.Candidates[i].Name)
	}
	return names
}

// Reachable calls f for every candidate that may get the request, until it returns
// false.
func (o *Outcome) Reachable(f func(*policy.Candidate) bool) {
	for _, i := range o.Plan.Order {
		if !f(&o.Candidates[i]) {
			return
		}
	}
}

// Drop is what dropped the candidate of a name, nil if nothing did.
func (o *Outcome) Drop(name string) *policy.Drop {
	for i := range o.Plan.Dropped {
		if d := &o.Plan.Dropped[i]; o.Candidates[d.Index].Name == name {
			return d
		}
	}
	return nil
}

// String explains the outcome.
func (o *Outcome) String() string {
	return policy.Explain(o.set, &o.Request, o.Candidates, &o.Plan).String()
}

// Case is one line of a table: what is asked, and what is expected. Of the
// expectations those that are set are checked.
type Case struct {
	Name       string
	Request    policy.Request
	Candidates []policy.Candidate

	// Rule is the rule that must decide.
	Rule string
	// First is the name of the candidate that must get the request, Model the model
	// that it must be served with.
	First, Model string
	// Order is the names of all that may get it, in order.
	Order []string
	// Rejected: nobody may, and the request is turned away or waits.
	Rejected bool
	// Dropped maps names of candidates to the exclusion, or else a part of the
	// condition, that must have dropped them.
	Dropped map[string]string
}

// Run checks each case in a subtest of its name. A failure says why the policy
// decided as it did.
func (k *Kit) Run(t *testing.T, cases ...Case) {
	t.Helper()
	for i := range cases {
		c := &cases[i]
		t.Run(c.Name, func(t *testing.T) {
			t.Helper()
			k.Check(t, c)
		})
	}
}

// Check checks one case.
func (k *Kit) Check(t testing.TB, c *Case) {
	t.Helper()
	o := k.Evaluate(c.Request, c.Candidates...)
	problems := c.problems(o)
	if len(problems) > 0 {
		t.Errorf("policytest: %s\n%s", strings.Join(problems, "\n"), o)
	}
}

func (c *Case) problems(o *Outcome) (list []string) {
	failf := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if c.Rule == "" && c.First == "" && c.Model == "" && c.Order == nil && !c.Rejected && len(c.Dropped) == 0 {
		failf("the case expects nothing; set First, Order, Rejected, Rule, Model or Dropped")
	}
	if c.Rule != "" && o.Plan.Rule != c.Rule {
		failf("rule %q decided, not %q", o.Plan.Rule, c.Rule)
	}
	name, model := "nobody", ""
	if first := o.First(); first != nil {
		name, model = first.Name, first.Model
	}
	if c.First != "" && name != c.First {
		failf("%s gets the request, not %s", name, c.First)
	}
	if c.Model != "" && model != c.Model {
		failf("the request is served with model %q, not %q", model, c.Model)
	}
	if c.Order != nil && !slices.Equal(o.Order(), c.Order) {
		failf("the order is %v, not %v", o.Order(), c.Order)
	}
	if c.Rejected && name != "nobody" {
		failf("%s gets the request, though nobody should", name)
	}
	for _, who := range sorted(c.Dropped) {
		d, by := o.Drop(who), c.Dropped[who]
		switch {
		case d == nil:
			failf("%s was not dropped, though %q should have", who, by)
		case d.Exclusion != by && !strings.Contains(d.Condition, by):
			failf("%s was dropped by %q (%s), not by %q", who, d.Exclusion, d.Condition, by)
		}
	}
	return list
}
