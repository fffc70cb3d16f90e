package prometheus_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/tenancy/labels"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Whatever everything is called, and however much of it there is, the series stay within
// their bound, and within it there is room for what is real.
func TestSeriesStayWithinTheirBound(t *testing.T) {
	for most, names := range map[int]int{4_000: 1_000, prometheus.DefaultMaxSeries: 10_000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			o := everything(t)
			o.MaxSeries = most
			r := newRig(t, rigConfig{engines: 2, metrics: o, options: []kvsteer.Option{kvsteer.WithProviders(clouds(t))}})
			r.post(chat("first come", true))
			r.eventually(func() bool { return r.value("kvsteer_requests_total") == 1 }, "it has ended")
			flood(r.metrics, names)

			page := text(t, r.registry)
			n := series(page)
			require.LessOrEqual(t, n, most)
			assert.Greater(t, n, most/4, "the flood has reached every bound but that of workers")
			assert.Less(t, len(page), most*400, "labels are short")
			got := r.gather()
			assert.Positive(t, sum(got["kvsteer_requests_total"], "model", "other"))
			assert.InDelta(t, 1, sum(got["kvsteer_requests_total"], "model", model), 0, "who was there first stays")
			for _, kind := range []string{"model", "worker", "tenant", "rule", "provider", "reason"} {
				assert.Positive(t, sum(got["kvsteer_metrics_folded_total"], "kind", kind), kind)
			}
			assert.InDelta(t, float64(most), sum(got["kvsteer_metrics_series_limit"]), 0)
			assert.InDelta(t, float64(4*names+names/100+1), sum(got["kvsteer_requests_total"]), 0, "and nothing is lost")
		})
	}
}

// flood tells a hook of n bogus names of each kind, as a million bytes, no text, and more.
func flood(m *prometheus.Metrics, n int) {
	mega := strings.Repeat("m", 1<<20)
	for i := range n {
		names := []string{fmt.Sprint("bogus-", i), fmt.Sprint("\xff\xfe", i), fmt.Sprint(strings.Repeat("é", 200), i), fmt.Sprint("a\n\"b\\", i)}
		if i%100 == 0 {
			names = append(names, mega)
		}
		for _, name := range names {
			d := decided(name, name)
			d.TenantLabel, d.Policy, d.Rule = name, name, name
			d.Shadows = []kvsteer.ShadowDecision{{Policy: name}}
			d.Degradations = []string{name, "token ids not from " + name + ": " + name}
			if i%2 == 0 {
				d.Candidates[0].Type = policy.Provider
			}
			m.OnDecision(d)
			m.OnOutcome(ended(d, errors.New("x")))
			m.OnRejection(&kvsteer.Decision{Chosen: -1, Model: name, TenantLabel: name}, &kvsteer.Error{Code: kvsteer.CodeLimited, Rule: name})
			m.OnRejection(&kvsteer.Decision{Chosen: -1, Model: name}, &kvsteer.Error{Code: kvsteer.Code(i % 256), Rule: name})
			m.OnRefusal(&kvsteer.Refusal{API: name, Model: name, TenantLabel: name, Err: &kvsteer.Error{Code: kvsteer.Code(i % 256), Rule: name, Message: name}})
			m.OnTrust(kvsteer.TrustChange{Worker: name, To: kvcache.Trust(i % 256), Reason: name})
			m.BudgetNotice(&quota.Notice{Rule: name})
		}
	}
}

