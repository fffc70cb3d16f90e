package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// full is a spec in which every field says something.
func full() *policy.Spec {
	yes, low, high := true, 1.0, 5.0
	within := policy.Range{GreaterThan: &low, LessThan: &high}
	names := func(s string) []string { return []string{s} }
	return &policy.Spec{
		APIVersion: policy.APIVersion, Namespace: "ns", Name: "full", Priority: 3, Mode: policy.Shadow, Pools: names("red"),
		Models: []policy.ModelLabels{{Name: "glm", Labels: map[string]string{"family": "big", "size": "1"}}},
		Rules: []policy.Rule{{
			Name: "rule",
			Matches: []policy.Match{{
				Model: names("glm"), Tag: names("low"), Tenant: names("acme"), QoS: names("batch"), API: names("chat"),
				Header:       []policy.HeaderMatch{{Name: "X-A", Value: "1", Prefix: "1"}, {Name: "X-B", Absent: true}},
				PromptTokens: within, Session: &yes, QueuedPrompts: within, KVCacheUsage: policy.Between(0.1, 0.9), HealthyWorkers: within,
				OnUnknown: policy.UnknownPresent,
			}},
			Route: policy.Route{
				Consider: []policy.Consider{{
					Models: names("glm"), ModelLabels: map[string]string{"family": "big"}, Workers: names("w"),
					WorkerLabels: map[string]string{"tier": "gold"}, Providers: names("p"),
				}},
				Exclude: []policy.Exclusion{{
					Name: "x",
					If: policy.Condition{
						Tag: names("pii"), Tenant: names("acme"), QoS: names("batch"), Header: []policy.HeaderMatch{{Name: "X-C", Value: "1"}},
						OnUnknown: policy.UnknownAbsent,
					},
					Drop: policy.Filter{
						Type: policy.LocalOnly, Name: names("w"), Labels: map[string]string{"tier": "gold"}, Region: names("eu"),
						QueuedPrompts: within, RunningRequests: within, KVCacheUsage: policy.Between(0.1, 0.9), PredictedTTFT: within,
						CachedTokens: within, Price: within, RemainingQuota: policy.Between(0.1, 0.9), Trust: names("blind"),
					},
				}},
				Select: []policy.Stage{{
					Type: policy.LocalOnly, Minimize: policy.Cost, Order: names("w"),
					Weighted:     []policy.Share{{Model: "glm", Name: "w", Labels: map[string]string{"tier": "gold"}, Weight: 2}},
					SwitchOnlyIf: &policy.Margin{By: time.Second, Percent: 5},
				}},
				OnEmpty: policy.OnEmpty{Action: policy.Wait, Status: 429, Message: "later", UpTo: time.Second},
			},
		}},
	}
}

// leaves calls f for every exported field that holds a plain value, of v and of all
// that it consists of.
func leaves(v reflect.Value, path string, f func(path string, leaf reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				leaves(v.Field(i), path+"."+field.Name, f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), path+"[]", f)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			leaves(v.Elem(), path, f)
		}
	default:
		f(path, v)
	}
}

// change makes a value another one.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "2")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.01)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		v.SetMapIndex(reflect.ValueOf("another"), reflect.ValueOf("label"))
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 1)
	default:
		v.SetInt(v.Int() + 1)
	}
}

