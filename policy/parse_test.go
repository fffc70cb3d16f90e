package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// parsed reads text that has nothing wrong with it.
func parsed(t *testing.T, text string) *policy.File {
	t.Helper()
	file, findings := policy.Parse("f.yaml", []byte(text))
	require.Empty(t, findings)
	return file
}

func yes() *bool {
	b := true
	return &b
}

func TestParseReadsEveryKey(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "schema", "every-key.yaml"))
	require.NoError(t, err)
	file := parsed(t, string(text))
	require.Len(t, file.Specs, 1)
	got := file.Specs[0]
	require.Equal(t, []string{policy.APIVersion, "demo", "every-key"}, []string{got.APIVersion, got.Namespace, got.Name})
	require.Equal(t, 10, got.Priority)
	require.Equal(t, policy.Shadow, got.Mode)
	require.Equal(t, []string{"interactive"}, got.Pools)
	require.Equal(t, []policy.ModelLabels{{Name: "coder-large", Labels: map[string]string{"good-at": "coding", "size": "70"}}}, got.Models)
	want := policy.Rule{
		Name: "everything",
		Matches: []policy.Match{{
			Model: []string{"coder-large"}, Tag: []string{"code", "math"}, Tenant: []string{"acme"}, QoS: []string{"gold", "silver"},
			API: []string{"chat", "messages"},
			Header: []policy.HeaderMatch{
				{Name: "X-Region", Value: "eu"}, {Name: "X-Team", Prefix: "search-"}, {Name: "X-Debug", Absent: true},
			},
			PromptTokens: policy.Between(100, 8000), Session: yes(), QueuedPrompts: policy.GreaterThan(2),
			KVCacheUsage: policy.LessThan(0.7), HealthyWorkers: policy.GreaterThan(1), OnUnknown: policy.UnknownPresent,
		}, {Header: []policy.HeaderMatch{{Name: "X-Any"}}}},
		Route: policy.Route{
			Consider: []policy.Consider{{
				Models: []string{"coder-large"}, ModelLabels: map[string]string{"good-at": "coding"},
				Workers: []string{"gpu-0"}, WorkerLabels: map[string]string{"class": "h100"},
			}, {Providers: []string{"cloud"}}},
			Exclude: []policy.Exclusion{{
				Name: "keep-home",
				If: policy.Condition{
					Tag: []string{"secret"}, Tenant: []string{"acme"}, QoS: []string{"gold"},
					Header: []policy.HeaderMatch{{Name: "X-Secret"}}, OnUnknown: policy.UnknownAbsent,
				},
				Drop: policy.Filter{
					Type: policy.ProviderOnly, Name: []string{"cloud"}, Labels: map[string]string{"tier": "free"},
					Region: []string{"us", "asia"}, QueuedPrompts: policy.LessThan(9), RunningRequests: policy.GreaterThan(20),
					KVCacheUsage: policy.GreaterThan(0.9), PredictedTTFT: policy.Between(90, 7200), CachedTokens: policy.LessThan(500),
					Price: policy.GreaterThan(0.02), RemainingQuota: policy.LessThan(0.1), Trust: []string{"blind", "suspect"},
				},
			}},
			Select: []policy.Stage{{
				Type: policy.LocalOnly, Minimize: policy.PredictedE2E, Order: []string{"gpu-0", "gpu-1"},
				SwitchOnlyIf: &policy.Margin{By: 200 * time.Millisecond, Percent: 30},
			}, {Weighted: []policy.Share{
				{Model: "coder-large", Name: "cloud", Labels: map[string]string{"tier": "paid"}, Weight: 90}, {Name: "cloud", Weight: 10},
			}}},
			OnEmpty: policy.OnEmpty{Action: policy.Wait, UpTo: 2 * time.Second, Status: 503, Message: "try again"},
		},
	}
	require.Equal(t, []policy.Rule{want}, got.Rules)
}

