package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// What is shown of a real router and its engines is what happened, number by number.
func TestValuesEqualWhatHappened(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2})
	r.exact()
	shared := fleettest.Text(1, 400)
	for i := range 6 {
		status, body := r.post(chat(shared+fmt.Sprint(" question ", i), i%2 == 0))
		require.Equal(t, http.StatusOK, status, body)
	}
	status, _ := r.post(`{"model":"nobody's","messages":[]}`)
	require.Equal(t, http.StatusNotFound, status)

	r.eventually(func() bool { return r.value("kvsteer_requests_total", "model", model, "outcome", "ok") == 6 }, "six have ended")
	r.eventually(func() bool { _, o := r.observed.all(); return len(o) == 6 }, "which the other hook hears after that")
	decisions, outcomes := r.observed.all()
	got := r.gather()
	equal := func(want float64, name string, labels ...string) {
		t.Helper()
		assert.InDelta(t, want, sum(got[name], labels...), 1e-6, name+fmt.Sprint(labels))
	}
	equal(6, "kvsteer_decisions_total", "model", model)
	equal(6, "kvsteer_request_prompt_tokens", "model", model)
	equal(6, "kvsteer_request_duration_seconds", "model", model)
	equal(6, "kvsteer_select_seconds", "source", "tokenize")
	equal(6, "kvsteer_prompt_encoding_seconds", "source", "tokenize")
	equal(6, "kvsteer_rule_decisions_total", "rule", decisions[0].Rule)
	equal(1, "kvsteer_rejected_requests_total", "code", "unknown model")
	equal(1, "kvsteer_rejected_requests_total")

	var uncached, cached, output, predicted, streamed, prompt float64
	at := map[string]float64{}
	for _, o := range outcomes {
		require.True(t, o.Usage.Known && o.Usage.CachedKnown)
		uncached += float64(o.Usage.Uncached)
		cached += float64(o.Usage.CacheRead)
		output += float64(o.Usage.Output)
		prompt += float64(o.Usage.Prompt())
		predicted += float64(o.CachedPredicted)
		at[o.Served.Worker]++
		if o.TTFT > 0 {
			streamed++
		}
	}
	require.Positive(t, cached)
	require.InDelta(t, 3, streamed, 0)
	equal(uncached, "kvsteer_prompt_tokens_total", "model", model, "cache", "uncached")
	equal(cached, "kvsteer_prompt_tokens_total", "model", model, "cache", "cached")
	equal(0, "kvsteer_prompt_tokens_total", "model", model, "cache", "unknown")
	equal(output, "kvsteer_output_tokens_total", "model", model)
	equal(predicted, "kvsteer_cache_predicted_tokens_total", "model", model)
	equal(cached, "kvsteer_cache_reported_tokens_total", "model", model)
	equal(prompt, "kvsteer_cache_compared_tokens_total", "model", model)
	equal(streamed, "kvsteer_ttft_seconds", "model", model)
	equal(streamed, "kvsteer_inter_token_seconds", "model", model)
	equal(streamed, "kvsteer_ttft_prediction_ratio", "model", model)
	for _, w := range []string{"w0", "w1"} {
		equal(at[w], "kvsteer_worker_requests_total", "worker", w, "outcome", "ok")
		equal(at[w], "kvsteer_worker_decisions_total", "worker", w)
		equal(1, "kvsteer_worker_routable", "worker", w)
		equal(1, "kvsteer_worker_cache_ranks", "worker", w, "trust", "exact")
		equal(0, "kvsteer_worker_cache_ranks", "worker", w, "trust", "suspect")
		equal(0, "kvsteer_worker_event_gaps_total", "worker", w)
	}
	equal(0, "kvsteer_in_flight_requests")
	equal(2, "kvsteer_workers", "state", "healthy")
	equal(2, "kvsteer_model_workers", "model", model)

	stats := r.router.Stats()
	require.Positive(t, stats.Index.Stored)
	r.eventually(func() bool {
		return r.value("kvsteer_index_block_changes_total", "change", "stored") == float64(r.router.Stats().Index.Stored)
	}, "the index's own figure")
	equal(float64(stats.Index.Budget), "kvsteer_index_limit_bytes")
	r.eventually(func() bool { // more may come, and between two looks
		for _, c := range r.router.Stats().Caches {
			if len(c.Streams) != 1 ||
				r.value("kvsteer_worker_event_messages_total", "worker", c.Worker, "kind", "live") != float64(c.Streams[0].Messages) {
				return false
			}
		}
		return true
	}, "the streams' own figures")
}

