package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// everything are options with all parts there are.
func everything(t *testing.T) prometheus.Options {
	t.Helper()
	limits, err := quota.New(quota.Options{Rules: []quota.Rule{
		{Name: "minute", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 2, Burst: 2, Per: time.Hour}},
		{Name: "month", Level: "money", Scope: quota.PerTenant, Budget: quota.Budget{Tokens: 1000, Period: quota.Month}},
	}})
	require.NoError(t, err)
	records, err := ledger.New(ledger.Options{Sink: ledger.SinkFunc(func(context.Context, []ledger.Record) error { return nil })})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, records.Close()) })
	return prometheus.Options{
		Limiter: limits, Ledger: records,
		LimitStore: func() prometheus.LimitStore { return prometheus.LimitStore{} },
		Carrier:    func() prometheus.Carrier { return prometheus.Carrier{} },
	}
}

// clouds are providers with 41 models.
func clouds(t testing.TB) *providers.Set {
	t.Helper()
	set, err := providers.New([]providers.Provider{provider("cloud", "", 40), provider("cloud2", "", 1)}, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return set
}

// provider has n models, of which the first is "big".
func provider(name, url string, n int) providers.Provider {
	if url == "" {
		url = "https://" + name + ".example.com"
	}
	p := providers.Provider{
		Name: name, Kind: providers.OpenAI{}, URL: url + "/v1", Credentials: providers.Static("k"),
		Models: []providers.Model{{Name: "big"}},
	}
	for i := range n - 1 {
		p.Models = append(p.Models, providers.Model{Name: fmt.Sprint("more-", i)})
	}
	return p
}

// Limits, budgets and the ledger are shown as they stand.
func TestLimitsAndLedger(t *testing.T) {
	o := everything(t)
	limits, _ := o.Limiter.(*quota.Limiter)
	records, _ := o.Ledger.(*ledger.Ledger)
	r := newRig(t, rigConfig{engines: 1, metrics: o, options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Limits: limits, Ledger: records}),
	}})
	for range 2 {
		status, body := r.post(chat("hello", true))
		require.Equal(t, http.StatusOK, status, body)
	}
	status, _ := r.post(chat("hello", true))
	require.Equal(t, http.StatusTooManyRequests, status)
	r.eventually(func() bool { return r.value("kvsteer_limit_settled_total", "meter", "requests") == 2 }, "two settled")
	r.eventually(func() bool { return records.Stats().Appended == 4 }, "two reserved, two settled")
	require.NoError(t, records.Flush(t.Context()))

	got := r.gather()
	assert.InDelta(t, 1, sum(got["kvsteer_rejected_requests_total"], "code", "limited"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_limited_requests_total"], "rule", "minute"), 0)
	assert.InDelta(t, 2, sum(got["kvsteer_limit_reserved_total"], "meter", "requests"), 0)
	assert.Zero(t, sum(got["kvsteer_limit_running_requests"]))
	used := limits.Budgets()[0].Tokens
	require.Positive(t, used)
	assert.InDelta(t, used, sum(got["kvsteer_budget_used_ratio"], "rule", "month", "unit", "tokens"), 1e-9)
	assert.InDelta(t, 1, sum(got["kvsteer_budget_holders"], "rule", "month", "reached", "any"), 0)
	assert.Zero(t, sum(got["kvsteer_budget_holders"], "rule", "month", "reached", "limit"))
	assert.InDelta(t, float64(records.Stats().Appended), sum(got["kvsteer_ledger_records_total"], "result", "appended"), 0)
	assert.InDelta(t, 4, sum(got["kvsteer_ledger_records_total"], "result", "durable"), 0, "two reserved, two settled")

	r.metrics.BudgetNotice(&quota.Notice{Rule: "month"})
	r.metrics.BudgetNotice(nil)
	assert.InDelta(t, 1, r.value("kvsteer_budget_soft_limits_total", "rule", "month"), 0)
}

const burst = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: burst}
spec:
  rules:
  - name: outside
    route:
      select:
      - {type: Local, minimize: PredictedTTFT}
      - {type: Provider, order: [cloud]}
