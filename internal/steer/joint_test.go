package steer_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Nine of ten stay below the 90th percentile of both, though the second leg's own leaves
// out that it stalls, for what would be within the first one's.
func TestJointCovers(t *testing.T) {
	t.Parallel()
	const mean, first, second = 2.0, 0.09, 0.008 // seconds
	r := rand.New(rand.NewPCG(1, 1))
	took := func() float64 {
		d := mean + first/1.28*r.NormFloat64()
		if r.Float64() < 0.099 {
			return d + 0.2*r.ExpFloat64()
		}
		return d
	}
	covers := func(j *steer.Joint) float64 {
		const n = 4000
		within := 0
		for i := range 2 * n {
			p90 := mean + j.Factor()*math.Hypot(first, second)
			d := took()
			if i >= n && d <= p90 {
				within++
			}
			j.Observe(seconds(d), seconds(p90))
		}
		return float64(within) / n
	}
	require.InDelta(t, 0.9, covers(new(steer.Joint)), 0.01)
}

func TestJointIsBounded(t *testing.T) {
	t.Parallel()
	var j steer.Joint
	require.InDelta(t, 1, j.Factor(), 0)
	j.Observe(time.Hour, 0)
	require.InDelta(t, 1, j.Factor(), 0, "nothing was predicted")
	for range 1000 {
		j.Observe(time.Hour, time.Second)
	}
	require.InEpsilon(t, math.Exp(2), j.Factor(), 1e-9)
	for range 10_000 {
		j.Observe(time.Second, time.Hour)
	}
	require.InEpsilon(t, math.Exp(-2), j.Factor(), 1e-9)
}

// What was learned of both widens what is told of both, and nothing else.
func TestRelayIsAsWideAsWasLearned(t *testing.T) {
	t.Parallel()
	place := func(name string, decoding int) *steer.Place {
		return &steer.Place{Name: name, BlockSize: 10, Trust: kvcache.Exact, Decoding: decoding}
	}
	plain := relay(place("p", 0), place("d", 20), 0)
	require.Equal(t, "p", plain.Candidates[0].PrefillOn)
	for _, factor := range []float64{0.5, 1, 3} {
		r := relayAsWide(place("p", 0), place("d", 20), 0, factor)
		for i := range r.Candidates {
			c, was := r.Candidates[i], plain.Candidates[i]
			require.Equal(t, was.PredictedTTFT, c.PredictedTTFT)
			margin, before := c.PredictedP90-c.PredictedTTFT, was.PredictedP90-was.PredictedTTFT
			require.Equal(t, was.PrefillOn, c.PrefillOn)
			if c.PrefillOn == "" {
				require.Equal(t, before, margin)
				continue
			}
			require.InEpsilon(t, factor*before.Seconds(), margin.Seconds(), 1e-6)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
