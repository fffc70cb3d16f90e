package kvsteer_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// trained is a predictor that has seen n requests of the made-up engine.
func trained(tb testing.TB, seed uint64, n, workers int) kvsteer.Predictor {
	tb.Helper()
	r := rand.New(rand.NewPCG(seed, seed))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range n {
		f := randomFeatures(r, workers)
		p.Observe(&f, time.Duration(float64(engineTTFT(&f, 1))*(0.9+0.2*r.Float64())))
	}
	return p
}

// Whatever was observed, each kind of work costs something or nothing, and the
// quantiles stand in order.
func TestPredictionsAreMonotoneInEverything(t *testing.T) {
	t.Parallel()
	more := map[string]func(*kvsteer.Features, *rand.Rand){
		"uncached": func(f *kvsteer.Features, r *rand.Rand) { f.Uncached += 1 + r.IntN(5000) },
		"cached":   func(f *kvsteer.Features, r *rand.Rand) { f.Cached += 1 + r.IntN(5000) },
		"evicted": func(f *kvsteer.Features, r *rand.Rand) {
			n := min(f.Cached, 1+r.IntN(5000))
			f.Cached, f.Uncached = f.Cached-n, f.Uncached+n
		},
		"ahead":    func(f *kvsteer.Features, r *rand.Rand) { f.AheadTokens += 1 + r.IntN(5000) },
		"pairs":    func(f *kvsteer.Features, r *rand.Rand) { f.AheadPairs += 1e7 * r.Float64() },
		"waiting":  func(f *kvsteer.Features, r *rand.Rand) { f.Waiting += 1 + r.IntN(5) },
		"decoding": func(f *kvsteer.Features, r *rand.Rand) { f.Decoding += 1 + r.IntN(5) },
		"kv usage": func(f *kvsteer.Features, r *rand.Rand) { f.KVUsage += r.Float64() },
		"age":      func(f *kvsteer.Features, r *rand.Rand) { f.ReportAge += time.Duration(r.Int64N(1e10)) },
		"output":   func(f *kvsteer.Features, r *rand.Rand) { f.OutputTokens = max(f.OutputTokens, 1) + r.IntN(99) },
	}
	r := rand.New(rand.NewPCG(11, 11))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 400 {
		f := randomFeatures(r, 3)
		f.KVUsage, f.ReportAge = r.Float64(), time.Duration(r.Int64N(1e10))
		p.Observe(&f, time.Duration(r.ExpFloat64()*float64(time.Second))) // noise alone
		p.(kvsteer.DecodeObserver).ObserveDecode(&f, time.Duration(r.ExpFloat64()*1e7), 1+r.IntN(500))
		base := randomFeatures(r, 3)
		base.OutputTokens = 100
		low := predict(p, base)
		require.LessOrEqual(t, low.Prefill, low.TTFT)
		require.GreaterOrEqual(t, low.P90, max(low.TTFT, low.P50))
		require.GreaterOrEqual(t, low.E2E, low.TTFT)
		for name, add := range more {
			f := base
			add(&f, r)
			high := predict(p, f)
			require.GreaterOrEqual(t, high.TTFT+1, low.TTFT, name) // a nanosecond of rounding
			require.GreaterOrEqual(t, high.P50+1, low.P50, name)
			require.GreaterOrEqual(t, high.P90+1, low.P90, name)
			require.GreaterOrEqual(t, high.ITL+1, low.ITL, name)
		}
	}
}

// What a prompt costs others doesn't depend on what is ahead of it, or a busy
// worker could be preferred to an idle one.
func TestExternalityIsThePromptsOwn(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 19))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 300 {
		f := randomFeatures(r, 1)
		p.Observe(&f, time.Duration(r.ExpFloat64()*float64(time.Second)))
		idle := kvsteer.Features{Model: "m", Uncached: 1 + r.IntN(20_000), Cached: r.IntN(20_000)}
		busy := idle
		busy.AheadTokens, busy.AheadPairs, busy.Decoding = r.IntN(20_000), 1e8*r.Float64(), r.IntN(30)
		require.Equal(t, predict(p, idle).Externality, predict(p, busy).Externality)
		require.Equal(t, predict(p, idle).Prefill, predict(p, busy).Prefill)
	}
}

// However noise falls, a cached prompt is expected sooner than one to compute.
func TestCachingIsNeverWorthless(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(12, 12))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	for range 500 {
		f := randomFeatures(r, 2)
		p.Observe(&f, time.Duration(r.ExpFloat64()*float64(time.Second))) // work explains nothing
		cold := predict(p, kvsteer.Features{Model: "m", Worker: "w0", Uncached: 16_000})
		warm := predict(p, kvsteer.Features{Model: "m", Worker: "w0", Uncached: 16, Cached: 15_984})
		require.Less(t, warm.TTFT, cold.TTFT)
		require.Less(t, warm.Externality, cold.Externality)
	}
}

// Equal workers must stay equal, or the one that was lucky is crowded.
func TestNoWorkerIsPreferredForNoise(t *testing.T) {
	t.Parallel()
	p := trained(t, 13, 2000, 8)
	f := kvsteer.Features{Model: "m", Worker: "w0", Uncached: 3000}
	want := predict(p, f)
	for w := range 9 { // the ninth is new
		f.Worker = fmt.Sprintf("w%d", w)
		got := predict(p, f)
		require.Equal(t, want.TTFT, got.TTFT)
		f.ReportAge = time.Duration(w) * 200 * time.Millisecond // scraped at different moments
		require.Equal(t, want.TTFT, predict(p, f).TTFT)
		f.ReportAge = 0
	}
}

