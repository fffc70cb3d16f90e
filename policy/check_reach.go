package policy

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// reachable finds rules, and alternatives of rules, that never decide because what
// goes before always does.
func (k *checker) reachable() {
	u := newUniverse([]*Spec{k.s})
	var before []box
	for i := range k.s.Rules {
		r, at := &k.s.Rules[i], item("spec.rules", i)
		if !k.s.sound(at) {
			continue // it may have been meant otherwise
		}
		if k.full() || u.exhausted() {
			return
		}
		boxes := u.rule(k.s, r, false)
		k.rulePart(u, i, boxes, before)
		if r.Route.OnEmpty.Action != NextRule { // which lets requests through
			for _, b := range boxes {
				before = append(before, b...)
			}
		}
	}
}

// rulePart reports what of a rule is covered. boxes are those of each alternative.
func (k *checker) rulePart(u *universe, i int, boxes [][]box, before []box) {
	r, at := &k.s.Rules[i], item("spec.rules", i)
	covered := make([]bool, len(boxes))
	possible, reached := 0, 0
	for j := range boxes {
		if len(boxes[j]) == 0 {
			continue
		}
		possible++
		if covered[j] = u.covered(boxes[j], before); !covered[j] {
			reached++
		}
	}
	switch {
	case possible == 0: // what can't hold is said elsewhere
		return
	case reached == 0:
		k.err(CodeUnreachableRule, at, "the rule is never reached: "+k.decider(u, i, boxes),
			"put it before, remove it, or narrow what goes before")
		return
	}
	var others []box // those above: of two equal alternatives the first is the one to keep
	for j := range boxes {
		here := item(at+".matches", j)
		switch {
		case len(boxes[j]) == 0:
		case covered[j]:
			k.warn(CodeUnreachableMatch, here, "the alternative is never reached: rules before always decide about these requests",
				"remove it")
		case u.covered(boxes[j], others) && !r.Matches[j].isZero():
			k.warn(CodeUnreachableMatch, here, "the alternative changes nothing: others of the rule hold for the same requests",
				"remove it")
		}
		others = append(others, boxes[j]...)
	}
}

// decider says what decides instead of a rule.
func (k *checker) decider(u *universe, i int, boxes [][]box) string {
	whole := slices.Concat(boxes...)
	for j := range i {
		r, at := &k.s.Rules[j], item("spec.rules", j)
		if r.Route.OnEmpty.Action == NextRule || !k.s.sound(at) ||
			!u.covered(whole, slices.Concat(u.rule(k.s, r, false)...)) {
			continue
		}
		name := at
		if r.Name != "" {
			name += " (" + yamlnode.Quote(r.Name) + ")"
		}
		if line := k.s.position(at).line; line > 0 {
			name += " in line " + strconv.Itoa(line)
		}
		if len(r.Matches) == 0 {
			return name + " matches every request"
		}
		return name + " matches every request that it matches"
	}
	return "rules before it match every request that it matches"
}

// overruled finds rules that are never reached because policies asked before always
// decide. The specs are those of one set.
func overruled(specs []*Spec) []Finding {
	enforced := slices.DeleteFunc(slices.Clone(specs), func(s *Spec) bool { return s.Mode != Enforce })
	slices.SortStableFunc(enforced, func(a, b *Spec) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	u := newUniverse(enforced)
	var before []box
	var findings []Finding
	for _, s := range enforced {
		own := newUniverse([]*Spec{s})
		var ownBefore []box
		for i := range s.Rules {
			r, at := &s.Rules[i], item("spec.rules", i)
			if !s.sound(at) || len(findings) > enoughFindings || u.exhausted() || own.exhausted() {
				continue
			}
			boxes := slices.Concat(u.rule(s, r, true)...)
			alone := slices.Concat(own.rule(s, r, false)...)
			if len(boxes) > 0 && u.covered(boxes, before) && !own.covered(alone, ownBefore) {
				findings = append(findings, s.finding(SeverityWarning, CodeUnreachableRule, at,
					"the rule is never reached: policies that are asked before always decide about its requests",
					"raise spec.priority, or narrow what those policies match"))
			}
			if r.Route.OnEmpty.Action != NextRule {
				before = append(before, boxes...)
				ownBefore = append(ownBefore, alone...)
			}
		}
	}
	return findings
}
