package predict_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/predict"
)

func predicted(f *predict.Fit, x []float64) float64 {
	sum := 0.0
	for i, c := range f.Coefficients() {
		sum += c * x[i]
	}
	return sum
}

func learn(f *predict.Fit, x []float64, y float64) { f.Update(x, y, predicted(f, x)) }

func wideFit(prior ...float64) *predict.Fit {
	spread := make([]float64, len(prior))
	for i := range spread {
		spread[i] = 1
	}
	return predict.NewFit(prior, spread, 0.99)
}

func draw(r *rand.Rand) []float64 {
	return []float64{1, r.Float64() * 10, r.Float64() * 20, r.Float64(), r.Float64() * 3}
}

func value(truth, x []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += truth[i] * x[i]
	}
	return sum
}

func TestFitConvergesAndFollows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	f := wideFit(0.1, 0.1, 0.1, 0.1, 0.1)
	truth := []float64{0.02, 0.3, 0.01, 0, 0.2}
	for phase := range 2 {
		for range 1500 {
			x := draw(r)
			learn(f, x, value(truth, x)*(0.99+0.02*r.Float64()))
		}
		for range 100 {
			x := draw(r)
			require.InEpsilon(t, value(truth, x), predicted(f, x), 0.05, "phase %d", phase)
		}
		truth = []float64{0.05, 0.9, 0, 0.1, 0.1} // the engine was replaced
	}
}

func TestFitIgnoresWhatIsNoMeasurement(t *testing.T) {
	t.Parallel()
	f := wideFit(1, 1)
	before := append([]float64(nil), f.Coefficients()...)
	for _, y := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1} {
		f.Update([]float64{1, 1}, y, 1)
		f.Update([]float64{1, 1}, 1, y)
		f.Update([]float64{1, math.NaN()}, 1, 1)
		f.Update([]float64{1, math.Inf(1)}, 1, 1)
	}
	require.Zero(t, f.Updates())
	require.Equal(t, before, f.Coefficients())
}

// Forgetting without excitation must neither wind up nor move what no
// observation touches, and leave it open to change.
func TestFitOfOneDirection(t *testing.T) {
	t.Parallel()
	f := wideFit(1, 0.3)
	for range 100_000 {
		learn(f, []float64{1, 0}, 2)
	}
	require.InDelta(t, 2, f.Coefficients()[0], 1e-3)
	require.InDelta(t, 0.3, f.Coefficients()[1], 1e-3)
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		x := []float64{1, r.Float64() * 10}
		learn(f, x, 2+0.1*x[1])
	}
	require.InDelta(t, 0.1, f.Coefficients()[1], 0.01)
}

// Two terms that always move together, one of them useless: the fit must predict
// as well as without it, and no coefficient may fall below zero.
func TestFitStaysNonNegative(t *testing.T) {
	t.Parallel()
	f := predict.NewFit([]float64{0.03, 0.125, 0}, []float64{0.1, 0.2, 0.01}, 0.995)
	for i := range 300 {
		k := 0.264
		if i%2 == 0 {
			k = 16.264
		}
		x := []float64{1, k, k * 8.1}
		learn(f, x, 0.008+0.0165*k)
		for j, c := range f.Coefficients() {
			require.GreaterOrEqual(t, c, 0.0, "coefficient %d", j)
		}
		if i > 100 {
			require.InEpsilon(t, 0.008+0.0165*k, predicted(f, x), 0.1, "observation %d", i)
		}
	}
}

// A stall is forgotten, a speed-up is not.
func TestFitOutliersAreTooSlowNeverTooFast(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	steady := func() *predict.Fit {
		f := wideFit(1, 0.1)
		for range 300 {
			x := []float64{1, r.Float64() * 10}
			learn(f, x, (0.5+0.1*x[1])*(0.9+0.2*r.Float64()))
		}
		return f
	}
	x := []float64{1, 5}
	slow, fast := steady(), steady()
	for range 5 {
		learn(slow, x, 10)
		learn(fast, x, 0.1)
	}
	require.InEpsilon(t, 1, predicted(slow, x), 0.1)
	require.Less(t, predicted(fast, x), 0.95)
}

