package predict_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/predict"
)

func randomLoad(r *rand.Rand) predict.Load {
	l := predict.Load{
		Own: float64(r.IntN(20_000)), Ahead: float64(r.IntN(2) * r.IntN(20_000)),
		Waiting: float64(r.IntN(3)), Decoding: float64(r.IntN(20)),
		Pressure: max(r.Float64()-0.5, 0), Stale: max(10*r.Float64()-5, 0),
	}
	l.OwnPairs, l.AheadPairs = l.Own*l.Own/2, l.Ahead*l.Ahead/2
	return l
}

// The fast evaluation and the terms that are fitted must be the same function:
// fitting a surface's own values must change nothing.
func TestSurfaceIsWhatIsFitted(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	f := predict.NewTTFT(0.03, 0.125, 1000, 0.995)
	for range 2000 { // towards something with every term in it
		l := randomLoad(r)
		s := predict.NewSurface(f.Coefficients())
		y, _ := s.Time(&l)
		f.UpdateTTFT(&l, y*1.01+0.02+0.05*l.Pressure+0.01*l.Stale+0.003*l.Decoding, y)
	}
	before := append([]float64(nil), f.Coefficients()...)
	frozen := predict.NewSurface(before)
	for range 500 {
		l := randomLoad(r)
		y, own := frozen.Time(&l)
		require.LessOrEqual(t, own, y)
		f.UpdateTTFT(&l, y, y)
	}
	after := predict.NewSurface(f.Coefficients())
	for range 100 {
		l := randomLoad(r)
		want, _ := frozen.Time(&l)
		got, _ := after.Time(&l)
		require.InEpsilon(t, want, got, 0.03)
	}
}

func TestSurfaceGrowsWithEveryTerm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	f := predict.NewTTFT(0.03, 0.125, 1000, 0.995)
	for range 500 {
		l := randomLoad(r)
		s := predict.NewSurface(f.Coefficients())
		y, _ := s.Time(&l)
		f.UpdateTTFT(&l, r.ExpFloat64(), y) // noise alone
		s = predict.NewSurface(f.Coefficients())
		base, own := s.Time(&l)
		for i, more := range []func(*predict.Load){
			func(l *predict.Load) { l.Own += 100 * r.Float64() },
			func(l *predict.Load) { l.Ahead += 100 * r.Float64() },
			func(l *predict.Load) { l.OwnPairs += 1e6 },
			func(l *predict.Load) { l.AheadPairs += 1e6 },
			func(l *predict.Load) { l.Waiting++ },
			func(l *predict.Load) { l.Decoding++ },
			func(l *predict.Load) { l.Pressure += 0.1 },
			func(l *predict.Load) { l.Stale++ },
		} {
			m := l
			more(&m)
			total, _ := s.Time(&m)
			require.GreaterOrEqual(t, total, base-1e-12, "term %d", i)
		}
		m := l
		m.Own += 1000
		_, mine := s.Time(&m)
		require.GreaterOrEqual(t, mine-own, 1e-3-1e-12, "a thousand tokens never come free")
	}
}

func TestTempoLearns(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	f := predict.NewITL(0.03, 0.99)
	truth := func(p *predict.Pace) float64 {
		return 0.018 + 0.0004*p.Decoding + 0.002*p.Context/1e4 + 0.01*p.Pressure
	}
	pace := func() predict.Pace {
		return predict.Pace{
			Decoding: float64(r.IntN(60)), Context: r.Float64() * 3e4, Arriving: r.Float64() * 1e4,
			Pressure: max(r.Float64()-0.7, 0),
		}
	}
	for range 1000 {
		p := pace()
		tempo := predict.NewTempo(f.Coefficients())
		f.UpdateITL(&p, truth(&p)*(0.95+0.1*r.Float64()), tempo.Time(&p))
	}
	tempo := predict.NewTempo(f.Coefficients())
	for range 100 {
		p := pace()
		require.InEpsilon(t, truth(&p), tempo.Time(&p), 0.08)
	}
}
