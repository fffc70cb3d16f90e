package kvsteer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
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
