package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// The state of the pool is that of the local workers of the requested model.
func TestPoolState(t *testing.T) {
	t.Parallel()
	build := func(m policy.Match) *policy.Set {
		return compile(t, rules(
			policy.Rule{Name: "holds", Matches: []policy.Match{m}, Route: policy.Route{
				Consider: []policy.Consider{{Models: []string{"glm", "qwen"}}},
			}},
		))
	}
	busy := []policy.Candidate{
		worker("a", "glm", 1, queued(5), usage(0.9)), worker("a", "glm", 1, queued(7), usage(0.8), rank(1)),
		worker("b", "glm", 1, queued(6), usage(0.9)),
		worker("idle", "qwen", 1), provider("cloud", "glm", 1),
	}
	for _, c := range []struct {
		name  string
		match policy.Match
		alias bool
		cands []policy.Candidate
		holds bool
	}{
		{"all have more", policy.Match{QueuedPrompts: policy.GreaterThan(4)}, false, busy, true},
		{"one has not more", policy.Match{QueuedPrompts: policy.GreaterThan(5)}, false, busy, false},
		{"one has less", policy.Match{QueuedPrompts: policy.LessThan(6)}, false, busy, true},
		{"usage", policy.Match{KVCacheUsage: policy.Between(0.7, 0.85)}, false, busy, true},
		{"usage of none", policy.Match{KVCacheUsage: policy.LessThan(0.8)}, false, busy, false},
		{"workers count once", policy.Match{HealthyWorkers: policy.Between(1, 3)}, false, busy, true},
		{"not three", policy.Match{HealthyWorkers: policy.GreaterThan(2)}, false, busy, false},
		{"nobody is overloaded", policy.Match{QueuedPrompts: policy.GreaterThan(1000), KVCacheUsage: policy.GreaterThan(0.99)}, false, busy[3:], true},
		{"nobody is idle", policy.Match{QueuedPrompts: policy.LessThan(1000)}, false, busy[3:], false},
		{"nobody is healthy", policy.Match{HealthyWorkers: policy.LessThan(1)}, false, busy[3:], true},
		{"an alias has all workers", policy.Match{QueuedPrompts: policy.LessThan(1)}, true, busy, true},
		{"an alias has all workers but providers", policy.Match{HealthyWorkers: policy.Between(2, 4)}, true, busy, true},
	} {
		v := ask(build(c.match), policy.Request{Model: "glm", Alias: c.alias}, c.cands...)
		assert.Equal(t, c.holds, v.Rule == "holds", c.name)
	}
	nobody := ask(build(policy.Match{QueuedPrompts: policy.LessThan(9)}), policy.Request{Model: "glm"}, busy[3:]...)
	require.Contains(t, nobody.text, "queuedPrompts is infinite, for there is no worker, not < 9")
}