// Wrong features (a lost event hides that a prompt is cached) give observations
// of enormous leverage that contradict everything else. Recursive least squares
// in covariance form ended at predictions a thousand times too long.
func TestFitSurvivesContradictions(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 8))
	f := predict.NewTTFT(0.03, 0.125, 1000, 0.995)
	actual := func(l *predict.Load) float64 { return 0.01 + (l.Own+l.Ahead)/12e3 + (l.OwnPairs+l.AheadPairs)*2e-10 }
	surface := predict.NewSurface(f.Coefficients())
	for i := range 20_000 {
		l := predict.Load{Own: math.Exp(5 + 6*r.Float64()), Decoding: float64(r.IntN(10))}
		if r.IntN(2) == 0 {
			l.Ahead = math.Exp(4 + 6*r.Float64())
		}
		l.OwnPairs, l.AheadPairs = l.Own*l.Own/2, l.Ahead*l.Ahead/2
		y := actual(&l) * (0.95 + 0.1*r.Float64())
		if r.IntN(50) == 0 {
			y = 0.05 // it was cached
		}
		expected, _ := surface.Time(&l)
		if i > 500 {
			require.Less(t, expected, 3*actual(&l)+0.2, "observation %d: %+v", i, l)
		}
		f.UpdateTTFT(&l, y, expected)
		surface = predict.NewSurface(f.Coefficients())
	}
}

// Most requests find an idle engine and take what they always take; the few that
// queue take several times as long, and are no outliers.
func TestFitLearnsWhatIsRare(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(10, 10))
	f := predict.NewTTFT(0.03, 0.02, 1000, 0.995) // an optimist
	actual := func(l *predict.Load) float64 { return 0.02 + (l.Own+l.Ahead)/10e3 }
	draw := func(queued bool) predict.Load {
		l := predict.Load{Own: float64(50 + r.IntN(2000))}
		if queued {
			l.Ahead = float64(2000 + r.IntN(10_000))
		}
		return l
	}
	for i := range 3000 {
		l := draw(i > 1000 && i%15 == 0)
		s := predict.NewSurface(f.Coefficients())
		expected, _ := s.Time(&l)
		f.UpdateTTFT(&l, actual(&l)*(0.99+0.02*r.Float64()), expected)
	}
	s := predict.NewSurface(f.Coefficients())
	for range 50 {
		l := draw(true)
		got, _ := s.Time(&l)
		require.InEpsilon(t, actual(&l), got, 0.1, "%+v", l)
	}
}

func TestFitState(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	f := wideFit(0.1, 0.1, 0.1, 0.1, 0.1)
	for range 50 {
		x := draw(r)
		learn(f, x, 0.3*x[1]+0.2)
	}
	state := f.AppendState(nil)
	require.Len(t, state, f.StateLen())
	g := wideFit(1, 1, 1, 1, 1)
	require.NoError(t, g.SetState(state))
	x := draw(r)
	learn(f, x, 3)
	learn(g, x, 3)
	require.Equal(t, f.AppendState(nil), g.AppendState(nil))

	before := g.AppendState(nil)
	bad := func(name string, at int, v float64) {
		s := append([]float64(nil), state...)
		s[at] = v
		require.Error(t, g.SetState(s), name)
		require.Equal(t, before, g.AppendState(nil), name)
	}
	bad("count", 0, -1)
	bad("fraction", 0, 1.5)
	bad("scale", 1, 0)
	bad("negative coefficient", 2, -0.1)
	bad("not a number", 3, math.NaN())
	bad("moment", 7, math.Inf(1))
	bad("no weight", 12, 0)
	bad("asymmetry", 13, state[13]+100)
	require.Error(t, g.SetState(state[1:]))
}
