package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

var exampleDir = filepath.Join("..", "examples", "policies")

func example(t *testing.T, name string) *policy.Set {
	t.Helper()
	path := filepath.Join(exampleDir, name+".yaml")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	set, err := policy.Load(path, data, policy.Options{})
	require.NoError(t, err)
	return set
}

// No example has anything to find fault with.
func TestExamplesAreClean(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(exampleDir, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, paths, 10)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		f, findings := policy.Parse(path, data)
		assert.Empty(t, findings)
		assert.Empty(t, policy.Check([]*policy.File{f}, policy.CheckOptions{}))
		assert.Equal(t, strings.TrimSuffix(filepath.Base(path), ".yaml"), f.Specs[0].Name)
	}
}

func TestExampleSimpleGoesSmallGolden(t *testing.T) {
	t.Parallel()
	set := example(t, "simple-goes-small")
	cands := []policy.Candidate{
		worker("big", "atlas-70b", 300), worker("small-busy", "atlas-8b", 250, queued(3)), worker("small", "atlas-8b", 90),
	}
	req := policy.Request{Model: "atlas-70b", PromptTokens: 900, Tags: tagged("complexity-low")}
	v := ask(set, req, cands...)
	assert.Equal(t, []string{"small", "big", "small-busy"}, v.order)
	golden(t, "example-simple-goes-small", v.text)
	assert.Equal(t, []string{"big", "small-busy"}, ask(set, req, cands[:2]...).order, "50 ms are not worth it")

	for name, change := range map[string]func(*policy.Request){
		"not simple": func(r *policy.Request) { r.Tags = tagged("-complexity-low") },
		"unknown":    func(r *policy.Request) { r.Tags = nil },
		"long":       func(r *policy.Request) { r.PromptTokens = 8000 },
		"another":    func(r *policy.Request) { r.Model = "atlas-8b" },
	} {
		other := req
		change(&other)
		v = ask(set, other, cands...)
		assert.Equal(t, policy.NoMatchRule, v.Rule, name)
		for _, i := range v.Order {
			assert.Equal(t, other.Model, cands[i].Model, name)
		}
	}
}

func TestExampleBurstGolden(t *testing.T) {
	t.Parallel()
	set := example(t, "burst-when-queued")
	cands := []policy.Candidate{
		worker("a", "atlas", 400, queued(2)), worker("b", "atlas", 100, queued(3)),
		provider("eastcloud", "atlas", 200), provider("northcloud", "atlas", 600), provider("westcloud", "atlas", 1),
	}
	req := policy.Request{Model: "atlas", PromptTokens: 100}
	v := ask(set, req, cands...)
	assert.Equal(t, []string{"a", "northcloud", "eastcloud"}, v.order)
	golden(t, "example-burst-local", v.text)
	v = ask(set, req, cands[1:]...)
	assert.Equal(t, []string{"northcloud", "eastcloud"}, v.order)
	golden(t, "example-burst", v.text)
	v = ask(set, req, cands[1], cands[4])
	assert.Equal(t, "queue", v.Rule)
	assert.Equal(t, []string{"b"}, v.order, "better than nothing")
}

func TestExamplePrivateGolden(t *testing.T) {
	t.Parallel()
	set := example(t, "private-stays-here")
	cands := []policy.Candidate{
		worker("a", "atlas", 900, queued(9)), worker("b", "atlas", 950, queued(5)), provider("northcloud", "atlas", 200),
	}
	for name, tags := range map[string][]policy.Tag{
		"private": tagged("pii-detected"), "unknown": nil, "said to be unknown": {{Name: "pii-detected"}},
	} {
		req := policy.Request{Model: "atlas", Tags: tags}
		v := ask(set, req, cands...)
		assert.Equal(t, []string{"a", "b"}, v.order, name)
		v = ask(set, req, cands[2])
		assert.Empty(t, v.order, name)
		assert.Equal(t, policy.OnEmpty{Status: 503, Message: "no worker of ours can serve this now"}, v.Empty, name)
	}
	golden(t, "example-private", ask(set, policy.Request{Model: "atlas"}, cands...).text)

	req := policy.Request{Model: "atlas", Tags: tagged("-pii-detected")}
	v := ask(set, req, append(cands, worker("idle", "atlas", 990, queued(4)))...)
	assert.Equal(t, []string{"idle", "northcloud"}, v.order, "ours come first")
	v = ask(set, req, cands...)
	assert.Equal(t, []string{"northcloud"}, v.order, "only when ours are saturated")
	golden(t, "example-private-burst", v.text)
	v = ask(set, req, cands[:2]...)
	assert.Empty(t, v.order)
	assert.Equal(t, policy.OnEmpty{Action: policy.Wait, UpTo: 5 * time.Second}, v.Empty)
}

func TestExampleBatchGolden(t *testing.T) {
	t.Parallel()
	set := example(t, "batch-leaves-room")
	cands := []policy.Candidate{
		worker("full", "atlas", 1, usage(0.71)), worker("seventy", "atlas", 2, usage(0.70)), worker("empty", "atlas", 9, usage(0.1)),
		provider("northcloud", "atlas", 1),
	}
	req := policy.Request{Model: "atlas", QoS: "batch"}
	v := ask(set, req, cands...)
	assert.Equal(t, []string{"empty", "seventy"}, v.order)
	golden(t, "example-batch", v.text)
	v = ask(set, req, cands[0])
	assert.Empty(t, v.order)
	assert.Equal(t, policy.OnEmpty{Action: policy.Wait, UpTo: 30 * time.Second}, v.Empty)
	req.QoS = "interactive"
	assert.Equal(t, []string{"full", "seventy", "empty"}, ask(set, req, cands...).order)
}

func TestExampleOneNameGolden(t *testing.T) {
	t.Parallel()
	set := example(t, "one-name")
	cands := []policy.Candidate{
		worker("a", "atlas-70b", 50), worker("b", "boreal-32b", 20), worker("c", "atlas-code", 1), worker("d", "boreal-32b", 90),
	}
	req := policy.Request{Model: "assistant", Alias: true}
	v := ask(set, req, cands...)
	assert.Equal(t, []string{"b", "a", "d"}, v.order)
	golden(t, "example-one-name", v.text)
	assert.Equal(t, []string{"atlas-70b", "boreal-32b"}, set.Models(&req, nil))
	req.Model = "atlas-70b"
	assert.Equal(t, []string{"a"}, ask(set, req, cands...).order, "a model by its own name")
}
