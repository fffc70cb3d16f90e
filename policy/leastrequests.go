package policy

import (
	"cmp"
	"slices"
)

// LeastRequestsRule is the name of the rule that [LeastRequests] applies.
const LeastRequestsRule = "least-requests"

// LeastRequests takes the local worker with the fewest requests in flight, drawn among
// equals, whatever it holds. It exists to be compared with, as [RoundRobin] does.
type LeastRequests struct{}

// Evaluate implements [Policy].
func (LeastRequests) Evaluate(_ *Request, candidates []Candidate, plan *Plan) {
	plan.Reset(LeastRequestsRule)
	for i := range candidates {
		if candidates[i].Type != Local {
			plan.Dropped = append(plan.Dropped, Drop{Index: i, Rule: LeastRequestsRule, Condition: notLocal})
			continue
		}
		plan.Order = append(plan.Order, i)
	}
	slices.SortFunc(plan.Order, func(a, b int) int {
		x, y := &candidates[a], &candidates[b]
		return cmp.Or(cmp.Compare(x.InFlight, y.InFlight), cmp.Compare(x.Tie, y.Tie))
	})
}
