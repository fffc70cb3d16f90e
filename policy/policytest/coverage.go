package policytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer/policy"
)

// part is a part of a policy that a test may exercise.
type part struct {
	policy, rule string
	kind         string // "rule", "alternative", "exclusion", "stage", "empty"
	name         string
}

func (p part) String() string {
	where := "rule " + p.rule
	if p.policy != "" {
		where = p.policy + ", " + where
	}
	switch p.kind {
	case kindRule:
		return where
	case kindEmpty:
		return where + ": when nothing is left (" + p.name + ")"
	default:
		return where + ": " + p.kind + " " + p.name
	}
}

const (
	kindRule        = "rule"
	kindAlternative = "alternative"
	kindExclusion   = "exclusion"
	kindStage       = "stage"
	kindEmpty       = "empty"
)

// numbered tells parts of one kind with equal texts apart.
func numbered(i int, text string) string { return fmt.Sprintf("%d (%s)", i+1, text) }

// parts lists what a rule has.
func parts(p *policy.PolicyOutline, r *policy.RuleOutline) []part {
	list := []part{{p.Policy, r.Name, kindRule, ""}}
	for i, text := range r.Matches {
		list = append(list, part{p.Policy, r.Name, kindAlternative, numbered(i, text)})
	}
	for _, name := range r.Exclusions {
		list = append(list, part{p.Policy, r.Name, kindExclusion, name})
	}
	for i, text := range r.Stages {
		list = append(list, part{p.Policy, r.Name, kindStage, numbered(i, text)})
	}
	return append(list, part{p.Policy, r.Name, kindEmpty, emptyText(&r.Empty)})
}

func emptyText(e *policy.OnEmpty) string {
	switch e.Action {
	case policy.Wait:
		return "Wait"
	case policy.NextRule:
		return "NextRule"
	case policy.Reject:
		return "Reject"
	default:
		return "Reject"
	}
}

// note counts what an outcome shows as tried.
func (k *Kit) note(o *Outcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	outline := k.set.Outline()
	for i := range outline {
		p := &outline[i]
		for r := range p.Rules {
			k.noteRule(o, p, &p.Rules[r])
		}
	}
}

func (k *Kit) noteRule(o *Outcome, p *policy.PolicyOutline, r *policy.RuleOutline) {
	mark := func(kind, name string) { k.tried[part{p.Policy, r.Name, kind, name}] = true }
	if p.Mode == policy.Shadow {
		for i := range o.Plan.Shadows {
			if s := &o.Plan.Shadows[i]; s.Policy == p.Policy && s.Rule == r.Name {
				mark(kindRule, "")
			}
		}
		return
	}
	for _, d := range o.Plan.Dropped {
		if d.Rule == r.Name && d.Exclusion != "" && o.Plan.Policy == p.Policy {
			mark(kindExclusion, d.Exclusion)
		}
	}
	if o.Plan.Policy != p.Policy || o.Plan.Rule != r.Name {
		if r.Empty.Action == policy.NextRule && o.passed(p.Policy, r.Name) {
			mark(kindRule, "")
			mark(kindEmpty, emptyText(&r.Empty))
		}
		return
	}
	mark(kindRule, "")
	if o.Plan.Match >= 0 && o.Plan.Match < len(r.Matches) {
		mark(kindAlternative, numbered(o.Plan.Match, r.Matches[o.Plan.Match]))
	}
	switch {
	case len(o.Plan.Order) == 0:
		mark(kindEmpty, emptyText(&r.Empty))
	case len(o.Plan.Stages) > 0:
		mark(kindStage, numbered(o.Plan.Stages[0], r.Stages[o.Plan.Stages[0]]))
	case len(r.Stages) > 0:
		mark(kindStage, numbered(0, r.Stages[0]))
	}
}

// passed reports whether a rule matched but had nobody, so that the next was asked.
func (o *Outcome) passed(name, rule string) bool {
	e := policy.Explain(o.set, &o.Request, o.Candidates, &o.Plan)
	for i := range e.Passed {
		if p := &e.Passed[i]; p.Policy == name && p.Rule == rule && p.Emptied {
			return true
		}
	}
	return false
}

// Untested lists the parts of the policy that no evaluation by the Kit has exercised:
// rules that never decided, alternatives of matches that never held, exclusions that
// dropped nobody, stages that never decided, and what happens when nothing is left. Of
// policies in shadow mode it lists rules only.
func (k *Kit) Untested() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []string
	outline := k.set.Outline()
	for i := range outline {
		p := &outline[i]
		for r := range p.Rules {
			for _, at := range parts(p, &p.Rules[r]) {
				if k.tried[at] || p.Mode == policy.Shadow && at.kind != kindRule {
					continue
				}
				list = append(list, at.String())
			}
		}
	}
	return list
}

// RequireCovered fails the test if a part of the policy is untested. Call it after the
// cases that should cover it.
func (k *Kit) RequireCovered(t testing.TB) {
	t.Helper()
	if list := k.Untested(); len(list) > 0 {
		t.Errorf("policytest: no test exercised\n  %s", strings.Join(list, "\n  "))
	}
}
