package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// The tests of this file are the numbered semantics of docs/policy.md, one each.

// 1. No policy at all: local workers that serve the requested model, the lowest
// predicted TTFT first. Providers are not candidates.
func TestSemantic1Golden(t *testing.T) {
	cands := []policy.Candidate{
		worker("slow", "glm", 300), provider("cloud", "glm", 10), worker("fast", "glm", 100), worker("other", "qwen", 20),
	}
	v := ask(compile(t), policy.Request{Model: "glm"}, cands...)
	assert.Equal(t, policy.NoMatchRule, v.Rule)
	assert.Equal(t, []string{"fast", "slow"}, v.order)
	golden(t, "semantic1", v.text)

	// A policy of which no rule matches is as good as none.
	none := rules(policy.Rule{Matches: []policy.Match{{Model: []string{"qwen"}}}})
	v = ask(compile(t, none), policy.Request{Model: "glm"}, cands...)
	assert.Equal(t, policy.NoMatchRule, v.Rule)
	assert.Empty(t, v.Policy)
	assert.Equal(t, []string{"fast", "slow"}, v.order)
	golden(t, "semantic1-no-match", v.text)
}

// 2. With a policy and no consider: local and provider backends that serve the
// requested model.
func TestSemantic2Golden(t *testing.T) {
	v := ask(compile(t, route(policy.Route{})), policy.Request{Model: "glm"},
		worker("slow", "glm", 300), provider("cloud", "glm", 10), worker("fast", "glm", 100), worker("other", "qwen", 20),
		provider("other-cloud", "qwen", 5),
	)
	assert.Equal(t, []string{"cloud", "fast", "slow"}, v.order)
	assert.Equal(t, map[string]string{
		"other":       "not considered: does not serve the requested model",
		"other-cloud": "not considered: does not serve the requested model",
	}, v.dropped)
	golden(t, "semantic2", v.text)
}

// 3. Items of matches are alternatives, the keys of one all hold. The first rule that
// matches decides, in the order of the file; several policies go by priority, then by
// namespace/name.
func TestSemantic3Golden(t *testing.T) {
	only := func(name string) policy.Route {
		return policy.Route{Consider: []policy.Consider{{Workers: []string{name}}}}
	}
	set := compile(t, rules(
		policy.Rule{Name: "or", Route: only("a"), Matches: []policy.Match{
			{Model: []string{"glm"}, Tenant: []string{"acme"}}, {QoS: []string{"batch"}},
		}},
		policy.Rule{Name: "second", Route: only("b"), Matches: []policy.Match{{Tenant: []string{"acme", "globex"}}}},
		policy.Rule{Name: "rest", Route: only("c")},
	))
	cands := []policy.Candidate{worker("a", "glm", 1), worker("b", "glm", 1), worker("c", "glm", 1)}
	for _, c := range []struct {
		req   policy.Request
		rule  string
		match int
	}{
		{policy.Request{Model: "glm", Tenant: "acme"}, "or", 0},
		{policy.Request{Model: "glm", Tenant: "globex", QoS: "batch"}, "or", 1},
		{policy.Request{Model: "glm", Tenant: "globex"}, "second", 0},
		{policy.Request{Model: "glm"}, "rest", -1},
	} {
		v := ask(set, c.req, cands...)
		assert.Equal(t, c.rule, v.Rule)
		assert.Equal(t, c.match, v.Match)
		require.Len(t, v.order, 1)
	}
	golden(t, "semantic3", ask(set, policy.Request{Model: "glm", Tenant: "globex"}, cands...).text)

	named := func(namespace, name string, priority int) *policy.Spec {
		s := rules(policy.Rule{Matches: []policy.Match{{Tenant: []string{name}}, {QoS: []string{"any"}}}})
		s.Namespace, s.Name, s.Priority = namespace, name, priority
		return s
	}
	several := compile(t, named("b", "x", 0), named("a", "y", 0), named("a", "x", 0), named("z", "first", 5))
	order := make([]string, 0, 4)
	for _, p := range several.Outline() {
		order = append(order, p.Policy)
	}
	assert.Equal(t, []string{"z/first", "a/x", "a/y", "b/x"}, order)
	v := ask(several, policy.Request{Model: "glm", QoS: "any"}, cands...)
	assert.Equal(t, "z/first", v.Policy)
	v = ask(several, policy.Request{Model: "glm", Tenant: "y"}, cands...)
	assert.Equal(t, "a/y", v.Policy, "what does not match is passed over")
	golden(t, "semantic3-several", v.text)
}

