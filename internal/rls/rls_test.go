package rls_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/rls"
)

func sample(r *rand.Rand, truth *rls.Vector, noise float64) (rls.Vector, float64) {
	x := rls.Vector{1, r.Float64() * 10, r.Float64() * 100, r.Float64(), r.Float64() * 3, r.Float64() * 5}
	return x, truth.Dot(&x) + noise*r.NormFloat64()
}

func TestConvergesToTheTruth(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	truth := rls.Vector{0.02, 0.3, 0.001, 0.05, 0, 0.2}
	m := rls.New(rls.Vector{0, 1, 0, 0, 0, 0}, rls.Vector{10, 10, 10, 10, 10, 10}, 0.999)
	for range 500 {
		x, y := sample(r, &truth, 0.001)
		m.Update(&x, y)
	}
	for i := range truth {
		require.InDelta(t, truth[i], m.Theta[i], 0.002, "coefficient %d", i)
	}
}

func TestFollowsAChange(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	m := rls.New(rls.Vector{}, rls.Vector{10, 10, 10, 10, 10, 10}, 0.98)
	truth := rls.Vector{0.02, 0.3, 0.001, 0.05, 0, 0.2}
	for range 300 {
		x, y := sample(r, &truth, 0.001)
		m.Update(&x, y)
	}
	truth[1] = 0.9
	for range 300 {
		x, y := sample(r, &truth, 0.001)
		m.Update(&x, y)
	}
	require.InDelta(t, 0.9, m.Theta[1], 0.02)
}

func TestSurvivesDegenerateInput(t *testing.T) {
	t.Parallel()
	m := rls.New(rls.Vector{}, rls.Vector{10, 10, 10, 10, 10, 10}, 0.99)
	for _, y := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		m.Update(&rls.Vector{1, 1, 1, 1, 1, 1}, y)
	}
	require.Zero(t, m.Updates())
	for range 100_000 { // one direction only: nothing may wind up or overflow
		m.Update(&rls.Vector{1, 0, 0, 0, 0, 0}, 2)
	}
	require.InDelta(t, 2, m.Theta[0], 1e-6)
	r := rand.New(rand.NewPCG(5, 6))
	truth := rls.Vector{2, 0.3, 0.01, 0.05, 0.1, 0.2}
	for range 500 {
		x, y := sample(r, &truth, 0)
		m.Update(&x, y)
	}
	require.InDelta(t, 0.3, m.Theta[1], 0.01)
}

// Two features that always move together, one of them useless: the plain fit
// may give it a negative coefficient, the non-negative one must predict as well
// without.
func TestNonNegativeKeepsTheFit(t *testing.T) {
	t.Parallel()
	m := rls.New(rls.Vector{0.03, 0.125, 0, 0, 0, 0}, rls.Vector{5, 12, 0.5, 2, 12, 12}, 0.995)
	var x rls.Vector
	for i := range 200 {
		k := 0.264
		if i%2 == 0 {
			k = 16.264
		}
		x = rls.Vector{1, k, k * 8.1, 0, 0, 0}
		m.Update(&x, 0.008+0.0165*k)
		theta := m.NonNegative()
		for j := range theta {
			require.GreaterOrEqual(t, theta[j], 0.0)
		}
		if i > 10 {
			require.InDelta(t, 0.008+0.0165*k, theta.Dot(&x), 0.003, "observation %d: %v", i, theta)
		}
	}
}
