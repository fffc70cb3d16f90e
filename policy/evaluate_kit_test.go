package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// rewriteGolden makes golden tests write what they got:
//
//	go test ./policy/... -run Golden -args -golden
var rewriteGolden = flag.Bool("golden", false, "write the golden files")

// golden compares with testdata/golden/NAME.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *rewriteGolden {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got)
}

// worker is a local candidate with a predicted TTFT in milliseconds.
func worker(name, model string, ttft int, more ...func(*policy.Candidate)) policy.Candidate {
	c := policy.Candidate{Name: name, Model: model, PredictedTTFT: time.Duration(ttft) * time.Millisecond}
	for _, f := range more {
		f(&c)
	}
	return c
}

// provider is an external candidate.
func provider(name, model string, ttft int, more ...func(*policy.Candidate)) policy.Candidate {
	c := worker(name, model, ttft, more...)
	c.Type = policy.Provider
	return c
}

func queued(n int) func(*policy.Candidate)    { return func(c *policy.Candidate) { c.Queued = n } }
func usage(x float64) func(*policy.Candidate) { return func(c *policy.Candidate) { c.KVUsage = x } }
func rank(n int) func(*policy.Candidate)      { return func(c *policy.Candidate) { c.Rank = n } }
func price(usd float64) func(*policy.Candidate) {
	return func(c *policy.Candidate) { c.Price, c.PriceKnown = usd, true }
}

func labels(kv ...string) func(*policy.Candidate) {
	return func(c *policy.Candidate) {
		c.Labels = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			c.Labels[kv[i]] = kv[i+1]
		}
	}
}

// tagged is a list of tags that are present; those written "-name" are absent.
func tagged(names ...string) []policy.Tag {
	tags := make([]policy.Tag, 0, len(names))
	for _, name := range names {
		if absent, ok := strings.CutPrefix(name, "-"); ok {
			tags = append(tags, policy.Tag{Name: absent, State: policy.TagAbsent})
			continue
		}
		tags = append(tags, policy.Tag{Name: name, State: policy.TagPresent})
	}
	return tags
}

func compile(t testing.TB, specs ...*policy.Spec) *policy.Set {
	t.Helper()
	set, err := policy.Compile(policy.Options{}, specs...)
	require.NoError(t, err)
	return set
}

// rules is a policy of rules.
func rules(list ...policy.Rule) *policy.Spec {
	for i := range list {
		if list[i].Name == "" {
			list[i].Name = "rule-" + string(rune('a'+i))
		}
	}
	return &policy.Spec{Namespace: "test", Name: "policy", Rules: list}
}

// route is a policy of one rule without matches.
func route(r policy.Route) *policy.Spec { return rules(policy.Rule{Route: r}) }

// verdict is a plan in words.
type verdict struct {
	policy.Plan
	order   []string          // names
	dropped map[string]string // name to condition
	text    string            // the explanation
}

func ask(p policy.Policy, req policy.Request, cands ...policy.Candidate) *verdict {
	v := &verdict{dropped: map[string]string{}}
	if req.Attempt == 0 {
		req.Attempt = 1
	}
	p.Evaluate(&req, cands, &v.Plan)
	for _, i := range v.Order {
		v.order = append(v.order, cands[i].Name)
	}
	for _, d := range v.Dropped {
		v.dropped[cands[d.Index].Name] = d.Condition
	}
	v.text = policy.Explain(p, &req, cands, &v.Plan).String()
	return v
}
