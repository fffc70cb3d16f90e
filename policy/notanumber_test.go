package policy_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// What is not a number, whatever its sign, counts as what nobody knows: it is never
// the least, and passes no threshold that drops.
func TestNotANumber(t *testing.T) {
	t.Parallel()
	for _, nan := range []float64{math.NaN(), math.Copysign(math.NaN(), -1)} {
		for _, metric := range []policy.Metric{policy.KVCacheUsage, policy.Cost} {
			set := compile(t, rules(policy.Rule{Name: "r", Route: policy.Route{Select: []policy.Stage{{Minimize: metric}}}}))
			v := ask(set, policy.Request{Model: "glm"},
				worker("a", "glm", 1, usage(nan), price(nan)), worker("b", "glm", 1, usage(0.9), price(1)))
			require.Equal(t, []int{1, 0}, v.Order, "metric %d", metric)
		}
		for _, drop := range []policy.Filter{{KVCacheUsage: policy.GreaterThan(0.7)}, {Price: policy.GreaterThan(0.1)}} {
			set := compile(t, rules(policy.Rule{Name: "r", Route: policy.Route{Exclude: []policy.Exclusion{{Name: "x", Drop: drop}}}}))
			v := ask(set, policy.Request{Model: "glm"}, worker("a", "glm", 1, usage(nan), price(nan)))
			require.Empty(t, v.Order)
		}
		set := compile(t, rules(policy.Rule{Name: "calm", Matches: []policy.Match{{KVCacheUsage: policy.LessThan(0.5)}}}))
		v := ask(set, policy.Request{Model: "glm"}, worker("a", "glm", 1, usage(0.1)), worker("b", "glm", 1, usage(nan)))
		require.Equal(t, "calm", v.Rule, "one that reports nonsense hides nobody")
	}
}

// A state that is none of the three says nothing, as unknown does.
func TestTagOfNoState(t *testing.T) {
	t.Parallel()
	set := compile(t, rules(policy.Rule{Name: "r", Route: policy.Route{Exclude: []policy.Exclusion{{
		Name: "x", If: policy.Condition{Tag: []string{"pii"}}, Drop: policy.Filter{Type: policy.LocalOnly},
	}}}}))
	v := ask(set, policy.Request{Model: "glm", Tags: []policy.Tag{{Name: "pii", State: 7}}}, worker("a", "glm", 1))
	require.Empty(t, v.Order)
}