// Whatever a spec says is part of its version. The version is of the specs and not of
// what they compile to, so that it is asked for before problems are looked for.
func TestVersionIsOfEveryField(t *testing.T) {
	t.Parallel()
	base := policy.VersionOf(policy.Options{}, full())
	require.Equal(t, base, policy.VersionOf(policy.Options{}, full()))
	require.Len(t, base, 16)

	var paths []string
	leaves(reflect.ValueOf(full()).Elem(), "", func(path string, leaf reflect.Value) {
		paths = append(paths, path)
		require.False(t, leaf.IsZero() && leaf.Kind() != reflect.Bool && !strings.HasSuffix(path, "Value") && !strings.HasSuffix(path, "Prefix"),
			"%s: the test's spec says nothing", path)
	})
	for k, path := range paths {
		spec, i := full(), 0
		leaves(reflect.ValueOf(spec).Elem(), "", func(_ string, leaf reflect.Value) {
			if i == k {
				change(leaf)
			}
			i++
		})
		if path == ".APIVersion" {
			require.Equal(t, base, policy.VersionOf(policy.Options{}, spec), path)
			continue
		}
		require.NotEqual(t, base, policy.VersionOf(policy.Options{}, spec), path)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	one := rules(policy.Rule{Matches: []policy.Match{{Model: []string{"glm"}}}})
	other := rules(policy.Rule{Matches: []policy.Match{{Model: []string{"glm"}, Tag: []string{}, Header: []policy.HeaderMatch{}}}, Route: policy.Route{Select: []policy.Stage{}}})
	other.APIVersion, other.Pools = policy.APIVersionKinference, []string{}
	require.Equal(t, compile(t, one).Version(), policy.CompileAnyway(other).Version(), "empty or not there")

	second := rules(policy.Rule{})
	second.Name = "second"
	require.Equal(t, compile(t, one, second).Version(), compile(t, second, one).Version(), "in which order they are given")
	require.NotEqual(t, compile(t, one).Version(), compile(t, one, second).Version())

	labels := policy.Options{Models: []policy.ModelLabels{{Name: "glm", Labels: map[string]string{"a": "b"}}}}
	set, err := policy.Compile(labels, one)
	require.NoError(t, err)
	require.NotEqual(t, compile(t, one).Version(), set.Version())

	var plan policy.Plan
	set.Evaluate(&policy.Request{}, nil, &plan)
	require.Equal(t, set.Version(), plan.Version)
}

// A Set does not change with what it was made of.
func TestSetKeepsNothingOfTheSpecs(t *testing.T) {
	t.Parallel()
	d := dice{Rand: rand.New(rand.NewPCG(1, 1))}
	for range 300 {
		spec := d.spec(0)
		spec.Mode = policy.Enforce
		set := policy.CompileAnyway(spec)
		req, cands := d.request(), d.candidates()
		before := ask(set, req, cands...)
		models := fmt.Sprint(set.Models(&req, nil))
		leaves(reflect.ValueOf(spec).Elem(), "", func(_ string, leaf reflect.Value) { change(leaf) })
		require.Equal(t, before, ask(set, req, cands...))
		require.Equal(t, models, fmt.Sprint(set.Models(&req, nil)))
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	_, err := policy.Compile(policy.Options{}, nil)
	require.ErrorContains(t, err, "nil *Spec")

	twice := []*policy.Spec{rules(policy.Rule{}), rules(policy.Rule{})}
	twice[1].Priority = 7
	_, err = policy.Compile(policy.Options{}, twice...)
	var refused *policy.CheckError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Findings, 1)
	assert.Contains(t, err.Error(), `another policy is named "test/policy"`)
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	spec := rules(policy.Rule{
		Matches: []policy.Match{{Tag: []string{"z", "a"}, Header: []policy.HeaderMatch{{Name: "x-b"}, {Name: "x-a", Absent: true}}}},
		Route: policy.Route{Exclude: []policy.Exclusion{{
			Name: "x", If: policy.Condition{Tag: []string{"a", "pii"}, Header: []policy.HeaderMatch{{Name: "X-B"}}}, Drop: policy.Filter{Type: policy.ProviderOnly},
		}}},
	})
	shadow := rules(policy.Rule{Matches: []policy.Match{{Tag: []string{"beside"}}}})
	shadow.Name, shadow.Mode = "shadow", policy.Shadow
	require.Equal(t, policy.Needs{Tags: []string{"a", "beside", "pii", "z"}, Headers: []string{"X-A", "X-B"}}, compile(t, spec, shadow).Needs())
	require.Equal(t, []string{"a", "pii", "z"}, compile(t, spec).Outline()[0].Rules[0].Tags)
}

func TestPools(t *testing.T) {
	t.Parallel()
	red, all := rules(policy.Rule{}), rules(policy.Rule{})
	red.Name, red.Pools, red.Priority = "red", []string{"red", "pink"}, 1
	set := compile(t, red, all)
	for pool, want := range map[string]string{"red": "test/red", "pink": "test/red", "blue": "test/policy", "": "test/policy"} {
		assert.Equal(t, want, ask(set, policy.Request{Pool: pool}).Policy, pool)
	}
}

// What a shadow would do is said, and never done.
func TestShadow(t *testing.T) {
	t.Parallel()
	enforced := route(policy.Route{Select: []policy.Stage{{Type: policy.LocalOnly}}})
	shadow := rules(
		policy.Rule{Name: "burst", Matches: []policy.Match{{QoS: []string{"batch"}}}, Route: policy.Route{Select: []policy.Stage{{Type: policy.ProviderOnly}}}},
		policy.Rule{Name: "same", Matches: []policy.Match{{QoS: []string{"same"}}}},
	)
	shadow.Name, shadow.Mode, shadow.Priority = "shadow", policy.Shadow, 100
	set := compile(t, enforced, shadow)
	cands := []policy.Candidate{provider("cloud", "glm", 5), worker("gpu", "glm", 1)}
	for _, c := range []struct {
		qos     string
		cands   []policy.Candidate
		shadows []policy.ShadowPlan
	}{
		{"", cands, nil},
		{"batch", cands, []policy.ShadowPlan{{Policy: "test/shadow", Rule: "burst", First: 0, Differs: true}}},
		{"same", cands, []policy.ShadowPlan{{Policy: "test/shadow", Rule: "same", First: 1}}},
		{"batch", cands[1:], []policy.ShadowPlan{{Policy: "test/shadow", Rule: "burst", First: -1, Differs: true}}},
		{"batch", nil, []policy.ShadowPlan{{Policy: "test/shadow", Rule: "burst", First: -1}}},
	} {
		v := ask(set, policy.Request{Model: "glm", QoS: c.qos}, c.cands...)
		assert.Equal(t, "test/policy", v.Policy)
		assert.Equal(t, c.shadows, v.Shadows)
		if len(c.cands) > 0 {
			assert.Equal(t, []string{"gpu"}, v.order)
		}
	}
	v := ask(compile(t, shadow), policy.Request{Model: "glm", QoS: "batch"}, cands...)
	assert.Equal(t, policy.NoMatchRule, v.Rule)
	assert.Equal(t, []string{"gpu"}, v.order)
	golden(t, "shadow", v.text)
}

// Prefill-only workers are chosen among by the same rules.
func TestPrefill(t *testing.T) {
	t.Parallel()
	set := compile(t, route(policy.Route{Exclude: []policy.Exclusion{{Name: "busy", Drop: policy.Filter{QueuedPrompts: policy.GreaterThan(3)}}}}))
	v := ask(set, policy.Request{Model: "glm", Prefill: true}, worker("p1", "glm", 1, queued(4)), worker("p2", "glm", 2))
	require.Equal(t, []string{"p2"}, v.order)
}

func TestSetIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	shadow := benchSpec()
	shadow.Name, shadow.Mode = "beside", policy.Shadow
	set := compile(t, benchSpec(), shadow)
	var want policy.Plan
	set.Evaluate(benchRequest(), benchCandidates(64), &want)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			req, cands := benchRequest(), benchCandidates(64)
			var plan policy.Plan
			for range 200 {
				set.Evaluate(req, cands[:8*n], &plan)
				set.Evaluate(req, cands, &plan)
				assert.Equal(t, want, plan)
				set.Models(req, nil)
			}
		})
	}
	wg.Wait()
}