// The published files load as they are, with nothing to say about them.
func TestPublishedPoliciesAreClean(t *testing.T) {
	names, err := filepath.Glob(filepath.FromSlash("../../shared/policies/*.yaml"))
	require.NoError(t, err)
	if len(names) == 0 {
		t.Skip("the published files are not here")
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		file, findings := policy.Parse(name, data)
		require.Empty(t, findings)
		require.Len(t, file.Specs, 1)
		opts := policy.CheckOptions{Tags: []string{"pii-detected", "complexity-low"}}
		require.Empty(t, policy.Check([]*policy.File{file}, opts))
		_, err = policy.Load(name, data, policy.Options{})
		require.NoError(t, err)
	}
}

// Our own in the published format.
const publishedForm = `
apiVersion: kinference.buoyant.io/v1alpha1
kind: InferencePolicy
metadata:
  name: night-shift
  namespace: team-a
  annotations: {note: kept}
spec:
  rules:
  - name: easy-ones
    matches:
    - model: big
      tag: easy
    - tag: tiny
    route:
      consider:
      - models: { names: [ small, big ] }
      exclude:
      - name: no-queue
        drop: { backend: { type: Local }, queuedPrompts: { greaterThan: 4 } }
      - name: private
        if:   { tag: private }
        drop: { backend: { type: Provider } }
      select:
      - { type: Local, minimize: PredictedTTFT }
      - { type: Provider, order: [ a-cloud, b-cloud ] }
      onEmpty: Reject
`

func TestEveryPublishedKey(t *testing.T) {
	file := parsed(t, publishedForm)
	require.Equal(t, "night-shift", file.Specs[0].Name)
	require.Equal(t, policy.GreaterThan(4), file.Specs[0].Rules[0].Route.Exclude[0].Drop.QueuedPrompts)
	require.Empty(t, policy.Check([]*policy.File{file}, policy.CheckOptions{}))
}

func TestParseForms(t *testing.T) {
	t.Parallel()
	const doc = `{"apiVersion":"kvsteer.dev/v1alpha1","kind":"InferencePolicy","metadata":{"name":"p"},` +
		`"spec":{"rules":[{"name":"r","route":{}}]}}`
	cases := map[string]struct {
		text     string
		policies int
	}{
		"json":           {doc, 1},
		"tabbed json":    {strings.ReplaceAll(doc, ",", ",\n\t"), 1},
		"documents":      {"---\n" + doc + "\n---\n# nothing\n---\n" + strings.Replace(doc, `"p"`, `"q"`, 1) + "\n...\n", 2},
		"bom, crlf":      {"\xef\xbb\xbf" + strings.ReplaceAll(head+"spec:\n  rules:\n  - name: r\n    route: {}\n", "\n", "\r\n"), 1},
		"list":           {`{"apiVersion":"v1","kind":"List","items":[` + doc + "," + strings.Replace(doc, `"p"`, `"q"`, 1) + `]}`, 2},
		"from a cluster": {head + "  \nspec: {rules: [{name: r, route: {}}]}\nstatus: {anything: [goes, {here: 1}]}\n", 1},
		"anchors":        {head + "spec:\n  rules:\n  - &r {name: r, matches: [{model: [m]}], route: {}}\n  - {<<: *r, name: s, matches: [{qos: g}]}\n", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := parsed(t, c.text)
			require.Len(t, file.Specs, c.policies)
			require.Empty(t, policy.Check([]*policy.File{file}, policy.CheckOptions{}))
		})
	}
}

// What a file with mistakes in it does say is read all the same.
func TestParseKeepsWhatItCould(t *testing.T) {
	file, findings := policy.Parse("f.yaml", []byte(head+"spec:\n  rules:\n  - {name: a, route: {}, x: y}\n  - {name: b}\n---\n{["))
	require.Len(t, findings, 3)
	require.Len(t, file.Specs, 1)
	require.Equal(t, "b", file.Specs[0].Rules[1].Name)
	// Nothing is concluded from what could not be read: rule b is not said to be unreachable.
	require.Empty(t, policy.Check([]*policy.File{file}, policy.CheckOptions{}))
}