// A client that chose its words does not find them in metrics.
func TestCanary(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1})
	const canary = "canary-5150"
	body := strings.Replace(chat(canary, true), `{`, `{"`+canary+`":"`+canary+`","user":"`+canary+`",`, 1)
	status, _ := r.post(body, "Authorization", "Bearer "+canary, "X-Session-Id", canary)
	require.Equal(t, http.StatusOK, status)
	r.post(`{"model":"` + canary + `","messages":[{"role":"user","content":"` + canary + `"}]}`)
	r.post(`{"model":` + canary)
	r.eventually(func() bool { return r.value("kvsteer_requests_total") == 1 }, "it has ended")
	require.NotContains(t, text(t, r.registry), canary)
}

func TestRequestsEndInFourWays(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	left := ended(decided("w", model), errors.New("the gateway shuts down"))
	left.Left = true
	for want, o := range map[string]*kvsteer.Outcome{
		"ok":       ended(decided("w", model), nil),
		"canceled": left,
		"failed":   ended(decided("w", model), &net.OpError{Op: "dial", Err: context.DeadlineExceeded}), // a dead worker's
		"reaped":   {Decision: decided("w", model), Reaped: true, Err: errors.New("forgotten")},
	} {
		m.OnDecision(o.Decision)
		m.OnOutcome(o)
		got := gather(t, reg)
		assert.InDelta(t, 1, sum(got["kvsteer_requests_total"], "outcome", want), 0, want)
		assert.InDelta(t, 1, sum(got["kvsteer_worker_requests_total"], "outcome", want), 0, want)
	}
	got := gather(t, reg)
	assert.InDelta(t, 1, sum(got["kvsteer_request_duration_seconds"]), 0, "of those answered only")
	assert.InDelta(t, 4.5, sum(got["kvsteer_cost_total"]), 1e-9, "three of 1.50")
	// 1 ms to choose and 500 ms to the first token of 2 s, then ten tokens.
	itl := got["kvsteer_inter_token_seconds"].GetMetric()[0].GetHistogram()
	assert.InDelta(t, (2-.501)/10, itl.GetSampleSum(), 1e-6)
	ratio := got["kvsteer_ttft_prediction_ratio"].GetMetric()[0].GetHistogram()
	assert.InDelta(t, 3*2, ratio.GetSampleSum(), 1e-6, "predicted twice as long")
}

// What an engine does not report is not zero.
func TestAbsentUsageIsNotZero(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	o := ended(decided("w", model), nil)
	o.Usage = kvsteer.Usage{Uncached: 100, Output: 5, Known: true}
	m.OnOutcome(o)
	o = ended(decided("w", model), nil)
	o.Usage = kvsteer.Usage{}
	m.OnOutcome(o)
	got := gather(t, reg)
	assert.InDelta(t, 100, sum(got["kvsteer_prompt_tokens_total"], "cache", "unknown"), 0)
	assert.Zero(t, sum(got["kvsteer_prompt_tokens_total"], "cache", "uncached"))
	assert.Zero(t, sum(got["kvsteer_cache_compared_tokens_total"]))
	assert.InDelta(t, 1, sum(got["kvsteer_requests_without_usage_total"]), 0)
}

