package prometheus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const (
	model   = "m"
	patient = 30 * time.Second
)

// rig is a gateway as a user builds it, over fake engines, with its metrics.
type rig struct {
	t        testing.TB
	engines  []*fleettest.Engine
	list     *list
	fleet    *fleet.Fleet
	router   *kvsteer.Router
	metrics  *prometheus.Metrics
	observed *recorder
	registry *prom.Registry
	gateway  *httptest.Server
}

type rigConfig struct {
	engines int
	engine  func(i int, c *fleettest.Config)
	worker  func(w *fleet.Worker)
	metrics prometheus.Options
	options []kvsteer.Option
	// before is called with the Metrics before the Router is made.
	before    func(m *prometheus.Metrics) []kvsteer.Option
	transport kvsteer.TransportOptions
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, observed: &recorder{}, list: newList(), registry: prom.NewPedanticRegistry()}
	hub := follow.NewHub()
	var workers []fleet.Worker
	for i := range c.engines {
		cfg := fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: model, Speed: 1000, Hub: hub, OutputTokens: 4}
		if c.engine != nil {
			c.engine(i, &cfg)
		}
		e := fleettest.New(t, cfg)
		r.engines = append(r.engines, e)
		w := e.Worker()
		if c.worker != nil {
			c.worker(&w)
		}
		workers = append(workers, w)
	}
	r.list.set(workers...)
	var err error
	r.fleet, err = fleet.New(fleet.Options{
		Discoverer: r.list, ProbeInterval: 50 * time.Millisecond, ScrapeInterval: 20 * time.Millisecond,
		ProbeTimeout: patient, UnhealthyAfter: 50, StaleAfter: time.Minute,
	})
	require.NoError(t, err)
	r.metrics, err = prometheus.New(c.metrics)
	require.NoError(t, err)
	encoder := prompt.NewEncoder(prompt.Options{Deadline: patient})
	opts := append([]kvsteer.Option{
		kvsteer.WithFleet(r.fleet), kvsteer.WithEncoder(encoder), kvsteer.WithEvents(hub), kvsteer.WithSeed(1),
		kvsteer.WithHooks(r.metrics, r.observed),
	}, c.options...)
	if c.before != nil {
		opts = append(opts, c.before(r.metrics)...)
	}
	r.router, err = kvsteer.New(opts...)
	require.NoError(t, err)
	r.metrics.Attach(r.router)
	require.NoError(t, r.registry.Register(r.metrics))
	transport := kvsteer.NewTransport(r.router, c.transport)
	r.gateway = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: transport, ErrorHandler: kvsteer.WriteError,
		ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() {
		r.gateway.Close()
		transport.CloseIdleConnections()
		require.NoError(t, r.router.Close())
		require.NoError(t, encoder.Close())
		require.NoError(t, r.fleet.Close())
	})
	require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == c.engines }, patient, time.Millisecond)
	return r
}

// exact waits until the router knows every worker's cache.
func (r *rig) exact() {
	r.t.Helper()
	r.eventually(func() bool { return r.value("kvsteer_cache_ranks", "trust", "exact") == float64(len(r.engines)) }, "exact")
}

func (r *rig) eventually(ok func() bool, what string) {
	r.t.Helper()
	require.Eventually(r.t, ok, patient, 5*time.Millisecond, what)
}

// post sends a request and returns the status and body of its answer.
func (r *rig) post(body string, headers ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.gateway.URL+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.gateway.Client().Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(b)
}

func chat(content string, stream bool) string {
	b, err := json.Marshal(map[string]any{
		"model": model, "stream": stream, "messages": []map[string]string{{"role": "user", "content": content}},
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// gather scrapes.
func (r *rig) gather() map[string]*dto.MetricFamily {
	r.t.Helper()
	return gather(r.t, r.registry)
}

func gather(t testing.TB, g prom.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := g.Gather()
	require.NoError(t, err)
	out := map[string]*dto.MetricFamily{}
	for _, f := range list {
		out[f.GetName()] = f
	}
	return out
}

// value scrapes and sums up the series of a metric that have the labels, names and values
// in turns. Of a histogram it is the count.
func (r *rig) value(name string, labels ...string) float64 {
	r.t.Helper()
	return sum(r.gather()[name], labels...)
}

func sum(f *dto.MetricFamily, labels ...string) (total float64) {
	for _, m := range f.GetMetric() {
		if !has(m, labels) {
			continue
		}
		switch {
		case m.GetCounter() != nil:
			total += m.GetCounter().GetValue()
		case m.GetGauge() != nil:
			total += m.GetGauge().GetValue()
		case m.GetSummary() != nil:
			total += float64(m.GetSummary().GetSampleCount())
		default:
			total += float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func has(m *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// text is what a server scrapes.
func text(t testing.TB, g prom.Gatherer) string {
	t.Helper()
	list, err := g.Gather()
	require.NoError(t, err)
	var b bytes.Buffer
	for _, f := range list {
		_, err := expfmt.MetricFamilyToText(&b, f)
		require.NoError(t, err)
	}
	return b.String()
}

// series counts the lines that are none of comments.
func series(text string) (n int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// list is a Discoverer whose list changes.
type list struct {
	changed chan []fleet.Worker
}

func newList() *list { return &list{changed: make(chan []fleet.Worker, 16)} }

func (l *list) set(workers ...fleet.Worker) { l.changed <- workers }

// Discover implements fleet.Discoverer.
func (l *list) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case workers := <-l.changed:
			if err := set(workers); err != nil {
				return err
			}
		}
	}
}

// recorder is a hook that keeps everything.
type recorder struct {
	mu        sync.Mutex
	decisions []*kvsteer.Decision
	outcomes  []*kvsteer.Outcome
}

func (h *recorder) OnDecision(d *kvsteer.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decisions = append(h.decisions, d)
}

func (h *recorder) OnOutcome(o *kvsteer.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, o)
}

func (h *recorder) all() ([]*kvsteer.Decision, []*kvsteer.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.decisions, h.outcomes
}

// decided makes up a decision for a worker and a model.
func decided(worker, model string) *kvsteer.Decision {
	c := kvsteer.DecisionCandidate{}
	c.Name, c.Candidate.Model, c.Trust, c.PredictedTTFT = worker, model, kvcache.Exact, time.Second
	return &kvsteer.Decision{
		Model: model, Attempt: 1, Rule: "default: lowest predicted TTFT", TokenSource: "tokenize", PromptTokens: 100, Took: time.Millisecond,
		Candidates: []kvsteer.DecisionCandidate{c},
	}
}

// ended makes up how a decision's request ended.
func ended(d *kvsteer.Decision, err error) *kvsteer.Outcome {
	return &kvsteer.Outcome{
		Decision: d, TTFT: 500 * time.Millisecond, Duration: 2 * time.Second, CachedPredicted: 60, Cost: 1_500_000, Err: err,
		Usage: kvsteer.Usage{Uncached: 40, CacheRead: 60, Output: 11, Known: true, CachedKnown: true},
	}
}
