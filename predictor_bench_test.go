package kvsteer_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kvsteer/kvsteer"
)

// BenchmarkPredict64 is what a choice between 64 workers asks of the predictor:
// mean, quantiles, prefill, ITL and E2E of each.
func BenchmarkPredict64(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 5))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	in := make([]kvsteer.Features, 64)
	for i := range in {
		in[i] = randomFeatures(r, 64)
		p.Observe(&in[i], engineTTFT(&in[i], 1))
	}
	out := make([]kvsteer.Prediction, len(in))
	b.ReportAllocs()
	for b.Loop() {
		p.Predict(in, out)
	}
}

// BenchmarkPredictorObserve is what one first token costs.
func BenchmarkPredictorObserve(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	in := make([]kvsteer.Features, 256)
	for i := range in {
		in[i] = randomFeatures(r, 64)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		f := &in[i%len(in)]
		p.Observe(f, engineTTFT(f, 0.9+0.2*r.Float64()))
		i++
	}
}
