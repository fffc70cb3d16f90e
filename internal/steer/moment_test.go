package steer_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// bids are a contender's by worker: what its prompt costs there, and takes.
func bids(prefills ...float64) []steer.Bid {
	var list []steer.Bid
	for place, p := range prefills {
		list = append(list, steer.Bid{Place: place, Cost: p, Prefill: p})
	}
	slices.SortStableFunc(list, func(a, b steer.Bid) int { return cmp.Compare(a.Cost, b.Cost) })
	return list
}

func TestOrderOfAMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all  []steer.Contender
		want []int
	}{
		"nobody":      {nil, []int{}},
		"alone":       {[]steer.Contender{{Bids: bids(1, 2)}}, []int{0}},
		"no bids":     {[]steer.Contender{{Bids: bids(1)}, {}}, []int{1, 0}},
		"the shorter": {[]steer.Contender{{Bids: bids(3)}, {Bids: bids(1)}, {Bids: bids(2)}}, []int{1, 2, 0}},
		// The first is shorter, and would take by little what the other needs by far.
		"who has a cache there": {[]steer.Contender{{Bids: bids(1.9, 2)}, {Bids: bids(2, 9)}}, []int{1, 0}},
		"but a priority holds": {
			[]steer.Contender{{Bids: bids(1.9, 2)}, {Bids: bids(2, 9), Priority: 1}},
			[]int{0, 1},
		},
		"equal ones as they came": {[]steer.Contender{{Bids: bids(1, 1)}, {Bids: bids(1, 1)}}, []int{0, 1}},
	} {
		var m steer.Moment
		require.Equal(t, c.want, append([]int{}, m.Order(c.all)...), name)
	}
}

// taken is the sum of objectives if each in order takes the best that is left.
func taken(all []steer.Contender, order []int) (sum float64) {
	added := map[int]float64{}
	for _, i := range order {
		best := -1
		cost := func(b *steer.Bid) float64 { return b.Cost + added[b.Place] }
		for k := range all[i].Bids {
			if best < 0 || cost(&all[i].Bids[k]) < cost(&all[i].Bids[best]) {
				best = k
			}
		}
		if best >= 0 {
			sum += cost(&all[i].Bids[best])
			added[all[i].Bids[best].Place] += all[i].Bids[best].Prefill
		}
	}
	return sum
}

// The order is one of all, no worse than the shortest first, mostly better than that of
// arrival, and no exchange of two makes it better.
func TestOrderOfAMomentIsGood(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var m steer.Moment
	better := 0
	for range 300 {
		all := make([]steer.Contender, 1+rng.IntN(6))
		come := make([]int, len(all))
		for i := range all {
			prefills := make([]float64, 1+rng.IntN(4))
			for k := range prefills {
				prefills[k] = rng.ExpFloat64()
			}
			all[i].Bids, come[i] = bids(prefills...), i
		}
		order := slices.Clone(m.Order(all))
		sorted := slices.Clone(order)
		slices.Sort(sorted)
		require.Equal(t, come, sorted)
		got, arrived := taken(all, order), taken(all, come)
		shortest := slices.Clone(come)
		slices.SortStableFunc(shortest, func(a, b int) int { return cmp.Compare(all[a].Bids[0].Prefill, all[b].Bids[0].Prefill) })
		require.LessOrEqual(t, got, taken(all, shortest)*(1+1e-6))
		if got < arrived*0.99 {
			better++
		}
		for b := range order {
			for a := range b {
				order[a], order[b] = order[b], order[a]
				require.GreaterOrEqual(t, taken(all, order), got*(1-1e-6))
				order[a], order[b] = order[b], order[a]
			}
		}
	}
	require.Greater(t, better, 100)
}

func TestOrderOfAMomentAllocatesNothing(t *testing.T) {
	var m steer.Moment
	all := []steer.Contender{{Bids: bids(3, 1)}, {Bids: bids(1, 2)}, {Bids: bids(2, 2)}}
	m.Order(all)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Order(all) }))
}
