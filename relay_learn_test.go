package kvsteer_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// learns predicts that s0 computes prompts quickly and others slowly, and keeps what it
// is told. All that it says rests on so many observations.
type learns struct {
	observations int
	spread       time.Duration // of the 90th percentile, if it is told

	mu    sync.Mutex
	where []string
	took  []time.Duration
}

func (l *learns) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		pace := 10 * time.Millisecond
		if in[i].Worker == "s0" {
			pace = time.Millisecond
		}
		own := time.Duration(in[i].Uncached) * pace
		out[i] = kvsteer.Prediction{TTFT: own, Prefill: own, Externality: own, Observations: l.observations}
		if l.spread > 0 {
			out[i].P90 = own + l.spread
		}
	}
}

func (l *learns) Observe(f *kvsteer.Features, ttft time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.where, l.took = append(l.where, f.Worker+f.Class), append(l.took, ttft)
}

// Each leg is learned as one of its own, and of the second what is left without the
// time that fetching is expected to take, which the prediction adds.
func TestFetchingIsNotLearned(t *testing.T) {
	t.Parallel()
	clock, l := newClock(), learns{observations: 20}
	r := approximate(t, []kvsteer.Option{
		kvsteer.WithPredictor(&l), kvsteer.WithClock(clock.now), kvsteer.WithTransferRate(1000),
	}, []http.HandlerFunc{whole, whole}...)
	s, err := r.router.Select(t.Context(), chatRequest(strings.Repeat("word ", 500), true))
	require.NoError(t, err)
	_, _, ok := s.Prefill()
	require.True(t, ok)
	clock.advance(2 * time.Second)
	require.NoError(t, s.Prefilled([]byte(`{"kv_transfer_params":{"x":1}}`)))

	// Fetching takes a millisecond for each token, of all but the last few.
	w := s.Decision().Winner()
	require.Equal(t, "s0", w.PrefillOn)
	first := s.Decision().Prefill
	before := first.Candidates[first.Chosen].PredictedTTFT
	left := w.PredictedTTFT - before // fetching, and the last tokens at 10 ms each
	clock.advance(left)
	s.FirstToken()
	s.Done(kvsteer.Usage{})
	r.idle()

	l.mu.Lock()
	defer l.mu.Unlock()
	require.Equal(t, []string{"s0prefill (prefill)", "s1decode (relayed)"}, l.where)
	require.Equal(t, 2*time.Second, l.took[0])
	tokens := s.Decision().PromptTokens
	last := (left - time.Duration(tokens)*time.Millisecond) / 9 * 10
	require.Positive(t, last)
	require.InDelta(t, last.Seconds(), l.took[1].Seconds(), 1e-6)
}

// The 90th percentile of a prompt that two workers serve follows how often it held, which
// those of either leg do not tell.
func TestWhatBothLegsTakeIsLearned(t *testing.T) {
	t.Parallel()
	clock, l := newClock(), learns{observations: 20, spread: 100 * time.Millisecond}
	r := approximate(t, []kvsteer.Option{
		kvsteer.WithPredictor(&l), kvsteer.WithClock(clock.now),
	}, []http.HandlerFunc{whole, whole}...)
	// margin serves a prompt that takes so much longer than was predicted, and returns by
	// how much it was to be late in nine of ten cases.
	margin := func(late time.Duration) time.Duration {
		s, err := r.router.Select(t.Context(), chatRequest(strings.Repeat("word ", 500)+late.String(), true))
		require.NoError(t, err)
		w := s.Decision().Winner()
		require.Equal(t, "s0", w.PrefillOn)
		clock.advance(w.PredictedTTFT + late)
		require.NoError(t, s.Prefilled([]byte(`{"kv_transfer_params":{"x":1}}`)))
		s.FirstToken()
		s.Done(kvsteer.Usage{})
		r.idle()
		return w.PredictedP90 - w.PredictedTTFT
	}
	const independent = 141421356 * time.Nanosecond // the root of two squares of 100 ms
	require.InDelta(t, independent.Seconds(), margin(time.Second).Seconds(), 1e-6)
	wider := margin(time.Second)
	require.Greater(t, wider, independent+10*time.Millisecond)
	require.Greater(t, margin(0), wider)
	for range 30 {
		margin(0)
	}
	require.Less(t, margin(0), wider)
}
