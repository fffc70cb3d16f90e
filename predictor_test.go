package kvsteer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

func predict(p kvsteer.Predictor, f kvsteer.Features) kvsteer.Prediction {
	out := make([]kvsteer.Prediction, 1)
	p.Predict([]kvsteer.Features{f}, out)
	return out[0]
}

// engineTTFT is a made-up engine: 60,000 tokens a second, some attention.
func engineTTFT(f *kvsteer.Features, slow float64) time.Duration {
	work := float64(f.Uncached+f.AheadTokens)/60_000 +
		(kvsteer.AttentionPairs(f.Uncached, f.Cached)+f.AheadPairs)*1e-10 + 0.004*float64(f.Decoding)
	return time.Duration((0.012 + work) * slow * float64(time.Second))
}

func randomFeatures(r *rand.Rand, workers int) kvsteer.Features {
	total := 500 + r.IntN(20_000)
	cached := r.IntN(total)
	ahead := r.IntN(3) * r.IntN(10_000)
	return kvsteer.Features{
		Model: "m", Worker: fmt.Sprintf("w%d", r.IntN(workers)),
		Uncached: total - cached, Cached: cached,
		AheadTokens: ahead, AheadPairs: kvsteer.AttentionPairs(ahead, 0), Decoding: r.IntN(20),
	}
}

func TestPredictorStartsFromThePrior(t *testing.T) {
	t.Parallel()
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{PriorTokensPerSecond: 1000, PriorBase: time.Second})
	got := predict(p, kvsteer.Features{Model: "m", Uncached: 2000})
	require.Equal(t, 3*time.Second, got.TTFT.Round(time.Millisecond))
	require.Equal(t, 2*time.Second, got.Externality.Round(time.Millisecond))
	require.Zero(t, got.Observations)
	// Nothing to compute: no cost to others either.
	require.Zero(t, predict(p, kvsteer.Features{Model: "m", Cached: 2000}).Externality)
}

func TestPredictorLearns(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 300 {
		f := randomFeatures(r, 4)
		p.Observe(&f, time.Duration(float64(engineTTFT(&f, 1))*(0.97+0.06*r.Float64())))
	}
	within := 0
	for range 200 {
		f := randomFeatures(r, 4)
		want := engineTTFT(&f, 1)
		got := predict(p, f)
		require.Equal(t, 300, got.Observations)
		if diff := got.TTFT - want; diff.Abs() < want/10+2*time.Millisecond {
			within++
		}
	}
	require.Greater(t, within, 180, "of 200 within 10%%")
}

func TestPredictorLearnsThatOneWorkerIsSlow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 600 {
		f := randomFeatures(r, 4)
		slow := 1.0
		if f.Worker == "w3" {
			slow = 3
		}
		p.Observe(&f, engineTTFT(&f, slow))
	}
	f := kvsteer.Features{Model: "m", Worker: "w0", Uncached: 10_000}
	fast := predict(p, f).TTFT
	f.Worker = "w3"
	require.InEpsilon(t, 3*fast.Seconds(), predict(p, f).TTFT.Seconds(), 0.35)
}

func TestPredictorShrugsOffOutliers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for i := range 400 {
		f := randomFeatures(r, 1)
		ttft := engineTTFT(&f, 1)
		if i > 100 && i%20 == 0 {
			ttft += 30 * time.Second // somebody compiled a kernel
		}
		p.Observe(&f, ttft)
	}
	f := kvsteer.Features{Model: "m", Worker: "w0", Uncached: 6000}
	require.InEpsilon(t, engineTTFT(&f, 1).Seconds(), predict(p, f).TTFT.Seconds(), 0.4)
}

// More work never predicts less time, whatever was observed.
func TestPredictionsGrowWithWork(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 4))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 300 {
		f := randomFeatures(r, 3)
		p.Observe(&f, time.Duration(r.ExpFloat64()*float64(time.Second))) // noise alone
		base := randomFeatures(r, 3)
		more := base
		more.Uncached += 1000
		more.AheadTokens += 1000
		more.Decoding++
		require.LessOrEqual(t, predict(p, base).TTFT, predict(p, more).TTFT)
	}
}

func ExampleNewPredictor() {
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{PriorTokensPerSecond: 10_000, PriorBase: 20 * time.Millisecond})
	out := make([]kvsteer.Prediction, 2)
	p.Predict([]kvsteer.Features{
		{Model: "qwen3", Uncached: 16_000},             // nothing cached
		{Model: "qwen3", Uncached: 200, Cached: 15800}, // most of it cached
	}, out)
	fmt.Println(out[0].TTFT.Round(time.Millisecond), out[1].TTFT.Round(time.Millisecond))
	// Output: 1.62s 40ms
}

// What met a crowd widens the quantiles, and is no observation of what work takes.
func TestCrowdsWidenTheQuantiles(t *testing.T) {
	t.Parallel()
	f := kvsteer.Features{Model: "m", Class: "c", Worker: "w", Uncached: 4000}
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 100 {
		p.Observe(&f, time.Second)
	}
	before := predict(p, f)
	crowd, ok := p.(kvsteer.CrowdObserver)
	require.True(t, ok)
	const more = 300
	for range more {
		crowd.ObserveCrowded(&f, 3*time.Second)
		p.Observe(&f, time.Second)
	}
	after := predict(p, f)
	require.Greater(t, after.P90.Seconds(), 2*before.P90.Seconds())
	require.Equal(t, before.Observations+more, after.Observations)
	crowd.ObserveCrowded(&f, 0) // no time
	require.Equal(t, after, predict(p, f))
}