// With as many workers as have series of their own, each with all it can have, as many
// models and tenants, and everything else to the brim, the shares are what was promised:
// no more, and hardly less.
func TestSharesAddUp(t *testing.T) {
	for _, set := range []prometheus.Options{{}, {MaxSeries: 4_000}, {MaxSeries: 7_000, TTFTBuckets: []float64{2}}} {
		o := everything(t)
		o.MaxSeries, o.TTFTBuckets = set.MaxSeries, set.TTFTBuckets
		full := fullHouse(t, o, 3)
		workers, models, tenants := full.metrics.Shares()
		assert.GreaterOrEqual(t, workers, 10)
		assert.GreaterOrEqual(t, models, 2)
		assert.GreaterOrEqual(t, tenants, 10)
		flood(full.metrics, 100)
		most := o.MaxSeries
		if most == 0 {
			most = prometheus.DefaultMaxSeries
		}
		n := series(text(t, full.registry))
		t.Logf("%d of %d series: %d workers, %d models, %d tenants", n, most, workers, models, tenants)
		require.LessOrEqual(t, n, most)
		require.Greater(t, n, most*85/100)
		got := full.gather()
		assert.InDelta(t, 3, sum(got["kvsteer_metrics_unshown"], "kind", "worker"), 0, "they were too many")
		assert.Positive(t, sum(got["kvsteer_metrics_unshown"], "kind", "provider"))
	}
}

// fullHouse has as many workers (and more), models and tenants as are shown, with events
// that can't be reached, and reports.
func fullHouse(t testing.TB, o prometheus.Options, more int) *rig {
	t.Helper()
	m, reg := alone(t, o)
	workers, models, tenants := m.Shares()
	list := newList()
	var all []fleet.Worker
	for i := range workers + more {
		name := fmt.Sprintf("w%04d", i)
		all = append(all, fleet.Worker{
			Name: name, URL: fmt.Sprintf("http://10.0.%d.%d:1", i/250, i%250), Models: []string{model},
			Events: []follow.Endpoint{{Events: "inproc://" + name}},
		})
	}
	list.set(all...)
	f, err := fleet.New(fleet.Options{Discoverer: list, HTTPClient: &http.Client{Transport: engine{}}, ScrapeInterval: time.Hour, StaleAfter: 24 * time.Hour, ProbeTimeout: patient})
	require.NoError(t, err)
	router, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithHooks(m), kvsteer.WithEvents(follow.NewHub()), kvsteer.WithProviders(clouds(t)))
	require.NoError(t, err)
	m.Attach(router)
	t.Cleanup(func() {
		require.NoError(t, router.Close())
		require.NoError(t, f.Close())
	})
	require.Eventually(t, func() bool {
		members := f.Snapshot().Members()
		return len(members) == len(all) && !slices.ContainsFunc(members, func(w *fleet.Member) bool { return w.Load() == nil })
	}, patient, time.Millisecond)
	for i := range max(workers+more, models+2, tenants+2) {
		d := decided(fmt.Sprintf("w%04d", min(i, len(all)-1)), fmt.Sprint("model-", i))
		d.TenantLabel, d.Rule = fmt.Sprint("tenant-", i), fmt.Sprint("rule-", i)
		m.OnDecision(d)
		m.OnOutcome(ended(d, nil))
	}
	return &rig{t: t, fleet: f, router: router, metrics: m, registry: reg}
}

// The series of a worker that left go with it, and do not come back when its last request
// ends; nor does another worker inherit them.
func TestWorkersThatLeftAreGone(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2})
	r.exact()
	for range 4 {
		r.post(chat("hello", true))
	}
	r.eventually(func() bool { return r.value("kvsteer_requests_total", "outcome", "ok") == 4 }, "four have ended")
	s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat("hello", true))})
	require.NoError(t, err)
	gone := s.Target().Worker
	require.Contains(t, text(t, r.registry), `worker="`+gone+`"`)

	var left []fleet.Worker
	for _, e := range r.engines {
		if e.Name() != gone {
			left = append(left, e.Worker())
		}
	}
	r.list.set(left...)
	r.eventually(func() bool { return r.fleet.Snapshot().Member(gone) == nil }, "it has left")
	require.NotContains(t, text(t, r.registry), `worker="`+gone+`"`)
	s.FirstToken()
	s.Done(kvsteer.Usage{Uncached: 5, Output: 1, Known: true, CachedKnown: true})
	page := text(t, r.registry)
	require.NotContains(t, page, `worker="`+gone+`"`)
	assert.InDelta(t, 1, r.value("kvsteer_worker_requests_total", "worker", "other"), 0, "its last request counts with the others")
	assert.InDelta(t, 5, r.value("kvsteer_requests_total", "outcome", "ok"), 0)
	require.Contains(t, page, `worker="`+left[0].Name+`"`)
}