// Figures from an engine may be anything, a Counter takes no negative ones.
func TestAbsurdFiguresDoNotPanic(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	d := decided("w", model)
	d.Candidates[0].PredictedTTFT, d.Candidates[0].Trust, d.TokenSource = 1<<63-1, 99, "?"
	m.OnDecision(d)
	o := ended(d, nil)
	o.Usage.Output, o.Usage.CacheRead, o.Cost, o.Duration, o.CachedPredicted = -5, -1<<30, -7, -time.Second, -1
	m.OnOutcome(o)
	m.OnOutcome(&kvsteer.Outcome{})
	m.OnOutcome(&kvsteer.Outcome{Decision: &kvsteer.Decision{Chosen: -1}})
	m.OnDecision(&kvsteer.Decision{Chosen: -1})
	assert.InDelta(t, 1, sum(gather(t, reg)["kvsteer_requests_total"]), 0)
}

func TestTargets(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	for ttft, itl := range map[time.Duration]time.Duration{
		time.Second:            time.Second,
		501 * time.Millisecond: 100 * time.Millisecond,
		500 * time.Millisecond: 0, // choosing took a millisecond of it
	} {
		d := decided("w", model)
		d.Targets = &kvsteer.Targets{TTFT: ttft, ITL: itl}
		m.OnOutcome(ended(d, nil))
	}
	got := gather(t, reg)["kvsteer_target_requests_total"]
	assert.InDelta(t, 2, sum(got, "target", "ttft", "result", "met"), 0)
	assert.InDelta(t, 1, sum(got, "target", "ttft", "result", "missed"), 0)
	assert.InDelta(t, 1, sum(got, "target", "itl", "result", "met"), 0)
	assert.InDelta(t, 1, sum(got, "target", "itl", "result", "missed"), 0)
}

// A proxy went elsewhere: nothing that was predicted is compared with that.
func TestMoved(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	o := ended(decided("w", model), nil)
	o.Moved, o.Served = true, kvsteer.Target{Worker: "v", Model: "m2"}
	m.OnOutcome(o)
	o = ended(decided("w", model), nil)
	o.Moved = true // to nobody that the fleet knows
	m.OnOutcome(o)
	got := gather(t, reg)
	assert.InDelta(t, 2, sum(got["kvsteer_moved_requests_total"]), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_worker_requests_total"], "worker", "v"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_worker_requests_total"]), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_requests_total"], "model", "m2"), 0)
	assert.Zero(t, sum(got["kvsteer_cache_compared_tokens_total"]))
	assert.Zero(t, sum(got["kvsteer_ttft_prediction_ratio"]))
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for text, o := range map[string]prometheus.Options{
		"MaxSeries is 10; give at least 4000": {MaxSeries: 10},
		"TTFTBuckets has 0 bounds":            {TTFTBuckets: []float64{}},
		"TTFTBuckets has 41 bounds":           {TTFTBuckets: make([]float64, 41)},
		"more than 0 and ascending":           {TTFTBuckets: []float64{1, 1}},
		"must be seconds":                     {TTFTBuckets: []float64{0, 1}},
	} {
		_, err := prometheus.New(o)
		assert.ErrorContains(t, err, text)
	}
}

func TestLint(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, metrics: everything(t), options: []kvsteer.Option{kvsteer.WithProviders(clouds(t))}})
	r.post(chat("hello", true))
	r.eventually(func() bool { return r.value("kvsteer_requests_total") == 1 }, "it has ended")
	problems, err := testutil.GatherAndLint(r.registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// Native histograms come beside the classic ones.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{NativeHistograms: true})
	m.OnOutcome(ended(decided("w", model), nil))
	h := gather(t, reg)["kvsteer_ttft_seconds"].GetMetric()[0].GetHistogram()
	assert.NotEmpty(t, h.GetBucket())
	assert.NotEmpty(t, h.GetPositiveSpan())

	m, reg = alone(t, prometheus.Options{})
	m.OnOutcome(ended(decided("w", model), nil))
	assert.Empty(t, gather(t, reg)["kvsteer_ttft_seconds"].GetMetric()[0].GetHistogram().GetPositiveSpan())
}

// alone are Metrics of no router.
func alone(t testing.TB, o prometheus.Options) (*prometheus.Metrics, *prom.Registry) {
	t.Helper()
	m, err := prometheus.New(o)
	require.NoError(t, err)
	reg := prom.NewPedanticRegistry()
	require.NoError(t, reg.Register(m))
	return m, reg
}