`

// A request that a real policy sends outside is seen there, and not at a worker; so is how
// the provider's models stand.
func TestProviders(t *testing.T) {
	outside := providertest.New(t, providertest.OpenAI, providertest.Options{Key: "k"})
	set, err := providers.New([]providers.Provider{provider("cloud", outside.URL(), 40)}, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	rules, err := policy.Load("burst.yaml", []byte(burst), policy.Options{})
	require.NoError(t, err)
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithProviders(set), kvsteer.WithPolicy(rules)}})
	status, body := r.post(strings.Replace(chat("hello", true), `"m"`, `"big"`, 1))
	require.Equal(t, http.StatusOK, status, body)
	r.eventually(func() bool { return r.value("kvsteer_requests_total") == 1 }, "it has ended")
	got := r.gather()
	assert.InDelta(t, 1, sum(got["kvsteer_provider_decisions_total"], "provider", "cloud"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_provider_requests_total"], "provider", "cloud", "outcome", "ok"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_requests_total"], "model", "big", "outcome", "ok"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_decisions_total"], "model", "big", "trust", "external"), 0)
	assert.Zero(t, sum(got["kvsteer_worker_requests_total"]), "a provider is no worker")
	assert.Zero(t, sum(got["kvsteer_cache_compared_tokens_total"]), "nothing was predicted of its cache")
	assert.InDelta(t, 40-32, sum(got["kvsteer_metrics_unshown"], "kind", "provider"), 0)
	for _, s := range set.All()[:32] {
		at := []string{"provider", s.Provider(), "model", s.Model()}
		assert.InDelta(t, 1, sum(got["kvsteer_provider_ready"], at...), 0)
		assert.InDelta(t, 1, sum(got["kvsteer_provider_breaker"], at...), 0, "one state")
		assert.InDelta(t, 1, sum(got["kvsteer_provider_breaker"], append(at, "state", "closed")...), 0)
	}

	d := decided("cloud", "big")
	d.Candidates[0].Type = policy.Provider
	d.Degradations = []string{"not carried over: seed: no such parameter", "cost: the model has no price"}
	d.Unready = []kvsteer.Unready{{Name: "cloud2"}}
	r.metrics.OnOutcome(ended(d, nil)) // what was not carried over is known at the end
	r.metrics.OnRejection(d, &kvsteer.Error{Code: kvsteer.CodeNoCandidates})
	o := ended(decided("w0", model), nil)
	o.Moved, o.Served = true, kvsteer.Target{Worker: "cloud2", Provider: "cloud2", Model: "big"}
	r.metrics.OnOutcome(o)
	got = r.gather()
	assert.InDelta(t, 2, sum(got["kvsteer_degradations_total"], "reason", "not_carried_over"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_degradations_total"], "reason", "cost"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_provider_unready_total"], "provider", "cloud2"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_provider_requests_total"], "provider", "cloud2"), 0)
}

// Each degradation of the router is of a known kind, and what a client may have chosen of it
// is not shown.
func TestDegradations(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) {
		c.Hub, c.NoTokenize = nil, true
	}})
	r.post(chat("hello", true))
	r.eventually(func() bool { return r.value("kvsteer_requests_total") == 1 }, "it has ended")
	got := r.gather()
	assert.Positive(t, sum(got["kvsteer_degradations_total"], "reason", "token_ids"))
	assert.InDelta(t, 1, sum(got["kvsteer_degradations_total"], "reason", "cache_approximate"), 0)
	assert.Zero(t, sum(got["kvsteer_degradations_total"], "reason", "other"))
	assert.InDelta(t, 1, sum(got["kvsteer_prompt_fallbacks_total"], "source", "tokenize", "reason", prompt.ReasonAbsent), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_select_seconds"], "source", "bytes"), 0)

	d := decided("w0", model)
	d.Degradations = []string{
		"token ids not from tokenize: a field that the endpoint can't take: secret", "token ids from local: not proven", "limits: counted here only",
		"something new", "cost: the model has no price, so it counts as free",
	}
	r.metrics.OnDecision(d)
	got = r.gather()
	assert.InDelta(t, 1, sum(got["kvsteer_prompt_fallbacks_total"], "source", "tokenize", "reason", "a field that the endpoint can't take"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_prompt_fallbacks_total"], "source", "local", "reason", "not proven"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_degradations_total"], "reason", "limits"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_degradations_total"], "reason", "cost"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_degradations_total"], "reason", "other"), 0)
	assert.NotContains(t, text(t, r.registry), "secret")
}

// A policy's rules, rejections, and shadows are counted by name.
func TestRules(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	d := decided("w", model)
	d.Policy, d.Rule = "team/p", "r"
	d.Shadows = []kvsteer.ShadowDecision{{Policy: "next", Differs: true}, {Policy: "next"}}
	d.Attempt = 2
	m.OnDecision(d)
	m.OnRejection(&kvsteer.Decision{Chosen: -1, Policy: "team/p"}, &kvsteer.Error{Code: kvsteer.CodeRejectedByPolicy, Rule: "r2"})
	m.OnRefusal(&kvsteer.Refusal{TenantLabel: "acme", Err: &kvsteer.Error{Code: kvsteer.CodeSaturated}})
	m.OnRefusal(&kvsteer.Refusal{TenantLabel: "acme", Err: &kvsteer.Error{Code: kvsteer.CodeCanceled}})
	got := gather(t, reg)
	assert.InDelta(t, 1, sum(got["kvsteer_rule_decisions_total"], "policy", "team/p", "rule", "r"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_rule_rejections_total"], "policy", "team/p", "rule", "r2"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_shadow_decisions_total"], "policy", "next", "result", "differs"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_shadow_decisions_total"], "policy", "next", "result", "same"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_rejected_requests_total"], "code", "saturated"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_tenant_rejected_requests_total"], "tenant", "acme"), 0, "who left was not turned down")
	assert.InDelta(t, 1, sum(got["kvsteer_retries_total"]), 0)
	assert.Zero(t, sum(got["kvsteer_select_seconds"]), "a later attempt is not how long choosing took")
}

// Alarms: what engines take prompts for, forgotten requests, changes of trust.
func TestAlarms(t *testing.T) {
	t.Parallel()
	m, reg := alone(t, prometheus.Options{})
	m.OnPromptMismatch(&prompt.Mismatch{Source: prompt.SourceLocal})
	m.OnReap(7, time.Hour)
	m.OnTrust(kvsteer.TrustChange{Worker: "w", From: kvcache.Exact, To: kvcache.Suspect, Reason: "they disagree"})
	got := gather(t, reg)
	assert.InDelta(t, 1, sum(got["kvsteer_prompt_mismatches_total"], "source", "local"), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_reaped_selections_total"]), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_trust_changes_total"], "to", "suspect", "reason", "they disagree"), 0)
}

// A gap in a worker's events, and what follows from it, is seen.
func TestGapsAreSeen(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1})
	r.exact()
	r.engines[0].Faults().LoseEvents(1)
	for i := range 3 {
		r.post(chat(fleettest.Text(uint64(i), 100), true))
	}
	r.eventually(func() bool { return r.value("kvsteer_worker_event_gaps_total", "worker", "w0") >= 1 }, "a gap")
	r.exact()
	got := r.gather()
	assert.Positive(t, sum(got["kvsteer_worker_event_messages_total"], "kind", "missing"))
	assert.Positive(t, sum(got["kvsteer_worker_event_messages_total"], "kind", "replayed"))
	assert.Positive(t, sum(got["kvsteer_trust_changes_total"], "to", "resyncing", "reason", "gap"))
	assert.Zero(t, sum(got["kvsteer_worker_event_gaps_lost_total"]))
}

// A worker that completes requests and announces nothing is named, and is not shown as exact.
func TestSilentEventsAreSeen(t *testing.T) {
	quiet := follow.NewHub()
	pipe, err := quiet.Open("quiet", follow.PipeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pipe.Close()) })
	r := newRig(t, rigConfig{
		engines: 1,
		engine:  func(_ int, c *fleettest.Config) { c.Hub = nil },
		worker:  func(w *fleet.Worker) { w.Events = []follow.Endpoint{pipe.Endpoint(0)} },
		options: []kvsteer.Option{kvsteer.WithEvents(quiet)},
	})
	r.exact()
	assert.Zero(t, r.value("kvsteer_worker_events_silent", "worker", "w0"))
	for i := range 12 {
		status, body := r.post(chat(fleettest.Text(uint64(i), 100), false))
		require.Equal(t, http.StatusOK, status, body)
	}
	r.eventually(func() bool { return r.value("kvsteer_worker_events_silent", "worker", "w0") == 1 }, "silent")
	got := r.gather()
	assert.InDelta(t, 1, sum(got["kvsteer_worker_cache_ranks"], "worker", "w0", "trust", "approximate"), 0)
	assert.Zero(t, sum(got["kvsteer_cache_ranks"], "trust", "exact"))
}

// Of a model that only providers have no workers are missed; one that has lost its workers has none.
func TestModelsWithoutWorkers(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithProviders(clouds(t))}})
	d := decided("cloud", "big")
	d.Candidates[0].Type = policy.Provider
	r.metrics.OnDecision(d)
	r.metrics.OnOutcome(ended(d, nil))
	page := text(t, r.registry)
	require.Contains(t, page, `kvsteer_requests_total{model="big"`)
	require.NotContains(t, page, `kvsteer_model_workers{model="big"}`)
	require.Contains(t, page, `kvsteer_model_workers{model="m"} 1`)
	r.list.set()
	r.eventually(func() bool { return strings.Contains(text(t, r.registry), `kvsteer_model_workers{model="m"} 0`) }, "it has lost them")
	require.NotContains(t, text(t, r.registry), `kvsteer_model_workers{model="big"}`)
}

// What was not shown of one router's providers is not said of the next, which has none.
func TestUnshownProvidersAreForgotten(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithProviders(clouds(t))}})
	require.Positive(t, r.value("kvsteer_metrics_unshown", "kind", "provider"))
	next, err := kvsteer.New(kvsteer.WithFleet(r.fleet), kvsteer.WithHooks(r.metrics))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, next.Close()) })
	r.metrics.Attach(next)
	r.value("kvsteer_metrics_unshown") // which may be read before the providers are
	require.Zero(t, r.value("kvsteer_metrics_unshown", "kind", "provider"))
}

// An engine that reports other cached tokens than it has is seen as suspect.
func TestSuspectIsSeen(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) { c.Blocks = 64 }})
	r.exact()
	suspect := func() bool { return r.value("kvsteer_worker_cache_ranks", "worker", "w0", "trust", "suspect") == 1 }
	lie := func() {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat(fleettest.Text(3, 600), false))})
		require.NoError(t, err)
		if s.Decision().Winner().CachedTokens > 0 {
			s.Done(kvsteer.Usage{Uncached: s.Decision().PromptTokens, Output: 1, Known: true, CachedKnown: true}) // nothing cached, it says
			return
		}
		s.Abort(nil)
		if !suspect() { // nothing is there yet; of a suspect, honest reports would clear it
			r.post(chat(fleettest.Text(3, 600), false))
		}
	}
	// Of the first doubt its events are read anew, which restores trust; the second stays.
	r.eventually(func() bool {
		lie()
		return r.value("kvsteer_trust_changes_total", "to", "suspect") >= 2 && suspect()
	}, "suspect")
	got := r.gather()
	assert.InDelta(t, 1, sum(got["kvsteer_cache_ranks"], "trust", "suspect"), 0)
	assert.Less(t, sum(got["kvsteer_worker_cache_reported_tokens_total"]), sum(got["kvsteer_worker_cache_predicted_tokens_total"]))
}

// Requests in flight and in the queue are seen while they are.
func TestQueueIsSeen(t *testing.T) {
	r := newRig(t, rigConfig{
		engines: 1, engine: func(_ int, c *fleettest.Config) { c.Speed = 1 },
		options: []kvsteer.Option{kvsteer.WithQueue(kvsteer.QueueOptions{MaxWaiting: 5, Gather: -1})},
	})
	held, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat(fleettest.Text(1, 500), true))})
	require.NoError(t, err)
	got := r.gather()
	assert.InDelta(t, 1, sum(got["kvsteer_in_flight_requests"]), 0)
	assert.InDelta(t, 1, sum(got["kvsteer_worker_in_flight_requests"], "phase", "prefill"), 0)
	assert.Positive(t, sum(got["kvsteer_worker_prefill_tokens"]))
	assert.InDelta(t, 5, sum(got["kvsteer_queue_limit_requests"]), 0)

	done := make(chan error, 1)
	go func() {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat(fleettest.Text(2, 500), true))})
		if err == nil {
			s.Done(kvsteer.Usage{})
		}
		done <- err
	}()
	r.eventually(func() bool { return r.value("kvsteer_queue_requests") == 1 }, "one waits")
	held.FirstToken()
	require.NoError(t, <-done)
	held.Done(kvsteer.Usage{})
	got = r.gather()
	assert.Zero(t, sum(got["kvsteer_queue_requests"]))
	assert.InDelta(t, 1, sum(got["kvsteer_queue_wait_seconds"]), 0, "one has waited")
	assert.Zero(t, sum(got["kvsteer_in_flight_requests"]))
	assert.InDelta(t, 2, sum(got["kvsteer_requests_without_usage_total"]), 0, "nobody reported any")
}
