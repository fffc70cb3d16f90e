package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// benchSpec has twenty rules, of which the last matches.
func benchSpec() *policy.Spec {
	spec := &policy.Spec{Name: "bench"}
	for i := range 19 {
		spec.Rules = append(spec.Rules, policy.Rule{
			Name: fmt.Sprintf("rule-%d", i),
			Matches: []policy.Match{
				{Model: []string{"llama", fmt.Sprintf("qwen-%d", i)}, Tag: []string{"complexity-low"}},
				{Model: []string{"glm"}, Tag: []string{"complexity-low", "smalltalk"}, Tenant: []string{"acme"}},
				{Header: []policy.HeaderMatch{{Name: "x-team", Value: "search"}}, PromptTokens: policy.GreaterThan(5000)},
			},
		})
	}
	spec.Rules = append(spec.Rules, policy.Rule{
		Name: "last",
		Route: policy.Route{
			Consider: []policy.Consider{{Models: []string{"qwen", "glm"}}, {Models: []string{"qwen-mini"}}},
			Exclude: []policy.Exclusion{
				{Name: "pii", If: policy.Condition{Tag: []string{"pii"}}, Drop: policy.Filter{Type: policy.ProviderOnly}},
				{Name: "busy", Drop: policy.Filter{
					Type: policy.LocalOnly, QueuedPrompts: policy.GreaterThan(40), KVCacheUsage: policy.GreaterThan(0.9),
				}},
				{Name: "away", Drop: policy.Filter{Region: []string{"us"}}},
			},
			Select: []policy.Stage{
				{Type: policy.LocalOnly, SwitchOnlyIf: &policy.Margin{By: 200 * time.Millisecond}},
				{Type: policy.ProviderOnly, Order: []string{"provider-1", "provider-3", "provider-5"}},
			},
		},
	})
	return spec
}

func benchCandidates(n int) []policy.Candidate {
	models := []string{"glm", "qwen"}
	cands := make([]policy.Candidate, n)
	for i := range cands {
		c := &cands[i]
		*c = policy.Candidate{
			Name: fmt.Sprintf("gpu-%d", i), Model: models[i/5%2], Labels: map[string]string{"region": "eu", "pool": "a"},
			Queued: i * 7 % 50, KVUsage: float64(i*13%100) / 100, InFlight: i % 3, Tie: uint32(i * 977),
			PredictedTTFT: time.Duration(i*7919%1000) * time.Millisecond,
		}
		if i%8 == 7 {
			c.Name, c.Type = fmt.Sprintf("provider-%d", i/8), policy.Provider
		}
	}
	return cands
}

func benchRequest() *policy.Request {
	return &policy.Request{
		Model: "glm", API: "chat", PromptTokens: 1200, Tenant: "acme", Attempt: 1,
		Tags:   []policy.Tag{{Name: "pii", State: policy.TagAbsent}, {Name: "complexity-low", State: policy.TagAbsent}},
		Header: map[string][]string{"X-Team": {"ads"}},
	}
}

func BenchmarkEvaluate(b *testing.B) {
	set, err := policy.Compile(policy.Options{}, benchSpec())
	require.NoError(b, err)
	req, cands := benchRequest(), benchCandidates(64)
	var plan policy.Plan
	b.ReportAllocs()
	for b.Loop() {
		set.Evaluate(req, cands, &plan)
	}
	require.Equal(b, "last", plan.Rule)
	require.Len(b, plan.Order, 59)
}

func TestEvaluateAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("pools forget under the race detector")
	}
	shadow := benchSpec()
	shadow.Name, shadow.Mode = "beside", policy.Shadow
	set, err := policy.Compile(policy.Options{}, benchSpec(), shadow)
	require.NoError(t, err)
	req, cands := benchRequest(), benchCandidates(64)
	var plan policy.Plan
	set.Evaluate(req, cands, &plan)
	require.Zero(t, testing.AllocsPerRun(1000, func() { set.Evaluate(req, cands, &plan) }))
	require.Len(t, plan.Shadows, 1)
}
