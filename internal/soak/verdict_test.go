package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made are samples of the heap, one a minute, noise of 2% in it and a spike now and then.
func made(n int, value func(i int) float64) []sample {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]sample, n)
	for i := range all {
		v := value(i) * (1 + 0.02*r.NormFloat64())
		if i%7 == 3 {
			v *= 3
		}
		all[i].at = time.Duration(i) * time.Minute
		all[i].values[heap] = v
	}
	return all
}

func TestJudge(t *testing.T) {
	const n, level, limit = 51, 1e5, 0.05
	for _, c := range []struct {
		name  string
		value func(i int) float64
		grows bool
	}{
		{"noise and spikes", func(int) float64 { return level }, false},
		{"falls", func(i int) float64 { return level * (1 - 0.3*float64(i)/n) }, false},
		{"two in a hundred", func(i int) float64 { return level * (1 + 0.02*float64(i)/n) }, false},
		{"ten in a hundred, slowly", func(i int) float64 { return level * (1 + 0.1*float64(i)/n) }, true},
		{"a step in the middle", func(i int) float64 {
			if i > n/2 {
				return level * 1.1
			}
			return level
		}, true},
		{"much of very little", func(i int) float64 { return 100 + 2*float64(i) }, false}, // within what it may be off
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge(made(n, c.value), limit)
			require.Len(t, got, int(measures))
			require.Equal(t, c.grows, got[heap].grows, "%+v", got[heap])
			require.False(t, got[goroutines].grows)
		})
	}
}

// One Selection that is left is one too many.
func TestSelectionsHaveNoSlack(t *testing.T) {
	all := made(12, func(int) float64 { return 1 })
	for i := 8; i < 12; i++ {
		all[i].values[selections] = 1
	}
	require.True(t, judge(all, 0.05)[selections].grows)
}

func TestWarmUpIsNotJudged(t *testing.T) {
	all := made(20, func(int) float64 { return 1 })
	kept := after(all, 5*time.Minute)
	require.Len(t, kept, 15)
	require.Equal(t, 5*time.Minute, kept[0].at)
	require.Len(t, all, 20)
}

func TestTheilSenBearsOutliers(t *testing.T) {
	x, y := make([]float64, 20), make([]float64, 20)
	for i := range x {
		x[i], y[i] = float64(i), 3*float64(i)
	}
	y[3], y[11], y[17] = 1e6, -1e6, 1e6
	require.InDelta(t, 3, theilSen(x, y), 1e-9)
	require.Zero(t, theilSen([]float64{1, 1}, []float64{1, 2}))
}

func TestInjectedExplainsWhatWasDone(t *testing.T) {
	i := newInjected()
	asked := time.Now()
	require.False(t, i.explains("a", asked))
	up := i.killing("a")
	require.True(t, i.explains("a", asked), "it is dead")
	require.False(t, i.explains("b", asked), "it was another")
	up()
	require.True(t, i.explains("a", asked), "it died after it was asked")
	require.False(t, i.explains("a", time.Now().Add(time.Second)), "it had been up again")
	i.cut("b", 1)
	require.True(t, i.explains("b", asked))
	require.False(t, i.explains("b", asked), "only one was cut off")
}

func TestReportSaysWhatIsWrong(t *testing.T) {
	r := &report{config: defaults(time.Minute, 100), ran: time.Minute, sent: 6000}
	require.Empty(t, r.violations())
	require.Empty(t, r.slow())
	r.drained = time.Minute
	require.Contains(t, r.slow(), "50.0/s instead of 100/s")
	r.counts[failed], r.failures = 1, []string{"it broke"}
	r.left = []string{"something is left"}
	require.Len(t, r.violations(), 2)
	require.Contains(t, r.violations()[0], "it broke")
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