func TestMatchConditions(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	header := map[string][]string{"X-Team": {"search", "ads"}}
	for _, c := range []struct {
		name  string
		match policy.Match
		req   policy.Request
		why   string // "": it holds
	}{
		{"api", policy.Match{API: []string{"chat", "messages"}}, policy.Request{API: "messages"}, ""},
		{"another api", policy.Match{API: []string{"chat"}}, policy.Request{API: "embeddings"}, `api is "embeddings", not chat`},
		{"qos", policy.Match{QoS: []string{"batch"}}, policy.Request{}, `qos is "", not batch`},
		{"session", policy.Match{Session: &yes}, policy.Request{Session: true}, ""},
		{"no session", policy.Match{Session: &yes}, policy.Request{}, "there is no session"},
		{"without session", policy.Match{Session: &no}, policy.Request{Session: true}, "there is a session"},
		{"any tag", policy.Match{Tag: []string{"a", "b"}}, policy.Request{Tags: tagged("-a", "b")}, ""},
		{"no tag", policy.Match{Tag: []string{"a", "b"}}, policy.Request{Tags: tagged("-a")}, "tag a is absent, b is unknown"},
		{"header's case", policy.Match{Header: []policy.HeaderMatch{{Name: "x-TEAM", Value: "ads"}}}, policy.Request{Header: header}, ""},
		{"header's prefix", policy.Match{Header: []policy.HeaderMatch{{Name: "X-Team", Prefix: "sea"}}}, policy.Request{Header: header}, ""},
		{"header is there", policy.Match{Header: []policy.HeaderMatch{{Name: "X-Team"}}}, policy.Request{Header: header}, ""},
		{"value counts", policy.Match{Header: []policy.HeaderMatch{{Name: "X-Team", Value: "Ads"}}}, policy.Request{Header: header}, "header X-Team is another"},
		{"header is there though", policy.Match{Header: []policy.HeaderMatch{{Name: "X-Team", Absent: true}}}, policy.Request{Header: header}, "header X-Team is another"},
		{"header is absent", policy.Match{Header: []policy.HeaderMatch{{Name: "X-Other", Absent: true}}}, policy.Request{Header: header}, ""},
		{
			"both headers",
			policy.Match{Header: []policy.HeaderMatch{{Name: "X-Team"}, {Name: "X-Other"}}},
			policy.Request{Header: header},
			"header X-Other is another",
		},
		{"tokens", policy.Match{PromptTokens: policy.Between(10, 20)}, policy.Request{PromptTokens: 11}, ""},
		{"bounds are outside", policy.Match{PromptTokens: policy.Between(10, 20)}, policy.Request{PromptTokens: 20}, "promptTokens is 20, not > 10 and < 20"},
		{"tokens that nobody knows", policy.Match{PromptTokens: policy.LessThan(20)}, policy.Request{}, "promptTokens is 0, not < 20"},
	} {
		set := compile(t, rules(policy.Rule{Name: "one", Matches: []policy.Match{c.match}}))
		v := ask(set, c.req)
		if c.why == "" {
			assert.Equal(t, "one", v.Rule, c.name)
			continue
		}
		assert.Equal(t, policy.NoMatchRule, v.Rule, c.name)
		assert.Contains(t, v.text, "passed: rule one of policy test/policy: "+c.why+"\n", c.name)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	eu := func(key string) func(*policy.Candidate) { return labels(key, "eu") }
	quota := func(x float64) func(*policy.Candidate) {
		return func(c *policy.Candidate) { c.RemainingQuota, c.QuotaKnown = x, true }
	}
	trust := func(s kvcache.Trust) func(*policy.Candidate) { return func(c *policy.Candidate) { c.Trust = s } }
	for _, c := range []struct {
		name    string
		filter  policy.Filter
		cand    policy.Candidate
		dropped string // "": it stays
	}{
		{"name", policy.Filter{Name: []string{"x", "a"}}, worker("a", "glm", 1), "name x or a"},
		{"another name", policy.Filter{Name: []string{"x"}}, worker("a", "glm", 1), ""},
		{"region", policy.Filter{Region: []string{"eu"}}, worker("a", "glm", 1, eu("region")), "region eu"},
		{"region by Kubernetes", policy.Filter{Region: []string{"eu"}}, worker("a", "glm", 1, eu("topology.kubernetes.io/region")), "region eu"},
		{
			"ours comes first",
			policy.Filter{Region: []string{"eu"}},
			worker("a", "glm", 1, labels("region", "us", "topology.kubernetes.io/region", "eu")), "",
		},
		{"region that nobody knows", policy.Filter{Region: []string{"eu"}}, worker("a", "glm", 1), ""},
		{
			"labels",
			policy.Filter{Labels: map[string]string{"z": "1", "a": "2"}},
			worker("a", "glm", 1, labels("a", "2", "z", "1")),
			"label a=2, label z=1",
		},
		{"one label", policy.Filter{Labels: map[string]string{"z": "1", "a": "2"}}, worker("a", "glm", 1, labels("a", "2")), ""},
		{"seconds", policy.Filter{PredictedTTFT: policy.GreaterThan(0.25)}, worker("a", "glm", 251), "predictedTTFT > 0.25s"},
		{"just in time", policy.Filter{PredictedTTFT: policy.GreaterThan(0.25)}, worker("a", "glm", 250), ""},
		{"price", policy.Filter{Price: policy.GreaterThan(0.01)}, provider("a", "glm", 1, price(0.02)), "price > 0.01 USD"},
		{"cheap", policy.Filter{Price: policy.GreaterThan(0.01)}, provider("a", "glm", 1, price(0.01)), ""},
		{"price that nobody knows", policy.Filter{Price: policy.GreaterThan(0.01)}, provider("a", "glm", 1), "price > 0.01 USD"},
		{"quota", policy.Filter{RemainingQuota: policy.LessThan(0.1)}, provider("a", "glm", 1, quota(0.05)), "remainingQuota < 0.1"},
		{"quota that nobody knows", policy.Filter{RemainingQuota: policy.LessThan(0.1)}, provider("a", "glm", 1), ""},
		{"trust", policy.Filter{Trust: []string{"Suspect", "BLIND"}}, worker("a", "glm", 1, trust(kvcache.Suspect)), "trust blind or suspect"},
		{"trusted", policy.Filter{Trust: []string{"suspect", "blind"}}, worker("a", "glm", 1, trust(kvcache.Exact)), ""},
		{"everything", policy.Filter{Type: policy.LocalOnly, Trust: []string{"blind"}, QueuedPrompts: policy.LessThan(1)}, worker("a", "glm", 1), "type Local, queuedPrompts < 1, trust blind"},
	} {
		set := compile(t, route(policy.Route{Exclude: []policy.Exclusion{{Name: "x", Drop: c.filter}}}))
		v := ask(set, policy.Request{Model: "glm"}, c.cand)
		if c.dropped == "" {
			assert.Equal(t, []string{"a"}, v.order, c.name)
			continue
		}
		assert.Empty(t, v.order, c.name)
		assert.Equal(t, "x: "+c.dropped, v.dropped["a"], c.name)
	}
}

func TestConsider(t *testing.T) {
	t.Parallel()
	spec := route(policy.Route{Consider: []policy.Consider{
		{ModelLabels: map[string]string{"family": "qwen3"}, WorkerLabels: map[string]string{"tier": "gold"}},
		{Models: []string{"glm"}, Providers: []string{"cloud"}},
		{Workers: []string{"w"}},
	}})
	spec.Models = []policy.ModelLabels{{Name: "qwen-big", Labels: map[string]string{"family": "qwen3"}}}
	set, err := policy.Compile(policy.Options{Models: []policy.ModelLabels{
		{Name: "qwen-mini", Labels: map[string]string{"family": "qwen3"}},
		{Name: "qwen-big", Labels: map[string]string{"family": "other"}},
	}}, spec)
	require.NoError(t, err)
	gold := labels("tier", "gold")
	v := ask(set, policy.Request{Model: "llama"},
		worker("a", "qwen-big", 1, gold), worker("b", "qwen-mini", 2, gold), provider("c", "qwen-mini", 2, gold), worker("d", "qwen-big", 1),
		provider("cloud", "glm", 3), provider("cloud2", "glm", 3), worker("cloud", "glm", 3),
		worker("w", "llama", 4), worker("x", "llama", 4), provider("w", "llama", 4),
	)
	require.Equal(t, []string{"a", "b", "cloud", "w"}, v.order)
	require.Len(t, v.Dropped, 6)
	require.Equal(t,
		"not considered; considered are models qwen-big or qwen-mini, workers with tier=gold, or models glm, providers cloud, "+
			"or the requested model, workers w", v.dropped["d"])
	require.Equal(t, []string{"llama", "qwen-big", "qwen-mini", "glm"}, set.Models(&policy.Request{Model: "llama"}, nil))
}

// What drops a candidate is the first thing that does.
func TestTheFirstReasonIsNamed(t *testing.T) {
	t.Parallel()
	set := compile(t, route(policy.Route{Exclude: []policy.Exclusion{
		{Name: "busy", Drop: policy.Filter{QueuedPrompts: policy.GreaterThan(2)}},
		{Name: "full", Drop: policy.Filter{KVCacheUsage: policy.GreaterThan(0.5)}},
	}}))
	v := ask(set, policy.Request{Model: "glm"},
		worker("both", "glm", 1, queued(3), usage(0.9)), worker("full", "glm", 1, usage(0.9)), worker("other", "qwen", 1, queued(3)))
	require.Equal(t, map[string]string{
		"both": "busy: queuedPrompts > 2", "full": "full: kvCacheUsage > 0.5", "other": "not considered: does not serve the requested model",
	}, v.dropped)
}

// Of models that are named and labelled, those count that are both.
func TestConsiderNamesAndLabels(t *testing.T) {
	t.Parallel()
	spec := route(policy.Route{Consider: []policy.Consider{{
		Models: []string{"glm", "qwen"}, ModelLabels: map[string]string{"family": "big"},
	}}})
	spec.Models = []policy.ModelLabels{
		{Name: "glm", Labels: map[string]string{"family": "big"}}, {Name: "llama", Labels: map[string]string{"family": "big"}},
	}
	require.Equal(t, []string{"glm"}, compile(t, spec).Models(&policy.Request{Model: "x"}, nil))
}

// The state of the pool can be told only with candidates of the requested model, which
// may be none that a rule considers.
func TestModelsThatTellTheStateOfThePool(t *testing.T) {
	t.Parallel()
	to := func(name string) policy.Route {
		return policy.Route{Consider: []policy.Consider{{Models: []string{name}}}}
	}
	busy := policy.Match{QueuedPrompts: policy.GreaterThan(5)}
	set := compile(t, rules(policy.Rule{Matches: []policy.Match{busy}, Route: to("small")}, policy.Rule{Route: to("medium")}))
	require.Equal(t, []string{"large", "small", "medium"}, set.Models(&policy.Request{Model: "large"}, nil))
	set = compile(t, rules(policy.Rule{Route: to("medium")}))
	require.Equal(t, []string{"medium"}, set.Models(&policy.Request{Model: "large"}, nil))
}
