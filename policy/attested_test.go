package policy_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// attested is a file and the names in it: the tests say what policies of that form do,
// of the published ones and of ours.
type attested struct {
	path                          string
	policy, rule, exclusion       string
	tag, requested, other         string
	firstProvider, secondProvider string
}

func (a *attested) set(t *testing.T) *policy.Set {
	t.Helper()
	data, err := os.ReadFile(a.path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(filepath.Dir(a.path)) == "policies" {
		t.Skip("the published policies are not here")
	}
	require.NoError(t, err)
	f, findings := policy.Parse(a.path, data)
	require.Empty(t, findings)
	require.Len(t, f.Specs, 1)
	set, err := policy.Load(a.path, data, policy.Options{})
	require.NoError(t, err)
	return set
}

func ours(name string) string { return filepath.Join("testdata", "attested", name) }

func published(name string) string { return filepath.Join("..", "..", "shared", "policies", name) }

// each runs f for our file and for the published one.
func each(t *testing.T, f func(t *testing.T, a *attested, set *policy.Set), list ...attested) {
	t.Helper()
	for i := range list {
		t.Run(filepath.Base(list[i].path), func(t *testing.T) { f(t, &list[i], list[i].set(t)) })
	}
}

func TestAttestedBurst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a *attested, set *policy.Set) {
		t.Helper()
		cands := []policy.Candidate{
			worker("fast-busy", "glm", 10, queued(3)), worker("slow", "glm", 300, queued(2)), worker("middle", "glm", 200),
			provider(a.secondProvider, "glm", 1, queued(9)), provider(a.firstProvider, "glm", 500), provider("unnamed", "glm", 1),
			worker("other", "qwen", 1),
		}
		v := ask(set, policy.Request{Model: "glm"}, cands...)
		assert.Equal(t, a.policy, v.Policy)
		assert.Equal(t, a.rule, v.Rule)
		assert.Equal(t, []string{"middle", "slow", a.firstProvider, a.secondProvider}, v.order)
		assert.Equal(t, []int{0, 0, 1, 1}, v.Stages)
		assert.Equal(t, a.exclusion+": type Local, queuedPrompts > 2", v.dropped["fast-busy"])
		assert.Contains(t, v.dropped["unnamed"], "in no stage")
		assert.Contains(t, v.dropped["other"], "does not serve the requested model")

		// All are overloaded: burst, in the order of preference and not of speed.
		v = ask(set, policy.Request{Model: "glm"}, cands[0], cands[3], cands[4])
		assert.Equal(t, []string{a.firstProvider, a.secondProvider}, v.order)
		v = ask(set, policy.Request{Model: "glm"}, cands[0], cands[3])
		assert.Equal(t, []string{a.secondProvider}, v.order)
		v = ask(set, policy.Request{Model: "glm"}, cands[0], cands[5])
		assert.Empty(t, v.order)
		assert.Equal(t, policy.Reject, v.Empty.Action)
	},
		attested{
			path: ours("overflow.yaml"), policy: "serving/overflow", rule: "overflow-abroad", exclusion: "skip-long-queues",
			firstProvider: "northcloud", secondProvider: "eastcloud",
		},
		attested{
			path: published("burst-policy.yaml"), policy: "inference/burst-policy", rule: "burst-to-cloud",
			exclusion: "drop-overloaded-workers", firstProvider: "bedrock", secondProvider: "databricks",
		},
	)
}

func TestAttestedPII(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a *attested, set *policy.Set) {
		t.Helper()
		cands := []policy.Candidate{
			worker("slow", "glm", 30), worker("fast", "glm", 10), provider(a.firstProvider, "glm", 900), provider("unnamed", "glm", 1),
		}
		req := policy.Request{Model: "glm", Tags: tagged("-" + a.tag)}
		v := ask(set, req, cands...)
		assert.Equal(t, a.policy, v.Policy)
		assert.Equal(t, a.rule, v.Rule)
		assert.Equal(t, []string{a.firstProvider, "fast", "slow"}, v.order, "the provider comes first for all others, however slow")
		for _, tags := range [][]policy.Tag{tagged(a.tag), nil, {{Name: a.tag, State: policy.TagUnknown}}} {
			req.Tags = tags
			v = ask(set, req, cands...)
			assert.Equal(t, []string{"fast", "slow"}, v.order)
			assert.Equal(t, a.exclusion, v.Dropped[0].Exclusion)
			v = ask(set, req, cands[2:]...)
			assert.Empty(t, v.order, "closed")
			assert.Equal(t, policy.Reject, v.Empty.Action)
		}
		assert.Equal(t, []string{a.tag}, set.Needs().Tags)
	},
		attested{
			path: ours("secrets.yaml"), policy: "serving/secrets", rule: "all", exclusion: "secrets-stay", tag: "secret-found",
			firstProvider: "eastcloud",
		},
		attested{
			path: published("pii-stays-local.yaml"), policy: "inference/pii-stays-local", rule: "serve",
			exclusion: "pii-never-leaves-cluster", tag: "pii-detected", firstProvider: "databricks",
		},
	)
}

func TestAttestedComplexity(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a *attested, set *policy.Set) {
		t.Helper()
		cands := []policy.Candidate{
			worker("large", a.requested, 50), worker("small", a.other, 20), provider("cloud", a.requested, 30), worker("none", "llama", 1),
		}
		req := policy.Request{Model: a.requested, Tags: tagged(a.tag)}
		v := ask(set, req, cands...)
		assert.Equal(t, a.policy, v.Policy)
		assert.Equal(t, a.rule, v.Rule)
		assert.Equal(t, []string{"small", "cloud", "large"}, v.order)
		assert.ElementsMatch(t, []string{a.requested, a.other}, set.Models(&req, nil))
		assert.Contains(t, v.text, "the request's model is rewritten")

		for _, req := range []policy.Request{
			{Model: a.requested, Tags: tagged("-" + a.tag)}, {Model: a.requested}, {Model: a.other, Tags: tagged(a.tag)},
		} {
			v = ask(set, req, cands...)
			assert.Equal(t, policy.NoMatchRule, v.Rule)
			require.Len(t, v.order, 1, "the local worker of the requested model")
			assert.Equal(t, []string{req.Model}, set.Models(&req, nil))
		}
	},
		attested{
			path: ours("downsize.yaml"), policy: "serving/downsize", rule: "easy-ones", tag: "easy", requested: "atlas-70b", other: "atlas-8b",
		},
		attested{
			path: published("smart-semantic-routing.yaml"), policy: "inference/smart-semantic-routing",
			rule: "low-complexity-consider-qwen", tag: "complexity-low", requested: "glm-5.3", other: "qwen-3.6-27b",
		},
	)
}

// A policy that is built in Go is the same as one that is read.
func TestBuiltInGoAsRead(t *testing.T) {
	t.Parallel()
	built := &policy.Spec{Namespace: "serving", Name: "overflow", Rules: []policy.Rule{{
		Name: "overflow-abroad",
		Route: policy.Route{
			Exclude: []policy.Exclusion{{
				Name: "skip-long-queues", Drop: policy.Filter{Type: policy.LocalOnly, QueuedPrompts: policy.GreaterThan(2)},
			}},
			Select: []policy.Stage{{Type: policy.LocalOnly}, {Type: policy.ProviderOnly, Order: []string{"northcloud", "eastcloud"}}},
		},
	}}}
	read := attested{path: ours("overflow.yaml")}
	require.Equal(t, read.set(t).Version(), compile(t, built).Version())
	require.Equal(t, read.set(t).Outline(), compile(t, built).Outline())
}
