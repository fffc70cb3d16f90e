package policy

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// RoundRobinRule is the name of the rule that [RoundRobin] applies.
const RoundRobinRule = "round-robin"

// RoundRobin takes local workers in turn, in the order of their names, whatever
// they hold and however busy they are. It exists to be compared with: run it in
// front of the same fleet to see what [Default] buys. The zero value is ready;
// a RoundRobin must not be copied after first use.
type RoundRobin struct {
	turn, prefills atomic.Uint64
}

// Evaluate implements [Policy].
func (r *RoundRobin) Evaluate(req *Request, candidates []Candidate, plan *Plan) {
	plan.Reset(RoundRobinRule)
	for i := range candidates {
		if candidates[i].Type != Local {
			plan.Dropped = append(plan.Dropped, Drop{Index: i, Rule: RoundRobinRule, Condition: notLocal})
			continue
		}
		plan.Order = append(plan.Order, i)
	}
	n := uint64(len(plan.Order))
	if n == 0 {
		return
	}
	slices.SortFunc(plan.Order, func(a, b int) int {
		x, y := &candidates[a], &candidates[b]
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Rank, y.Rank))
	})
	counter := &r.turn
	if req.Prefill {
		counter = &r.prefills
	}
	turn := counter.Load() // what comes next
	if req.Attempt <= 1 && !req.DryRun {
		turn = counter.Add(1) - 1
	}
	rotateLeft(plan.Order, int(turn%n))
}

// rotateLeft moves the first k elements to the end, in place.
func rotateLeft(s []int, k int) {
	slices.Reverse(s[:k])
	slices.Reverse(s[k:])
	slices.Reverse(s)
}
