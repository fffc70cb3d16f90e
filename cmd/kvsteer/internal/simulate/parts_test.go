package simulate

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPool(t *testing.T) {
	p := newPool(4)
	require.Equal(t, 0, p.use([]uint64{1, 2, 3}))
	require.Equal(t, 2, p.use([]uint64{1, 2, 4}))
	require.Equal(t, 2, p.hits([]uint64{1, 2, 9}))
	// Of 1, 2, 4, 3 the third is the oldest.
	require.Equal(t, 0, p.use([]uint64{5}))
	require.Equal(t, 2, p.hits([]uint64{1, 2, 3}))
	require.Equal(t, 3, p.hits([]uint64{1, 2, 4}))
	// A prompt's end leaves before its beginning.
	require.Equal(t, 0, p.use([]uint64{6}))
	require.Equal(t, 2, p.hits([]uint64{1, 2, 4}))
	require.Len(t, p.nodes, 4)
}

func TestQuantile(t *testing.T) {
	require.Zero(t, Quantile(nil, 0.5))
	require.InDelta(t, 7.0, Quantile([]float64{7}, 0.99), 0)
	require.InDelta(t, 2.5, Quantile([]float64{1, 2, 3, 4}, 0.5), 1e-12)
	require.InDelta(t, 4.0, Quantile([]float64{1, 2, 3, 4}, 1), 0)
}

// On a worker with nothing else to do the truth is exact, but for the attention
// that a chunk's own pairs take.
func TestTrueTTFTOfAnIdleWorker(t *testing.T) {
	cfg := small()
	cfg.Rate, cfg.Duration = 0.05, 200*time.Second
	r, err := NewRule("lowest-ttft", 1)
	require.NoError(t, err)
	w := &checking{Rule: r, t: t}
	_, err = Run(context.Background(), cfg, workloads(t, 1)["control"], w)
	require.NoError(t, err)
	require.Positive(t, w.checked)
}

type checking struct {
	Rule
	t       *testing.T
	told    time.Duration
	idle    bool
	checked int
}

func (w *checking) Pick(s *State) int {
	i := w.Rule.Pick(s)
	w.told, w.idle = trueTTFT(s, &s.Workers[i]), s.Workers[i].InFlight == 0
	return i
}

func (w *checking) FirstToken(_ *Job, ttft time.Duration) {
	if w.idle {
		require.InEpsilon(w.t, ttft.Seconds(), w.told.Seconds(), 0.01)
		w.checked++
	}
}

// What the router counts on a worker, step by step.
func TestBookings(t *testing.T) {
	cfg := small()
	cfg.Rate = 1
	c, err := newCluster(cfg, workloads(t, 1)["control"], &RoundRobin{})
	require.NoError(t, err)
	call := &Call{Prompt: 1000, Output: 2, Blocks: extend(nil, 64, 1000, kindUnique, 1)}
	j := &Job{Call: call}
	require.NoError(t, c.admit(j))
	v := &c.routers[0].views[0]
	require.Equal(t, 1, v.InFlight)
	require.Equal(t, 1, v.Prefilling)
	require.Equal(t, 1000, v.PrefillTokens)
	require.Equal(t, int64(500_500), v.PrefillPairs)
	require.Len(t, v.Live, 15)
	require.Equal(t, 1, v.Tails)

	// A sibling finds the booked blocks: 15 of 64 tokens.
	sibling := &Job{Call: &Call{Prompt: 1000, Output: 2, Blocks: call.Blocks}}
	sibling.keys = j.keys
	s := c.routers[0].look(sibling)
	require.Equal(t, 960, s.Workers[0].CachedTokens)
	require.Zero(t, s.Workers[1].CachedTokens)

	c.now = time.Second
	c.firstToken(j.Leg)
	require.Equal(t, 1, v.InFlight)
	require.Zero(t, v.Prefilling+v.PrefillTokens)
	require.Zero(t, v.PrefillPairs)
	require.Equal(t, 1, v.Decoding)
	require.Equal(t, time.Second, v.PrefillSince)
	c.end(j.Leg)
	require.Zero(t, v.InFlight+v.Decoding+v.Tails+len(v.Live))
}

// Metrics that are looked at now and then stay as they were meanwhile.
func TestStaleMetrics(t *testing.T) {
	cfg := small()
	cfg.Rate, cfg.Faults.Stale = 20, time.Second
	seen := &watching{Rule: &RoundRobin{}, at: map[time.Duration]bool{}}
	_, err := Run(context.Background(), cfg, workloads(t, 1)["control"], seen)
	require.NoError(t, err)
	require.NotEmpty(t, seen.at)
	for at := range seen.at {
		require.Less(t, at, cfg.Duration)
	}
	require.LessOrEqual(t, len(seen.at), 41, "at most one change a second")
}

type watching struct {
	Rule
	last int
	at   map[time.Duration]bool // seconds in which the report changed
}

func (w *watching) Pick(s *State) int {
	if n := s.Workers[0].Waiting + s.Workers[0].Running; n != w.last {
		w.last = n
		w.at[s.Now.Truncate(time.Second)] = true
	}
	return w.Rule.Pick(s)
}

func TestChart(t *testing.T) {
	c := &Chart{
		Title: "a < b & c", XLabel: "x", YLabel: "y", LogX: true,
		Series: []Series{
			CDF("one", []float64{0, 0.5, 1, 2, 9}), CDF("none", nil),
			{Name: "gap", X: []float64{1, 2, 3}, Y: []float64{0.1, math.NaN(), 0.3}},
		},
	}
	var b bytes.Buffer
	require.NoError(t, c.WriteSVG(&b))
	require.NotContains(t, b.String(), "NaN")
	require.NotContains(t, b.String(), "Inf")
	d := xml.NewDecoder(&b)
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.NoError(t, (&Chart{}).WriteSVG(io.Discard))
}

// Axes have lines at round values.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		a    axis
		want []float64
	}{
		{axis{low: 0, high: 113}, []float64{0, 50, 100}},
		{axis{low: 0, high: 1}, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{axis{low: 0.29, high: 38, log: true}, []float64{0.5, 1, 2, 5, 10, 20}},
		{axis{low: 1, high: 10, log: true}, []float64{1, 2, 5, 10}},
	} {
		require.InDeltaSlice(t, c.want, c.a.marks(), 1e-9)
	}
}
