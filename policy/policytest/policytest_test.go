package policytest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

var update = flag.Bool("update", false, "write golden files")

// recording is a test that is told of failures.
type recording struct {
	testing.TB

	failures []string
}

func (r *recording) Helper() {}
func (r *recording) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recording) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs f as a test of its own.
func failures(t *testing.T, f func(tb *recording)) string {
	t.Helper()
	r := &recording{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return strings.Join(r.failures, "\n")
}

var private = policytest.Never(policytest.MayBe("pii-detected"), policytest.IsProvider)

func TestInvariantFindsALeak(t *testing.T) {
	t.Parallel()
	leaky := policytest.Load(t, "testdata/leaky.yaml")
	said := failures(t, func(tb *recording) { leaky.Invariant(tb, policytest.Space{}, private) })
	require.Contains(t, said, "provider gets the request, which must never be")
	require.Contains(t, said, "smallest counterexample: tenant gold, pii-detected unknown, candidate provider [a provider]\n",
		"one candidate, and nothing else out of the ordinary")
	require.Contains(t, said, "rule vip", "it is explained")

	tight := policytest.Load(t, "testdata/tight.yaml")
	tight.Invariant(t, policytest.Space{}, private)
	found, tried, err := tight.Search(policytest.Space{}, private)
	require.NoError(t, err)
	require.Nil(t, found)
	require.Greater(t, tried, 100)
}

// A leak in a later stage is one: a retry gets there.
func TestInvariantLooksAtRetries(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "p", Rules: []policy.Rule{{
		Name: "r", Route: policy.Route{
			Exclude: []policy.Exclusion{{
				Name: "x", If: policy.Condition{Tag: []string{"pii-detected"}, Tenant: []string{"gold"}},
				Drop: policy.Filter{Type: policy.ProviderOnly},
			}},
			Select:  []policy.Stage{{Type: policy.LocalOnly}, {Type: policy.ProviderOnly}},
			OnEmpty: policy.OnEmpty{Action: policy.Reject},
		},
	}}})
	require.NoError(t, err)
	behind := func(o *policytest.Outcome) error {
		if len(o.Candidates) < 2 || o.First() == nil || o.First().Type != policy.Local {
			return nil
		}
		return private(o)
	}
	found, _, err := policytest.New(set).Search(policytest.Space{}, behind)
	require.NoError(t, err)
	require.NotNil(t, found)
	require.ErrorContains(t, found.Err, "gets the request when others have failed")
}

func TestInvariantTriesBothSidesOfThresholds(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/tight.yaml")
	seen := map[int]bool{}
	found, _, err := kit.Search(policytest.Space{Most: 1}, func(o *policytest.Outcome) error {
		for i := range o.Candidates {
			seen[o.Candidates[i].Queued] = true
		}
		return nil
	})
	require.NoError(t, err)
	require.Nil(t, found)
	for _, n := range []int{0, 3, 4, 5} {
		assert.True(t, seen[n], "queued %d", n)
	}
	// A worker with 5 queued is dropped: then nobody answers, while it is there.
	always := policytest.Always(policytest.AnyRequest, policytest.AnyCandidate)
	found, _, err = kit.Search(policytest.Space{}, always)
	require.NoError(t, err)
	require.ErrorContains(t, found.Err, "the request is turned away, though local worker is there")
	require.Equal(t, []string{"candidate worker [queued 5]"}, found.Differs)
}

func TestInvariantRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/tight.yaml")
	_, tried, err := kit.Search(policytest.Space{Limit: 10}, private)
	require.ErrorIs(t, err, policytest.ErrSpace)
	require.Zero(t, tried, "not in part")
	require.Contains(t, failures(t, func(tb *recording) { kit.Invariant(tb, policytest.Space{Limit: 10}, private) }), "raise Limit")
}