// 4. exclude runs before select. The keys of one drop all hold, separate items each
// drop on their own. if is about the request, drop about the candidate.
func TestSemantic4Golden(t *testing.T) {
	set := compile(t, route(policy.Route{Exclude: []policy.Exclusion{
		{Name: "busy-and-local", Drop: policy.Filter{Type: policy.LocalOnly, QueuedPrompts: policy.GreaterThan(2)}},
		{Name: "full", If: policy.Condition{QoS: []string{"batch"}}, Drop: policy.Filter{KVCacheUsage: policy.GreaterThan(0.7)}},
	}}))
	cands := []policy.Candidate{
		worker("two", "glm", 1, queued(2)), worker("three", "glm", 1, queued(3)), provider("cloud", "glm", 5, queued(9)),
		worker("full", "glm", 2, usage(0.8)), worker("nearly", "glm", 3, usage(0.7)),
	}
	v := ask(set, policy.Request{Model: "glm"}, cands...)
	assert.Equal(t, []string{"two", "full", "nearly", "cloud"}, v.order)
	assert.Equal(t, map[string]string{"three": "busy-and-local: type Local, queuedPrompts > 2"}, v.dropped)
	assert.Equal(t, "busy-and-local", v.Dropped[0].Exclusion)

	v = ask(set, policy.Request{Model: "glm", QoS: "batch"}, cands...)
	assert.Equal(t, []string{"two", "nearly", "cloud"}, v.order)
	assert.Equal(t, "full: kvCacheUsage > 0.7, if qos batch", v.dropped["full"])
	golden(t, "semantic4", v.text)
}

// 5. The first stage with candidates decides, one without a type takes any. order is a
// preference list; who isn't on it is not a candidate of the stage.
func TestSemantic5Golden(t *testing.T) {
	set := compile(t, route(policy.Route{Select: []policy.Stage{
		{Type: policy.LocalOnly, Minimize: policy.QueuedPrompts},
		{Type: policy.ProviderOnly, Order: []string{"gold", "silver"}},
		{Order: []string{"bronze", "gold"}},
	}}))
	all := []policy.Candidate{
		provider("bronze", "glm", 1), provider("silver", "glm", 2), provider("tin", "glm", 1),
		worker("busy", "glm", 1, queued(4)), worker("idle", "glm", 9), provider("gold", "glm", 3),
	}
	v := ask(set, policy.Request{Model: "glm"}, all...)
	assert.Equal(t, []string{"idle", "busy", "gold", "silver", "bronze"}, v.order)
	assert.Equal(t, []int{0, 0, 1, 1, 2}, v.Stages)
	assert.Equal(t, 2, v.Head())
	assert.Contains(t, v.dropped["tin"], "in no stage")
	golden(t, "semantic5", v.text)

	v = ask(set, policy.Request{Model: "glm"}, all[0], all[1], all[5])
	assert.Equal(t, []string{"gold", "silver", "bronze"}, v.order)
	golden(t, "semantic5-empty", v.text)
}

// 6. onEmpty is Reject unless it says otherwise.
func TestSemantic6Golden(t *testing.T) {
	nobody := []policy.Exclusion{{Name: "all", Drop: policy.Filter{QueuedPrompts: policy.LessThan(100)}}}
	v := ask(compile(t, route(policy.Route{Exclude: nobody})), policy.Request{Model: "glm"}, worker("a", "glm", 1))
	assert.Empty(t, v.order)
	assert.Equal(t, policy.OnEmpty{}, v.Empty)
	assert.Equal(t, policy.Reject, v.Empty.Action)
	golden(t, "semantic6", v.text)

	wait := policy.OnEmpty{Action: policy.Wait, UpTo: 2 * time.Second}
	v = ask(compile(t, rules(
		policy.Rule{Name: "first", Route: policy.Route{Exclude: nobody, OnEmpty: policy.OnEmpty{Action: policy.NextRule}}},
		policy.Rule{Name: "second", Matches: []policy.Match{{QoS: []string{"batch"}}}, Route: policy.Route{Exclude: nobody, OnEmpty: wait}},
		policy.Rule{Name: "third"},
	)), policy.Request{Model: "glm", QoS: "batch"}, worker("a", "glm", 1))
	assert.Equal(t, "second", v.Rule)
	assert.Equal(t, wait, v.Empty)
	assert.Empty(t, v.order)
	golden(t, "semantic6-next-rule", v.text)
}

