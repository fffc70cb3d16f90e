package kubernetes_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kvsteer/kvsteer/fleet/kubernetes"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

func providerObject(t *testing.T, generation int64, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return object(t, generation, `{kind: InferenceProvider, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: `+name+`}, spec: `+spec+`}`)
}

// mounted is where secrets are.
func mounted(name, key string) (providers.CredentialSource, error) {
	return providers.File("/var/run/secrets/" + name + "/" + key), nil
}

func TestProvider(t *testing.T) {
	p, err := kubernetes.Provider(providerObject(t, 1, "cloud-a", `{kind: Anthropic, options: {bearer: "true"}, url: "https://h", region: eu,
		credentials: {name: s, key: k}, models: [{name: m, upstreamName: u, contextWindow: 200000, prices: {input: 2.5, output: 0.3}}]}`),
		file.Options{Secret: mounted})
	require.NoError(t, err)
	require.Equal(t, providers.Provider{
		Name: "cloud-a", Kind: providers.Anthropic{Bearer: true}, URL: "https://h", Credentials: providers.File("/var/run/secrets/s/k"),
		Labels: map[string]string{"region": "eu"},
		Models: []providers.Model{{
			Name: "m", Upstream: "u", ContextWindow: 200_000, Prices: &price.Prices{Input: 2_500_000, Output: 300_000},
		}},
	}, p)
	for spec, want := range map[string]string{
		`{modells: [m]}`: `spec has no key "modells"; did you mean "models"?`,
		`{credentials: {name: s, key: k}, models: [m]}`:   "a Secret can't be read here; mount it",
		`{credentials: {file: key}, models: [m]}`:         "spec.credentials.file: it is relative",
		`{kind: Bedrock, models: [m]}`:                    `there is no kind "Bedrock"`,
		`{models: [{name: m, contextWindow: 0.5}], a: 1}`: "contextWindow must be a whole number",
	} {
		_, err = kubernetes.Provider(providerObject(t, 1, "a", spec), file.Options{})
		var object *kubernetes.ObjectError
		require.ErrorAs(t, err, &object, spec)
		require.ErrorContains(t, err, "kubernetes: InferenceProvider inference/a: ")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), ":1:", "a place in text that nobody wrote")
	}
}

// The example is one.
func TestTheExamplesProvider(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "kubernetes", "resources.yaml"))
	require.NoError(t, err)
	n := 0
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains(doc, "kind: InferenceProvider\n") {
			continue
		}
		var u unstructured.Unstructured
		require.NoError(t, yaml.Unmarshal([]byte(doc), &u.Object))
		p, err := kubernetes.Provider(&u, file.Options{Secret: mounted})
		require.NoError(t, err)
		p.Credentials = nil // nothing is mounted here
		set, err := providers.New([]providers.Provider{p}, providers.Options{})
		require.NoError(t, err)
		require.NoError(t, set.Close())
		n++
	}
	require.Equal(t, 1, n)
}

// taker is a Set that refuses what it is told to.
type taker struct {
	mu     sync.Mutex
	refuse string // a provider's name
	broken bool
	list   []providers.Provider
	calls  int
}

func (k *taker) Update(list []providers.Provider) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.broken {
		return errors.New("closed")
	}
	for i := range list {
		if list[i].URL == k.refuse {
			return &providers.ConfigError{Index: i, Provider: list[i].Name, Field: "URL", Reason: "is refused"}
		}
	}
	k.list = list
	return nil
}

// urls are those of the providers in force.
func (k *taker) urls() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []string
	for i := range k.list {
		list = append(list, k.list[i].Name+"="+k.list[i].URL)
	}
	return strings.Join(list, " ")
}

// Providers are given to a set; one that is wrong stays as it was, or is left out, and the
// others count all the same.
func TestProvidersOfTheCluster(t *testing.T) {
	s := newAPIServer(t)
	spec := func(url string) string { return `{url: "` + url + `", models: [{name: m}]}` }
	s.put("inferenceproviders", providerObject(t, 1, "a", spec("https://a1")))
	set := &taker{refuse: "https://bad"}
	problems := make(chan error, 100)
	p, err := openPolicies(t, s, func(o *kubernetes.PolicyOptions) {
		o.AllowNone, o.Providers = true, set
		o.OnError = func(err error) { problems <- err }
	})
	require.NoError(t, err)
	require.Equal(t, "a=https://a1", set.urls(), "when it is open they are in force")
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonProgrammed) })

	s.put("inferenceproviders", providerObject(t, 1, "b", spec("https://b1")))
	waitFor(t, "b", func() bool { return set.urls() == "a=https://a1 b=https://b1" })

	// Misspelt, and then refused by the set: it goes on meaning what it meant.
	s.put("inferenceproviders", providerObject(t, 2, "a", `{urll: x, models: [{name: m}]}`))
	require.ErrorContains(t, <-problems, `inference/a: spec has no key "urll"; did you mean "url"?`)
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonLastGood) })
	s.put("inferenceproviders", providerObject(t, 3, "a", spec("https://bad")))
	require.ErrorContains(t, <-problems, `inference/a: provider "a": URL is refused`)
	s.put("inferenceproviders", providerObject(t, 2, "b", spec("https://b2")))
	waitFor(t, "b", func() bool { return set.urls() == "a=https://a1 b=https://b2" })

	// A new one that is wrong says nothing.
	s.put("inferenceproviders", providerObject(t, 1, "c", spec("https://bad")))
	require.ErrorContains(t, <-problems, `inference/c: provider "c": URL is refused`)
	s.put("inferenceproviders", providerObject(t, 2, "c", spec("https://c2")))
	waitFor(t, "c", func() bool { return set.urls() == "a=https://a1 b=https://b2 c=https://c2" })
	s.remove("inferenceproviders", ns, "b")
	s.put("inferenceproviders", providerObject(t, 4, "a", spec("https://a4")))
	waitFor(t, "b to be gone", func() bool { return set.urls() == "a=https://a4 c=https://c2" })

	// What didn't change is not given again.
	set.mu.Lock()
	calls := set.calls
	set.mu.Unlock()
	s.put("inferencepolicies", policyObject(t, 1, "p", byTTFT))
	waitFor(t, "the policy", func() bool { return len(p.Status().Objects) == 1 })
	set.mu.Lock()
	require.Equal(t, calls, set.calls)
	set.broken = true
	set.mu.Unlock()
	s.put("inferenceproviders", providerObject(t, 5, "a", spec("https://a5")))
	require.ErrorContains(t, <-problems, "closed")
}

// A gateway that only checks providers takes their Secrets as they are named.
func TestSecretsOfProvidersThatAreOnlyChecked(t *testing.T) {
	s := newAPIServer(t)
	s.put("inferenceproviders", providerObject(t, 1, "a", `{credentials: {name: s, key: k}, models: [{name: m}]}`))
	problems := make(chan error, 100)
	_, err := openPolicies(t, s, func(o *kubernetes.PolicyOptions) {
		o.AllowNone, o.OnError = true, func(err error) { problems <- err }
	})
	require.NoError(t, err)
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonNotSupported) })
	require.NotContains(t, s.patched(), kubernetes.ReasonInvalid)
	require.Empty(t, problems)
}
