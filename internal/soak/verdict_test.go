package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	madeEach   = 15 // samples in a period
	madeLength = 10 // periods
)

// made are samples of the heap over ten generations, noise of 2% in each and a spike now and
// then.
func made(seed uint64, value func(at float64, inPeriod float64) float64) [][]sample {
	r := rand.New(rand.NewPCG(seed, 2))
	all := make([]sample, madeEach*madeLength)
	for i := range all {
		v := value(float64(i)/float64(len(all)), float64(i%madeEach)/madeEach) * (1 + 0.02*r.NormFloat64())
		if i%7 == 3 {
			v *= 1.5
		}
		all[i].at = time.Duration(i) * 10 * time.Second
		all[i].happened = i
		all[i].values[heap] = v
	}
	groups, _ := periods(all, madeEach)
	return groups
}

// What is to be shown is that nothing grows by more than the limit: so no leak of six in a
// hundred may pass, be it as slow as the run is long, and a series that goes up and down
// fourfold with its period must, if it does the same each time.
func TestJudge(t *testing.T) {
	const level, limit = 1e5, 0.05
	fourfold := func(in float64) float64 { return level * (0.5 + 1.5*in) }
	for _, c := range []struct {
		name  string
		value func(at, in float64) float64
		passes,
		grows bool
	}{
		{"noise and spikes", func(float64, float64) float64 { return level }, true, false},
		{"fourfold with each period", func(_, in float64) float64 { return fourfold(in) }, true, false},
		{"falls", func(at, _ float64) float64 { return level * (1 - 0.3*at) }, true, false},
		{"two in a hundred", func(at, _ float64) float64 { return level * (1 + 0.02*at) }, true, false},
		{"six in a hundred, slowly", func(at, _ float64) float64 { return level * (1 + 0.06*at) }, false, false},
		{"six in a hundred beneath what goes up and down fourfold", func(at, in float64) float64 { return fourfold(in) + 0.06*1.25*level*at }, false, false},
		{"twelve in a hundred, slowly", func(at, _ float64) float64 { return level * (1 + 0.12*at) }, false, true},
		{"a step in the middle", func(at, _ float64) float64 {
			if at > 0.5 {
				return level * 1.1
			}
			return level
		}, false, true},
		{"much of very little", func(at, _ float64) float64 { return 100 + 100*at }, true, false}, // within what it may be off
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				groups := made(seed, c.value)
				require.Equal(t, madeLength, len(groups)) //nolint:testifylint // Len would print them all
				got := judge(groups, limit)
				require.Len(t, got, int(measures))
				require.Equal(t, c.passes, !got[heap].grows && !got[heap].unclear, "%+v", got[heap])
				if c.grows {
					require.True(t, got[heap].grows, "%+v", got[heap])
				}
				require.False(t, got[goroutines].grows || got[goroutines].unclear)
			}
		})
	}
}

// Where chance is too great to tell, it is not told that all is well.
func TestWhatCantBeToldIsNoPass(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := made(1, func(float64, float64) float64 { return 1e5 })
	for _, g := range all {
		by := 1 + 0.2*r.NormFloat64()
		for i := range g {
			g[i].values[heap] *= by
		}
	}
	got := judge(all, 0.05)[heap]
	require.True(t, got.grows || got.unclear, "%+v", got)
}

// One Selection that is left is one too many.
func TestSelectionsHaveNoSlack(t *testing.T) {
	all := made(1, func(float64, float64) float64 { return 1 })
	require.False(t, judge(all, 0.05)[selections].grows)
	for _, g := range all[madeLength-2:] {
		for i := range g {
			g[i].values[selections] = 1
		}
	}
	require.True(t, judge(all, 0.05)[selections].grows)
}

func TestPeriodsAreWholeAndEndWithTheRun(t *testing.T) {
	all := make([]sample, 100)
	for i := range all {
		all[i].happened = i
	}
	groups, whole := periods(all, 15)
	require.True(t, whole)
	require.Len(t, groups, 6)
	require.Equal(t, 99, groups[5][14].happened, "the end is judged")
	require.Equal(t, 10, groups[0][0].happened, "what fills no period goes")
	for _, g := range groups {
		require.Len(t, g, 15)
	}
	groups, whole = periods(all, 50)
	require.False(t, whole, "two periods are too few")
	require.Len(t, groups, fewestPeriods)
	require.Equal(t, 0, groups[0][0].happened)
	require.Equal(t, 99, groups[5][len(groups[5])-1].happened)
	groups, _ = periods(nil, 5)
	require.Empty(t, groups)
}

func TestWarmUpIsNotJudged(t *testing.T) {
	all := make([]sample, 20)
	for i := range all {
		all[i].at = time.Duration(i) * time.Minute
	}
	kept := after(all, 5*time.Minute)
	require.Len(t, kept, 15)
	require.Equal(t, 5*time.Minute, kept[0].at)
	require.Len(t, all, 20)
}

func TestMiddleBearsOutliers(t *testing.T) {
	require.InDelta(t, 2.5, middle([]float64{1e9, 2, 3, -1e9}), 1e-9)
	require.InDelta(t, 7, middle([]float64{7}), 1e-9)
	require.Zero(t, middle(nil))
}

func TestThrough(t *testing.T) {
	x, y := make([]float64, 20), make([]float64, 20)
	for i := range x {
		x[i], y[i] = float64(i), 3*float64(i)+1
	}
	l := through(x, y)
	require.InDelta(t, 3, l.slope, 1e-9)
	require.InDelta(t, 1, l.at(0), 1e-9)
	require.InDelta(t, 0, l.slopeError, 1e-9)
	y[0], y[19] = y[0]+1, y[19]-1
	require.Greater(t, through(x, y).slopeError, 0.01)
	l = through([]float64{1, 1}, []float64{1, 2})
	require.Zero(t, l.slope)
	require.False(t, math.IsNaN(l.at(1)))
	require.Greater(t, student(1), student(2))
	require.InDelta(t, student(20), student(1000), 1e-9)
}

func TestReportSaysWhatIsWrong(t *testing.T) {
	r := &report{config: defaults(time.Minute, 100), ran: time.Minute, sent: 6000, known: known{exact: 95, rest: 5, silent: 50}}
	require.Empty(t, r.violations())
	require.Empty(t, r.slow())
	r.drained = time.Minute
	require.Contains(t, r.slow(), "50.0/s instead of 100/s")
	r.counts[failed], r.failures = 1, []string{"it broke"}
	r.left = []string{"something is left"}
	require.Len(t, r.violations(), 2)
	require.Contains(t, r.violations()[0], "it broke")
	r.known.rest = 20
	require.Len(t, r.violations(), 3)
	require.Contains(t, r.violations()[1], "only 83% are, of at least 90%")
	r.judged = []judgement{{measure: heap, growth: 0.01, atMost: 0.09, unclear: true}}
	require.Len(t, r.violations(), 4)
	require.Contains(t, r.violations()[0], "it is not shown that it does not grow")
}

func TestTimes(t *testing.T) {
	var all times
	require.Zero(t, all.quantile(0.5))
	for i := range 1000 {
		all.add(time.Duration(i+1) * time.Millisecond)
	}
	require.InEpsilon(t, 500*time.Millisecond, all.quantile(0.5), 0.1)
	require.InEpsilon(t, 990*time.Millisecond, all.quantile(0.99), 0.1)
	require.Equal(t, time.Second, all.quantile(1))
	all.add(0)
	all.add(1 << 62)
	require.Equal(t, time.Duration(1<<62), all.most)
}