// What the policy does not tell apart, but the property does, comes from the test.
func TestInvariantTakesMore(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/tight.yaml")
	abroad := policytest.Worker("abroad", "another-model", policytest.Label("region", "elsewhere"))
	property := policytest.Never(policytest.AnyRequest, func(c *policy.Candidate) bool { return c.Labels["region"] == "elsewhere" })
	found, _, err := kit.Search(policytest.Space{}, property)
	require.NoError(t, err)
	require.Nil(t, found)
	found, _, err = kit.Search(policytest.Space{Candidates: []policy.Candidate{abroad}}, property)
	require.NoError(t, err)
	require.ErrorContains(t, found.Err, "local abroad gets the request")

	found, _, err = kit.Search(policytest.Space{Requests: []policy.Request{{Model: "m", Tenant: "odd"}}}, func(o *policytest.Outcome) error {
		if o.Request.Tenant == "odd" {
			return errors.New("seen")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"request 0 of the Space"}, found.Differs)
}

func cases() []policytest.Case {
	worker, provider := policytest.Worker("gpu", "m"), policytest.Provider("cloud", "m")
	full := policytest.Worker("gpu", "m", policytest.Queued(5))
	request := func(tags ...policy.Tag) policy.Request {
		return policy.Request{Model: "m", API: "chat", Attempt: 1, Tags: tags}
	}
	return []policytest.Case{
		{Name: "local first", Request: request(policytest.Absent("pii-detected")), Candidates: []policy.Candidate{provider, worker}, Order: []string{"gpu", "cloud"}, Rule: "rest"},
		{Name: "bursts", Request: request(policytest.Absent("pii-detected")), Candidates: []policy.Candidate{provider, full}, First: "cloud", Model: "m", Dropped: map[string]string{"gpu": "full"}},
		{Name: "private", Request: request(policytest.Present("pii-detected")), Candidates: []policy.Candidate{provider, full}, Rejected: true, Dropped: map[string]string{"cloud": "private-stays"}},
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/tight.yaml")
	require.NotEmpty(t, kit.Untested())
	kit.Run(t, cases()...)
	kit.RequireCovered(t)
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/tight.yaml")
	for want, change := range map[string]func(c *policytest.Case){
		"the case expects nothing":                   func(c *policytest.Case) { c.Order, c.Rule = nil, "" },
		`rule "rest" decided, not "first"`:           func(c *policytest.Case) { c.Rule = "first" },
		"gpu gets the request, not cloud":            func(c *policytest.Case) { c.First = "cloud" },
		`served with model "m", not "n"`:             func(c *policytest.Case) { c.Model = "n" },
		"the order is [gpu cloud], not [cloud]":      func(c *policytest.Case) { c.Order = []string{"cloud"} },
		"gpu gets the request, though nobody should": func(c *policytest.Case) { c.Rejected = true },
		`gpu was not dropped, though "full"`:         func(c *policytest.Case) { c.Dropped = map[string]string{"gpu": "full"} },
		"nobody gets the request, not gpu":           func(c *policytest.Case) { c.Candidates, c.First = nil, "gpu" },
		`cloud was dropped by "private-stays"`: func(c *policytest.Case) {
			c.Request.Tags, c.Order, c.Dropped = nil, nil, map[string]string{"cloud": "price"}
		},
	} {
		c := cases()[0]
		change(&c)
		require.Contains(t, failures(t, func(tb *recording) { kit.Check(tb, &c) }), want)
	}
}

func TestCoverageNamesWhatIsUntested(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/leaky.yaml")
	list := cases()
	kit.Run(t, list[:1]...)
	said := failures(t, func(tb *recording) { kit.RequireCovered(tb) })
	for _, part := range []string{
		"leaky, rule vip\n", "leaky, rule vip: alternative 1 (", "leaky, rule rest: exclusion private-stays", "leaky, rule rest: exclusion full",
		"leaky, rule rest: stage 2 (", "leaky, rule rest: when nothing is left (Reject)",
	} {
		assert.Contains(t, said, part)
	}
	assert.NotContains(t, said, "rule rest\n")
	assert.NotContains(t, said, "rule rest: stage 1")
}

// A rule whose requests went on to the next has been tried.
func TestCoverageOfNextRule(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "p", Rules: []policy.Rule{
		{Name: "first", Matches: []policy.Match{{Tenant: []string{"a"}}}, Route: policy.Route{
			Select: []policy.Stage{{Type: policy.ProviderOnly}}, OnEmpty: policy.OnEmpty{Action: policy.NextRule},
		}},
		{Name: "second", Route: policy.Route{OnEmpty: policy.OnEmpty{Action: policy.Reject}}},
	}})
	require.NoError(t, err)
	kit := policytest.New(set)
	kit.Evaluate(policy.Request{Model: "m", Tenant: "a"}, policytest.Worker("gpu", "m"))
	said := strings.Join(kit.Untested(), "\n")
	require.NotContains(t, said, "rule first\n")
	require.NotContains(t, said, "rule first: when nothing is left")
	require.Contains(t, said, "rule first: stage")
	kit.Evaluate(policy.Request{Model: "m", Tenant: "b"}, policytest.Worker("gpu", "m"))
	require.Contains(t, strings.Join(kit.Untested(), "\n"), "rule first: alternative")
}

func TestGolden(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/tight.yaml")
	c := cases()[1]
	o := kit.Evaluate(c.Request, c.Candidates...)
	kit.Golden(t, "testdata/golden/bursts", *update, o)

	dir := t.TempDir()
	require.Contains(t, failures(t, func(tb *recording) { kit.Golden(tb, filepath.Join(dir, "x"), false, o) }), "write it with update")
	kit.Golden(t, filepath.Join(dir, "x"), true, o)
	require.Empty(t, failures(t, func(tb *recording) { kit.Golden(tb, filepath.Join(dir, "x"), false, o) }))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.txt"), []byte("other"), 0o600))
	require.Contains(t, failures(t, func(tb *recording) { kit.Golden(tb, filepath.Join(dir, "x"), false, o) }), "If that is right, write it with update.")
}

func TestLoadFails(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nspec: {rulez: []}\n"), 0o600))
	require.Contains(t, failures(t, func(tb *recording) { policytest.Load(tb, bad) }), "bad.yaml:3:8")
	require.Contains(t, failures(t, func(tb *recording) { policytest.Load(tb, bad+"x") }), "no such file")
}