// Models that nobody serves, and nobody has used for an hour, make room.
func TestModelsOfThePastMakeRoom(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r := newRig(t, rigConfig{engines: 1, metrics: prometheus.Options{Now: clock}})
	r.metrics.OnDecision(decided("w0", "past"))
	for _, step := range []time.Duration{0, time.Minute, 59 * time.Minute} {
		mu.Lock()
		now = now.Add(step)
		mu.Unlock()
		require.Contains(t, text(t, r.registry), `model="past"`)
	}
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	page := text(t, r.registry)
	require.NotContains(t, page, `model="past"`)
	require.Contains(t, page, `model="`+model+`"`, "that is served")
}

// Ten thousand tenants have as many labels as their policy gives them, and what is folded
// is added to the others.
func TestTenantsFold(t *testing.T) {
	var names *labels.Policy
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r := newRig(t, rigConfig{engines: 1, before: func(m *prometheus.Metrics) []kvsteer.Option {
		var err error
		names, err = labels.New(labels.Options{Mode: labels.All, Budget: 10, Window: time.Second, OnFold: m.FoldTenant, Now: clock})
		require.NoError(t, err)
		return []kvsteer.Option{kvsteer.WithTenancy(kvsteer.TenancyOptions{Labels: names})}
	}})
	request := func(tenant string) {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat("hello", true)), Tenant: tenant})
		require.NoError(t, err)
		s.Done(kvsteer.Usage{Uncached: 7, Output: 1, Known: true, CachedKnown: true})
	}
	n := 0
	for i := range 2_000 {
		request(fmt.Sprint("tenant-", i))
		n++
		if i%100 == 0 {
			mu.Lock()
			now = now.Add(time.Minute)
			mu.Unlock()
			for range 20 { // others become the busiest
				request(fmt.Sprint("busy-", i))
				n++
			}
		}
	}
	require.Positive(t, names.Totals().Folded)
	got := r.gather()
	require.LessOrEqual(t, len(got["kvsteer_tenant_output_tokens_total"].GetMetric()), 10)
	assert.InDelta(t, float64(n), sum(got["kvsteer_tenant_requests_total"]), 0, "sums over all tenants lose nothing")
	assert.InDelta(t, float64(7*n), sum(got["kvsteer_tenant_prompt_tokens_total"]), 0)

	r.metrics.FoldTenant("nobody") // is nothing
	r.metrics.FoldTenant(labels.Other)
	assert.InDelta(t, float64(n), r.value("kvsteer_tenant_requests_total"), 0)
}

// A name that can't be a label gets one that nobody else has.
func TestLabelsAreFit(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	long := strings.Repeat("x", 200)
	names := []string{"other", "\xff", "\xfe", "\xff?", "?", long + "1", long + "2", "a\x00b", "", "ß"}
	for _, n := range names {
		m.OnDecision(decided("w", n))
	}
	f := gather(t, reg)["kvsteer_retries_total"]
	require.Len(t, f.GetMetric(), len(names))
	m.OnDecision(decided("w", strings.Repeat("z", 1<<20)))
	assert.InDelta(t, 1, sum(gather(t, reg)["kvsteer_decisions_total"], "model", "other"), 0, "no model is called that")
	for _, s := range f.GetMetric() {
		assert.LessOrEqual(t, len(s.GetLabel()[0].GetValue()), 128)
		assert.NotEqual(t, "other", s.GetLabel()[0].GetValue(), "that is what is folded")
	}
}