func TestExplanationAsJSON(t *testing.T) {
	t.Parallel()
	shadow := route(policy.Route{Select: []policy.Stage{{Type: policy.ProviderOnly}}})
	shadow.Name, shadow.Mode = "shadow", policy.Shadow
	spec := benchSpec()
	spec.Rules = spec.Rules[18:]
	last := &spec.Rules[1].Route
	last.Select = append(last.Select, policy.Stage{Weighted: []policy.Share{{Model: "qwen", Weight: 1}, {Model: "glm", Weight: 9}}})
	set := compile(t, spec, shadow)
	req, cands := benchRequest(), benchCandidates(16)
	cands = append(cands[:3], cands[6:]...)
	req.Tags = append(req.Tags, policy.Tag{Name: "extra", State: policy.TagPresent})
	var plan policy.Plan
	set.Evaluate(req, cands, &plan)
	text, err := json.MarshalIndent(policy.Explain(set, req, cands, &plan), "", "  ")
	require.NoError(t, err)
	golden(t, "explanation-json", string(text)+"\n")
	golden(t, "explanation-text", policy.Explain(set, req, cands, &plan).String())

	// Of another policy's plan, it says what the plan says.
	policy.Default{}.Evaluate(req, cands, &plan)
	e := policy.Explain(policy.Default{}, req, cands, &plan)
	require.Empty(t, e.Stages)
	require.Equal(t, policy.DefaultRule, e.Rule)
	require.Equal(t, e, policy.Explain(nil, req, cands, &plan))
}