func TestQuantilesCover(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 14))
	p := trained(t, 14, 200, 4)
	half, most := 0, 0
	const settle, n = 600, 3000 // the errors' shape is not that of before
	for i := range settle + n {
		f := randomFeatures(r, 4)
		ttft := time.Duration(float64(engineTTFT(&f, 1)) * (0.9 + 0.15*r.ExpFloat64()))
		got := predict(p, f)
		if i >= settle && ttft <= got.P50 {
			half++
		}
		if i >= settle && ttft <= got.P90 {
			most++
		}
		p.Observe(&f, ttft)
	}
	require.InDelta(t, 0.5, float64(half)/n, 0.06)
	require.InDelta(t, 0.9, float64(most)/n, 0.04)
}

// A replaced engine is followed within a few hundred requests.
func TestPredictorFollowsAChange(t *testing.T) {
	t.Parallel()
	for _, factor := range []float64{0.4, 2.5} {
		r := rand.New(rand.NewPCG(15, 15))
		p := trained(t, 15, 500, 2)
		for range 500 {
			f := randomFeatures(r, 2)
			p.Observe(&f, engineTTFT(&f, factor))
		}
		f := kvsteer.Features{Model: "m", Worker: "w0", Uncached: 6000}
		require.InEpsilon(t, engineTTFT(&f, factor).Seconds(), predict(p, f).TTFT.Seconds(), 0.15)
	}
}

func TestPredictorLearnsAnswers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(16, 16))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{PriorITL: 40 * time.Millisecond, PriorOutputTokens: 11})
	first := predict(p, kvsteer.Features{Model: "m"})
	require.Equal(t, 40*time.Millisecond, first.ITL)
	require.Equal(t, first.TTFT+400*time.Millisecond, first.E2E)

	d, ok := p.(kvsteer.DecodeObserver)
	require.True(t, ok)
	itl := func(f *kvsteer.Features) time.Duration {
		return 15*time.Millisecond + time.Duration(f.Decoding)*200*time.Microsecond
	}
	for range 600 {
		f := randomFeatures(r, 2)
		d.ObserveDecode(&f, itl(&f), 90+r.IntN(21))
		d.ObserveDecode(&f, 0, 100) // too short to tell
		d.ObserveDecode(&f, 0, 0)
	}
	f := kvsteer.Features{Model: "m", Worker: "w0", Uncached: 100, Decoding: 10}
	got := predict(p, f)
	require.InEpsilon(t, itl(&f).Seconds(), got.ITL.Seconds(), 0.05)
	require.InEpsilon(t, (got.TTFT + 99*got.ITL).Seconds(), got.E2E.Seconds(), 0.05)
	f.OutputTokens = 1000
	long := predict(p, f)
	require.Equal(t, (999 * long.ITL).Round(time.Millisecond), (long.E2E - long.TTFT).Round(time.Millisecond))
}

func TestPredictDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := trained(t, 17, 300, 64)
	r := rand.New(rand.NewPCG(17, 17))
	in, out := make([]kvsteer.Features, 64), make([]kvsteer.Prediction, 64)
	for i := range in {
		in[i] = randomFeatures(r, 64)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Predict(in, out) }))
}

func TestPredictorConcurrently(t *testing.T) {
	t.Parallel()
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	saved, err := trained(t, 18, 50, 4).(binaryState).MarshalBinary()
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(18, uint64(g)))
			in, out := make([]kvsteer.Features, 8), make([]kvsteer.Prediction, 8)
			for i := range 150 {
				for j := range in {
					in[j] = randomFeatures(r, 16)
					in[j].Class = fmt.Sprint(r.IntN(3))
				}
				p.Predict(in, out)
				p.Observe(&in[0], engineTTFT(&in[0], 1))
				p.(kvsteer.DecodeObserver).ObserveDecode(&in[1], 20*time.Millisecond, 100)
				if i%50 == 0 {
					_, merr := p.(binaryState).MarshalBinary()
					if merr != nil {
						panic(merr)
					}
					if merr = p.(binaryState).UnmarshalBinary(saved); merr != nil {
						panic(merr)
					}
				}
			}
		})
	}
	wg.Wait()
}

// More models and workers than are remembered: the oldest go, the newest are
// learned, and nothing grows without end.
func TestPredictorIsBounded(t *testing.T) {
	t.Parallel()
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	f := kvsteer.Features{Uncached: 1000}
	for i := range 1300 {
		f.Model, f.Worker = fmt.Sprint("model-", i), "w"
		p.Observe(&f, time.Second)
	}
	require.Equal(t, 1, predict(p, f).Observations)
	f.Model = "model-0"
	require.Zero(t, predict(p, f).Observations, "forgotten")
	f.Model = "model-1000"
	require.Equal(t, 1, predict(p, f).Observations)
	state, err := p.(binaryState).MarshalBinary()
	require.NoError(t, err)
	require.Less(t, len(state), 16<<20)
	require.NoError(t, kvsteer.NewPredictor(kvsteer.PredictorOptions{}).(binaryState).UnmarshalBinary(state))
}
