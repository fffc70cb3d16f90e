package policy_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

func TestDefaultOrdersByObjective(t *testing.T) {
	t.Parallel()
	cands := []policy.Candidate{
		{Name: "cold", PredictedTTFT: 3 * time.Second, Externality: 3 * time.Second},
		{Name: "warm-busy", PredictedTTFT: 4 * time.Second, Externality: time.Second},
		{Name: "external", Type: policy.Provider, PredictedTTFT: time.Millisecond},
		{Name: "warm", PredictedTTFT: time.Second, Externality: time.Second, InFlight: 2, Tie: 1},
		{Name: "warm-idle", PredictedTTFT: time.Second, Externality: time.Second, InFlight: 1, Tie: 9},
		{Name: "warm-idle-too", PredictedTTFT: time.Second, Externality: time.Second, InFlight: 1, Tie: 3},
	}
	var plan policy.Plan
	policy.Default{}.Evaluate(&policy.Request{}, cands, &plan)

	names := make([]string, 0, len(plan.Order))
	for _, i := range plan.Order {
		names = append(names, cands[i].Name)
	}
	require.Equal(t, []string{"warm-idle-too", "warm-idle", "warm", "warm-busy", "cold"}, names)
	require.Equal(t, []policy.Drop{{Index: 2, Rule: policy.DefaultRule, Condition: "not a local worker"}}, plan.Dropped)
}

// However many there are, the order is that of objective, requests in flight and tie.
func TestDefaultOrdersAnyNumber(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 127, 128, 129, 400} {
		cands := make([]policy.Candidate, n)
		for i := range cands {
			cands[i] = policy.Candidate{
				PredictedTTFT: time.Duration(r.IntN(4)), Externality: time.Duration(r.IntN(2)),
				InFlight: r.IntN(3), Tie: r.Uint32(),
			}
		}
		var plan policy.Plan
		policy.Default{}.Evaluate(&policy.Request{}, cands, &plan)

		seen := make([]bool, n)
		for place, i := range plan.Order {
			require.False(t, seen[i])
			seen[i] = true
			if place == 0 {
				continue
			}
			a, b := &cands[plan.Order[place-1]], &cands[i]
			less := cmp.Or(cmp.Compare(a.Objective(), b.Objective()), cmp.Compare(a.InFlight, b.InFlight), cmp.Compare(a.Tie, b.Tie))
			require.LessOrEqual(t, less, 0, "%d candidates, place %d", n, place)
		}
		require.Len(t, plan.Order, n)
	}
}

func TestDefaultReusesThePlan(t *testing.T) {
	cands := make([]policy.Candidate, 64)
	var plan policy.Plan
	policy.Default{}.Evaluate(&policy.Request{}, cands, &plan)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		policy.Default{}.Evaluate(&policy.Request{}, cands, &plan)
	}))
	require.Len(t, plan.Order, 64)
}

func TestRoundRobinTakesTurns(t *testing.T) {
	t.Parallel()
	cands := []policy.Candidate{{Name: "b"}, {Name: "x", Type: policy.Provider}, {Name: "a"}, {Name: "c"}}
	var rr policy.RoundRobin
	var plan policy.Plan
	var first []string
	for range 4 {
		rr.Evaluate(&policy.Request{}, cands, &plan)
		require.Len(t, plan.Order, 3)
		first = append(first, cands[plan.Order[0]].Name)
	}
	require.Equal(t, []string{"a", "b", "c", "a"}, first)
	rr.Evaluate(&policy.Request{}, nil, &plan)
	require.Empty(t, plan.Order)
}

func TestLeastRequestsTakesTheIdlest(t *testing.T) {
	t.Parallel()
	cands := []policy.Candidate{
		{Name: "a", InFlight: 2},
		{Name: "x", Type: policy.Provider},
		{Name: "b", InFlight: 1, Tie: 7, PredictedTTFT: time.Second},
		{Name: "c", InFlight: 1, Tie: 3, PredictedTTFT: time.Hour},
	}
	var plan policy.Plan
	policy.LeastRequests{}.Evaluate(&policy.Request{}, cands, &plan)
	require.Equal(t, []int{3, 2, 0}, plan.Order)
	require.Equal(t, []policy.Drop{{Index: 1, Rule: "least-requests", Condition: "not a local worker"}}, plan.Dropped)
	require.Equal(t, "least-requests", plan.Rule)
	policy.LeastRequests{}.Evaluate(&policy.Request{}, nil, &plan)
	require.Empty(t, plan.Order)
}

// Questions and second attempts take nobody's turn.
func TestRoundRobinCountsWhatIsSent(t *testing.T) {
	t.Parallel()
	cands := []policy.Candidate{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	var rr policy.RoundRobin
	var plan policy.Plan
	first := func(req policy.Request, cands []policy.Candidate) string {
		rr.Evaluate(&req, cands, &plan)
		return cands[plan.Order[0]].Name
	}
	require.Equal(t, "a", first(policy.Request{DryRun: true}, cands))
	require.Equal(t, "a", first(policy.Request{DryRun: true}, cands))
	require.Equal(t, "a", first(policy.Request{Attempt: 1}, cands))
	require.Equal(t, "b", first(policy.Request{DryRun: true}, cands))
	require.Equal(t, "c", first(policy.Request{Attempt: 2}, cands[1:]), "the second of b and c")
	require.Equal(t, "b", first(policy.Request{Attempt: 1}, cands))
}

func ExampleDefault() {
	cands := []policy.Candidate{
		{Name: "a", PredictedTTFT: 900 * time.Millisecond},
		{Name: "b", PredictedTTFT: 120 * time.Millisecond},
	}
	var plan policy.Plan
	policy.Default{}.Evaluate(&policy.Request{Model: "qwen3"}, cands, &plan)
	fmt.Println(cands[plan.Order[0]].Name)
	// Output: b
}