// Hooks, scrapes, folding and a fleet that changes may all come at once.
func TestConcurrentUse(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2})
	var work sync.WaitGroup
	for g := range 4 {
		work.Go(func() {
			for i := range 300 {
				d := decided(fmt.Sprint("w", i%3), fmt.Sprint("m", i%50))
				d.TenantLabel = fmt.Sprint("t", i%7)
				d.Degradations = []string{fmt.Sprint("cache unknown: ", g)}
				r.metrics.OnDecision(d)
				r.metrics.OnOutcome(ended(d, nil))
				no := &kvsteer.Error{Code: kvsteer.CodeLimited, Rule: fmt.Sprint(i)}
				r.metrics.OnRejection(d, no)
				r.metrics.OnRefusal(&kvsteer.Refusal{TenantLabel: d.TenantLabel, Err: no})
				if i%20 == 0 {
					r.metrics.FoldTenant(d.TenantLabel)
				}
			}
		})
	}
	work.Go(func() {
		for i := range 20 {
			r.list.set(r.engines[i%2].Worker())
		}
	})
	for range 4 {
		work.Go(func() {
			for range 10 {
				_, err := r.registry.Gather()
				assert.NoError(t, err)
			}
		})
	}
	work.Wait()
	got := r.gather()
	assert.InDelta(t, 1200, sum(got["kvsteer_requests_total"]), 0)
}

var _ prom.Collector = (*prometheus.Metrics)(nil)

// engine answers for every engine, without a socket.
type engine struct{}

func (engine) RoundTrip(r *http.Request) (*http.Response, error) {
	body := "{}"
	if r.URL.Path == "/metrics" {
		body = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n" +
			"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n"
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r}, nil
}

// A label that is folded while its requests end loses none of them.
func TestFoldingLosesNothing(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	d := decided("w", model)
	d.TenantLabel = "t"
	const each = 20_000
	var work, folds sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		work.Go(func() {
			for range each {
				m.OnDecision(d)
				m.OnOutcome(ended(d, nil))
			}
		})
	}
	folds.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				m.FoldTenant("t")
			}
		}
	})
	work.Wait()
	close(done)
	folds.Wait()
	assert.InDelta(t, 4*each, sum(gather(t, reg)["kvsteer_tenant_requests_total"]), 0)
}

// A label that was folded has no series again because of requests that got it before: nobody
// would end them. If it is given again, it has.
func TestWhatIsFoldedStaysFolded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	m, reg := alone(t, prometheus.Options{Now: func() time.Time { return now }})
	d := decided("w", model)
	d.TenantLabel = "t"
	no := &kvsteer.Error{Code: kvsteer.CodeSaturated}
	series := func() (n int) {
		for _, s := range gather(t, reg)["kvsteer_tenant_rejected_requests_total"].GetMetric() {
			if s.GetLabel()[0].GetValue() == "t" {
				n++
			}
		}
		return n
	}
	m.OnDecision(d)
	require.Equal(t, 1, series())
	m.FoldTenant("t")
	require.Zero(t, series())

	now = now.Add(time.Second)
	waited := *d
	waited.Waited = 2 * time.Second
	m.OnDecision(&waited)
	m.OnOutcome(ended(&waited, nil))
	again := *d
	again.Attempt = 2
	m.OnDecision(&again)
	m.OnRefusal(&kvsteer.Refusal{TenantLabel: "t", Took: 2 * time.Second, Err: no})
	require.Zero(t, series(), "requests that came before")
	got := gather(t, reg)
	assert.InDelta(t, 1, sum(got["kvsteer_tenant_rejected_requests_total"], "tenant", labels.Other), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_tenant_requests_total"], "tenant", labels.Other), 0)

	m.OnRefusal(&kvsteer.Refusal{TenantLabel: "t", Took: time.Millisecond, Err: no})
	require.Equal(t, 1, series(), "it was given again")
	m.FoldTenant("t")
	for i := range 2000 { // more than are remembered
		m.FoldTenant(fmt.Sprint("x", i))
	}
	now = now.Add(time.Second)
	m.OnDecision(&waited)
	require.Zero(t, series())
	m.OnDecision(d)
	require.Equal(t, 1, series())
}