// 7. Read literally, a policy that has its provider first prefers it for every request
// without PII, and uses local workers as a fallback only.
func TestSemantic7Golden(t *testing.T) {
	exclude := []policy.Exclusion{{
		Name: "pii-stays", If: policy.Condition{Tag: []string{"pii"}}, Drop: policy.Filter{Type: policy.ProviderOnly},
	}}
	local, cloud := policy.Stage{Type: policy.LocalOnly}, policy.Stage{Type: policy.ProviderOnly, Order: []string{"cloud"}}
	literal := compile(t, route(policy.Route{Exclude: exclude, Select: []policy.Stage{cloud, local}}))
	cands := []policy.Candidate{worker("gpu", "glm", 1), provider("cloud", "glm", 500)}

	v := ask(literal, policy.Request{Model: "glm", Tags: tagged("-pii")}, cands...)
	assert.Equal(t, []string{"cloud", "gpu"}, v.order, "though the worker is far faster")
	golden(t, "semantic7", v.text)
	v = ask(literal, policy.Request{Model: "glm", Tags: tagged("pii")}, cands...)
	assert.Equal(t, []string{"gpu"}, v.order)
	v = ask(literal, policy.Request{Model: "glm", Tags: tagged("pii")}, cands[1])
	assert.Empty(t, v.order, "fail closed")
}

// 8. Tags are present, absent or unknown. exclude.if takes unknown for present, matches
// take it for absent; onUnknown overrides either.
func TestSemantic8Golden(t *testing.T) {
	build := func(match, condition policy.OnUnknown) *policy.Set {
		return compile(t, rules(
			policy.Rule{Name: "tagged", Matches: []policy.Match{{Tag: []string{"low"}, OnUnknown: match}}},
			policy.Rule{Name: "rest", Route: policy.Route{Exclude: []policy.Exclusion{{
				Name: "pii", If: policy.Condition{Tag: []string{"pii"}, OnUnknown: condition}, Drop: policy.Filter{Type: policy.ProviderOnly},
			}}}},
		))
	}
	cands := []policy.Candidate{worker("gpu", "glm", 2), provider("cloud", "glm", 1)}
	both, one := []string{"cloud", "gpu"}, []string{"gpu"}
	for _, c := range []struct {
		name             string
		match, condition policy.OnUnknown
		tags             []policy.Tag
		rule             string
		order            []string
	}{
		{"unknown", 0, 0, nil, "rest", one},
		{"said to be unknown", 0, 0, []policy.Tag{{Name: "low"}, {Name: "pii"}}, "rest", one},
		{"absent", 0, 0, tagged("-low", "-pii"), "rest", both},
		{"present", 0, 0, tagged("-low", "pii"), "rest", one},
		{"match present", 0, 0, tagged("low"), "tagged", both},
		{"match takes unknown for present", policy.UnknownPresent, 0, nil, "tagged", both},
		{"absent stays absent", policy.UnknownPresent, 0, tagged("-low", "-pii"), "rest", both},
		{"exclusion takes unknown for absent", 0, policy.UnknownAbsent, nil, "rest", both},
		{"present stays present", 0, policy.UnknownAbsent, tagged("pii"), "rest", one},
		{"said as is the default", policy.UnknownAbsent, policy.UnknownPresent, nil, "rest", one},
	} {
		v := ask(build(c.match, c.condition), policy.Request{Model: "glm", Tags: c.tags}, cands...)
		assert.Equal(t, c.rule, v.Rule, c.name)
		assert.Equal(t, c.order, v.order, c.name)
	}
	golden(t, "semantic8", ask(build(0, 0), policy.Request{Model: "glm"}, cands...).text)
	require.Equal(t, []string{"low", "pii"}, build(0, 0).Needs().Tags)
}

// 9. When several models are considered, the chosen candidate's is what the request is
// rewritten to.
func TestSemantic9Golden(t *testing.T) {
	set := compile(t, rules(policy.Rule{
		Matches: []policy.Match{{Model: []string{"glm"}, Tag: []string{"low"}}},
		Route:   policy.Route{Consider: []policy.Consider{{Models: []string{"qwen", "glm"}}}},
	}))
	cands := []policy.Candidate{worker("a", "glm", 50), worker("b", "qwen", 20), worker("c", "llama", 1)}
	req := policy.Request{Model: "glm", Tags: tagged("low")}
	v := ask(set, req, cands...)
	assert.Equal(t, []string{"b", "a"}, v.order)
	assert.Contains(t, v.dropped["c"], "not considered")
	golden(t, "semantic9", v.text)
	e := policy.Explain(set, &req, cands, &v.Plan)
	assert.Equal(t, &policy.Rewrite{From: "glm", To: "qwen"}, e.Rewrite)

	req.Tags = tagged("-low")
	v = ask(set, req, cands...)
	assert.Equal(t, []string{"a"}, v.order)
	assert.Nil(t, policy.Explain(set, &req, cands, &v.Plan).Rewrite)
}
