package kvsteer_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// A decision says that it drew among near equals, where other routers choose as well,
// and does not where there are none.
func TestADecisionTellsOfNearEquals(t *testing.T) {
	for routers, near := range map[int]bool{1: false, 2: true} {
		g := newGateways(t, gatewaysConfig{engines: 2, routers: routers})
		d, err := g.routers[0].Explain(t.Context(), &kvsteer.Request{
			API: kvsteer.Completions, Model: testModel, TokenIDs: make([]uint32, 64), Body: []byte(`{"model":"m"}`),
		})
		require.NoError(t, err)
		require.Len(t, d.Candidates, 2)
		for i := range d.Candidates {
			require.Equal(t, near, d.Candidates[i].Near > 0, "%d routers", routers)
		}
		if near {
			require.Contains(t, d.String(), "counts as equal to the best")
		} else {
			require.NotContains(t, d.String(), "counts as equal")
		}
	}
}

// The best of all is excluded by the policy: of the others, near equals are drawn.
func TestNearEqualsAreThoseThatThePolicyAllows(t *testing.T) {
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "elsewhere", Rules: []policy.Rule{{
		Name:  "not-where-it-is",
		Route: policy.Route{Exclude: []policy.Exclusion{{Name: "holders", Drop: policy.Filter{CachedTokens: policy.GreaterThan(0)}}}},
	}}})
	require.NoError(t, err)
	g := newGateways(t, gatewaysConfig{engines: 3, routers: 2, options: []kvsteer.Option{kvsteer.WithPolicy(set)}})
	ids := unique(rand.New(rand.NewPCG(8, 8)), 1600)
	s := g.pick(0, ids)
	defer s.Abort(errors.New("enough"))
	s.FirstToken() // nothing is ahead there
	d, err := g.routers[0].Explain(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids})
	require.NoError(t, err)
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if c.Name == s.Target().Worker {
			require.Contains(t, c.DroppedBy, "holders")
			require.Less(t, c.PredictedTTFT, d.Winner().PredictedTTFT/2, "it would be best")
			require.Zero(t, c.Near)
		} else {
			require.Positive(t, c.Near, c.Name)
		}
	}
}
