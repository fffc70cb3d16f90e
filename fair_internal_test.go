package kvsteer

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// What is to be settled does not pile up while nobody chooses.
func TestDuesAreBounded(t *testing.T) {
	t.Parallel()
	o := &QueueOptions{Fair: FairOptions{HalfLife: time.Hour}}
	o.fill()
	r := &Router{queue: newQueue(o)}
	now := time.Unix(1000, 0)
	r.opts.now = func() time.Time { return now }
	s := &Selection{router: r, weight: 1, charged: time.Second}
	a := &attempt{started: now.Add(-3 * time.Second), ttft: time.Second}
	for range 10 * maxDues {
		r.settleShare(s, a, &Decision{Chosen: -1}, Usage{})
		require.LessOrEqual(t, len(r.queue.dues.list), maxDues)
	}
	require.Equal(t, 1, r.queue.line.Tenants())
}

// Whatever predictors and engines say, the work of a request is within bounds.
func TestWorked(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	winner := func(itl time.Duration) *Decision {
		return &Decision{Candidates: []DecisionCandidate{{Candidate: policy.Candidate{PredictedITL: itl}}}}
	}
	known := Usage{Uncached: 50, CacheRead: 50, Output: 100, Known: true, CachedKnown: true}
	for _, c := range []struct {
		name    string
		a       attempt
		d       *Decision
		u       Usage
		charged time.Duration
		want    time.Duration
	}{
		{"nothing came", attempt{}, winner(0), Usage{}, time.Second, time.Second},
		{"half was cached", attempt{leg: leg{features: Features{Uncached: 100}}}, winner(0), known, time.Second, time.Second / 2},
		{"a proxy took it elsewhere", attempt{leg: leg{features: Features{Uncached: 100}}, moved: true}, winner(0), known, time.Second, time.Second},
		{"generated for ten seconds", attempt{started: now.Add(-11 * time.Second), ttft: time.Second}, winner(0), Usage{}, time.Second, 11 * time.Second},
		{
			"with four others",
			attempt{leg: leg{features: Features{Decoding: 4}}, started: now.Add(-11 * time.Second), ttft: time.Second},
			winner(0),
			Usage{},
			time.Second, 3 * time.Second,
		},
		{"read slowly", attempt{started: now.Add(-11 * time.Second), ttft: time.Second}, winner(10 * time.Millisecond), known, time.Second, 2 * time.Second},
		{"never", attempt{}, winner(0), Usage{}, math.MaxInt64, maxWork},
		{"an engine's nonsense", attempt{leg: leg{features: Features{Uncached: 1}}}, winner(0), Usage{Uncached: math.MaxInt32, Known: true, CachedKnown: true}, time.Second, 100 * time.Second},
		{"less than nothing", attempt{leg: leg{features: Features{Uncached: 1}}}, winner(0), Usage{Uncached: -5, Known: true, CachedKnown: true}, time.Second, 0},
		{"a clock that goes back", attempt{started: now.Add(time.Hour), ttft: time.Second}, winner(0), Usage{}, time.Second, time.Second},
		{"no winner", attempt{started: now.Add(-2 * time.Second), ttft: time.Second}, &Decision{Chosen: -1}, known, 0, time.Second},
	} {
		prefill, generated := c.a.worked(c.d, c.u, c.charged, now)
		require.Equal(t, c.want, prefill+generated, c.name)
		require.GreaterOrEqual(t, generated, time.Duration(0), c.name)
	}
}