func TestManifests(t *testing.T) {
	const text = `
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool-a, namespace: demo}
---
apiVersion: kinference.buoyant.io/v1alpha1
kind: InferenceWorkerSet
metadata: {name: set-a}
spec: {model: {name: small}, replicas: 2}
---
apiVersion: kinference.buoyant.io/v1alpha1
kind: GatewayBackend
metadata: {name: cloud}
spec: {models: [large, {name: huge}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route-a}
spec:
  rules:
  - backendRefs: [{kind: InferencePool, name: pool-b}, {name: service}]
---
apiVersion: example.com/v1
kind: InferencePool
metadata: {name: of-somebody-else}
`
	file, findings := policy.Parse("m.yaml", []byte(text))
	require.Len(t, findings, 1)
	require.Equal(t, policy.CodeIgnored, findings[0].Code)
	require.Equal(t, []policy.Manifest{
		{APIVersion: "inference.networking.k8s.io/v1", Kind: "InferencePool", Namespace: "demo", Name: "pool-a"},
		{APIVersion: "kinference.buoyant.io/v1alpha1", Kind: "InferenceWorkerSet", Name: "set-a", Models: []string{"small"}},
		{APIVersion: "kinference.buoyant.io/v1alpha1", Kind: "GatewayBackend", Name: "cloud", Models: []string{"large", "huge"}},
		{
			APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: "route-a",
			Refers: []policy.Reference{{Kind: "InferencePool", Name: "pool-b"}, {Name: "service"}},
		},
	}, file.Manifests)
}

func TestLoad(t *testing.T) {
	set, err := policy.Load("f.yaml", []byte(publishedForm), policy.Options{})
	require.NoError(t, err)
	require.NotEmpty(t, set.Version())

	cases := map[string]struct {
		text string
		want []string
	}{
		"both kinds of faults": {
			head + "spec:\n  rules:\n  - {name: a, route: {}, nme: b}\n  - {name: c, route: {onEmpty: {action: Reject, status: 9}}}\n",
			[]string{"f.yaml:6:26: error: ", "f.yaml:7:57: error: "},
		},
		"warnings alone": {head + "spec: {rules: [{route: {}}]}\n", nil},
		"no policy":      {"# later\n", []string{"f.yaml: error: there is no policy in the file"}},
		"meaning":        {head + "spec: {rules: [{name: a, route: {}}, {name: a, route: {}}]}\n", []string{"[duplicate-rule]", "[unreachable-rule]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := policy.Load("f.yaml", []byte(c.text), policy.Options{})
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.Nil(t, set)
			var refused *policy.CheckError
			require.ErrorAs(t, err, &refused)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
			for _, f := range refused.Findings {
				assert.Equal(t, policy.SeverityError, f.Severity)
			}
		})
	}
}

func ExampleLoad() {
	const text = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: chat}
spec:
  rules:
  - name: batch-waits
    matches: [{qos: batch}]
    route:
      exclude:
      - {name: busy, drop: {kvCacheUsage: {greaterThn: 70%}}}
      onEmpty: {action: Wait, upTo: 30s}
`
	_, err := policy.Load("chat.yaml", []byte(text), policy.Options{})
	fmt.Println(err)
	// Output: chat.yaml:11:44: error: spec.rules[0].route.exclude[0].drop.kvCacheUsage.greaterThn: a range has no key "greaterThn"; did you mean "greaterThan"? [unknown-key]
}

func ExampleParse() {
	file, findings := policy.Parse("chat.yaml", []byte(`
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: chat}
spec:
  rules:
  - {name: easy, matches: [{tag: easy}], route: {}}
`))
	fmt.Println(file.Specs[0].Name, file.Specs[0].Rules[0].Matches[0].Tag, len(findings))
	// Output: chat [easy] 0
}

func ExampleCheck() {
	file, findings := policy.Parse("chat.yaml", []byte(`
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: chat}
spec:
  rules:
  - {name: everything, route: {}}
  - {name: easy, matches: [{tag: easy}], route: {}}
`))
	findings = append(findings, policy.Check([]*policy.File{file}, policy.CheckOptions{Tags: []string{"pii"}})...)
	for _, f := range findings {
		fmt.Println(f.Line, f.Column, f.Code)
	}
	// Output:
	// 8 5 unreachable-rule
	// 8 34 unknown-tag
}

func ExampleSchema() {
	schema, err := policy.Schema()
	fmt.Println(len(schema) > 1000, err)
	// Output: true <nil>
}
