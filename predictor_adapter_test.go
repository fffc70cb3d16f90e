package kvsteer_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

// listener notes of which models it is asked, and learns.
type listener struct {
	kvsteer.Predictor

	mu           sync.Mutex
	asked, heard map[string]int
}

func (m *listener) note(of map[string]int, model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of[model]++
}

func (m *listener) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		m.note(m.asked, in[i].Model)
	}
	m.Predictor.Predict(in, out)
}

func (m *listener) Observe(f *kvsteer.Features, ttft time.Duration) {
	m.note(m.heard, f.Model)
	m.Predictor.Observe(f, ttft)
}

// Adapters come and go, and what takes time is their base model: what is known of it holds
// for a new one, and nothing is kept for each.
func TestAdaptersAreLearnedAsTheirBase(t *testing.T) {
	t.Parallel()
	p := &listener{Predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{}), asked: map[string]int{}, heard: map[string]int{}}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPredictor(p)}, engine: func(_ int, c *fleettest.Config) {
		c.Adapters = []fleettest.Adapter{{Name: "lora-a"}, {Name: "lora-b"}}
	}})
	r.waitTrust(kvcache.Exact)
	for _, model := range []string{testModel, "lora-a", "lora-b"} {
		n := r.observed.outcomeCount()
		require.Equal(t, http.StatusOK, r.post("/v1/completions", `{"model":"`+model+`","stream":true,"prompt":"`+fleettest.Text(4, 300)+`"}`).status)
		o := r.observed.nextOutcome(t, n)
		require.Equal(t, model, o.Decision.Winner().Model, "what the client asked for stays what is asked")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Len(t, p.asked, 1)
	require.Positive(t, p.asked[testModel])
	require.Equal(t, map[string]int{testModel: 3}, p.heard)
}
