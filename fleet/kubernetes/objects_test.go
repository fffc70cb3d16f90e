package kubernetes_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kvsteer/kvsteer/fleet/kubernetes"
	"github.com/kvsteer/kvsteer/policy"
)

// object reads an object of YAML; it gets a uid and a generation as in a cluster.
func object(t *testing.T, generation int64, text string) *unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &u.Object))
	u.SetNamespace(ns)
	u.SetUID("uid-of-" + u.GetUID())
	u.SetGeneration(generation)
	return &u
}

func (s *apiServer) patched() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.patches, "\n")
}

const poolText = `{kind: InferencePool, apiVersion: inference.networking.k8s.io/v1, metadata: {name: pool},
spec: {selector: {matchLabels: {app: APP}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: other}}}`

func TestPoolFollowsItsSelector(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	a, b := newPod("a", "u1", "10.0.0.1"), newPod("b", "u2", "10.0.0.2")
	b.Labels["app"] = "sglang"
	s.put("pods", a)
	s.put("pods", b)
	r := start(t, &kubernetes.Pool{Client: c, Objects: d, Namespace: ns, Name: "pool"})
	waitFor(t, "that there is none", func() bool { return len(r.errors()) > 0 })
	require.ErrorIs(t, r.errors()[0], kubernetes.ErrNoPool)
	_, n := r.last()
	require.Zero(t, n, "a wrong name empties no fleet")

	s.put("gateway-inferencepools", object(t, 1, strings.ReplaceAll(poolText, "APP", "vllm")))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000")
	list, _ := r.last()
	require.Equal(t, "pool", list[0].Pool)
	s.put("gateway-inferencepools", object(t, 2, strings.ReplaceAll(poolText, "APP", "sglang")))
	r.wants(t, "inference/b@u2.0=http://10.0.0.2:8000")
	for _, list := range r.all() {
		require.NotEmpty(t, list, "there is no moment without workers while the selector changes")
	}
	s.remove("gateway-inferencepools", ns, "pool")
	r.wants(t)
	require.Empty(t, s.patched(), "nothing is written to what is not ours")
}

const setText = `{kind: InferenceWorkerSet, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: NAME},
spec: {selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}], worker: {WORKER}, workers: [{name: NAME, url: "http://h:1"}]}}`

func set(t *testing.T, generation int64, name, worker string) *unstructured.Unstructured {
	t.Helper()
	return object(t, generation, strings.ReplaceAll(strings.ReplaceAll(setText, "NAME", name), "WORKER", worker))
}

func TestWorkerSets(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	s.put("inferenceworkersets", set(t, 1, "one", "class: h100"))
	r := start(t, &kubernetes.WorkerSets{Client: c, Objects: d, Namespaces: []string{ns}})
	const pod, static = "inference/a@u1.0=http://10.0.0.1:8000", "inference/one@=http://h:1"
	r.wants(t, pod, static)
	list, _ := r.last()
	require.Equal(t, "h100", list[0].Class)
	waitFor(t, "the status", func() bool {
		return strings.Contains(s.patched(), `"status":"True"`) && strings.Contains(s.patched(), `"workers":2`)
	})

	// Wrong: as before.
	s.put("inferenceworkersets", set(t, 2, "one", "classes: h200"))
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonLastGood) })
	require.Contains(t, s.patched(), `unknown field \"worker.classes\"`)
	list, _ = r.last()
	require.Equal(t, []string{pod, static}, short(list))
	require.Equal(t, "h100", list[0].Class)
	// New and wrong: nothing, and the others stay.
	s.put("inferenceworkersets", set(t, 1, "bad", "eventsPort: 1, pollEvents: true"))
	// A pod belongs to one set only.
	s.put("inferenceworkersets", set(t, 1, "two", "class: other"))
	r.wants(t, pod, static, "inference/two@=http://h:1")
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), "belong to the set inference/one") })
	require.Contains(t, s.patched(), kubernetes.ReasonInvalid)

	// Right again, and gone.
	s.put("inferenceworkersets", set(t, 3, "one", "class: h200"))
	waitFor(t, "the class", func() bool { list, _ := r.last(); return len(list) > 0 && list[0].Class == "h200" })
	s.remove("inferenceworkersets", ns, "one")
	waitFor(t, "the class of the other set", func() bool { list, _ := r.last(); return len(list) == 2 && list[0].Class == "other" })
	require.Empty(t, r.errors())
}

// Two gateways that don't agree about an object don't take turns at its status.
func TestStatusIsNotFoughtOver(t *testing.T) {
	s := newAPIServer(t)
	_, d := s.clients(t)
	s.put("inferenceworkersets", set(t, 1, "one", ""))
	read := func() *unstructured.Unstructured {
		list, err := d.Resource(kubernetes.Resource(kubernetes.GroupVersion, kubernetes.KindWorkerSet)).Namespace(ns).List(context.Background(), listAll)
		require.NoError(t, err)
		return &list.Items[0]
	}
	one, two := &kubernetes.StatusWriter{Client: d}, &kubernetes.StatusWriter{Client: d}
	for range 10 {
		require.NoError(t, one.Write(context.Background(), read(), nil, kubernetes.Condition{Type: "Accepted", Status: true, Reason: "A"}))
		require.NoError(t, two.Write(context.Background(), read(), nil, kubernetes.Condition{Type: "Accepted", Reason: "B"}))
	}
	require.Equal(t, 1, strings.Count(s.patched(), `"reason":"A"`))
	require.Equal(t, 1, strings.Count(s.patched(), `"reason":"B"`))
	// A count that goes up and down is written each time.
	for _, n := range []int{1, 2, 1} {
		require.NoError(t, one.Write(context.Background(), read(), &n, kubernetes.Condition{Type: "Accepted", Status: true, Reason: "A"}))
	}
	require.Equal(t, 2, strings.Count(s.patched(), `"workers":1`))
	// What was changed meanwhile is left alone.
	stale := read()
	s.put("inferenceworkersets", set(t, 2, "one", ""))
	require.NoError(t, one.Write(context.Background(), stale, nil, kubernetes.Condition{Type: "Accepted", Reason: "C"}))
	require.NotContains(t, s.patched(), `"C"`)
}

const policyText = `{kind: InferencePolicy, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: NAME}, spec: {rules: [{name: r, route: ROUTE}]}}`

func policyObject(t *testing.T, generation int64, name, route string) *unstructured.Unstructured {
	t.Helper()
	return object(t, generation, strings.ReplaceAll(strings.ReplaceAll(policyText, "NAME", name), "ROUTE", route))
}

const (
	byTTFT  = `{select: [{minimize: PredictedTTFT}]}`
	byQueue = `{select: [{minimize: QueuedPrompts}]}`
	typo    = `{exlude: [], select: [{minimize: PredictedTTFT}]}`
	toCloud = `{select: [{type: Provider, order: [cloud-a]}]}`
)

func openPolicies(t *testing.T, s *apiServer, change func(*kubernetes.PolicyOptions)) (*kubernetes.Policies, error) {
	t.Helper()
	_, d := s.clients(t)
	opts := kubernetes.PolicyOptions{Client: d, Namespaces: []string{ns}, Timeout: 30 * time.Second}
	if change != nil {
		change(&opts)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := kubernetes.OpenPolicies(ctx, opts)
	if p != nil {
		t.Cleanup(func() { require.NoError(t, p.Close()) })
	}
	return p, err
}

func TestPoliciesReload(t *testing.T) {
	s := newAPIServer(t)
	s.put("inferencepolicies", policyObject(t, 1, "a", byTTFT))
	loaded, problems := make(chan string, 100), make(chan error, 100)
	p, err := openPolicies(t, s, func(o *kubernetes.PolicyOptions) {
		o.OnLoad = func(set *policy.Set) { loaded <- set.Version() }
		o.OnError = func(err error) { problems <- err }
	})
	require.NoError(t, err)
	first := p.Set().Version()
	require.Equal(t, []string{"inference/a"}, p.Status().Objects)

	s.put("inferencepolicies", policyObject(t, 2, "a", byQueue))
	second := <-loaded
	require.NotEqual(t, first, second)
	require.Equal(t, second, p.Set().Version())

	// One that is wrong goes on saying what it said; the others change all the same.
	s.put("inferencepolicies", policyObject(t, 3, "a", typo))
	err = <-problems
	var wrong *kubernetes.ObjectError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "a", wrong.Name)
	require.ErrorContains(t, err, `did you mean "exclude"?`)
	require.NotContains(t, err.Error(), ":1:", "a place in text that nobody wrote")
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonLastGood) })
	require.Equal(t, second, p.Set().Version())
	s.put("inferencepolicies", policyObject(t, 1, "b", byTTFT))
	require.NotEqual(t, second, <-loaded)
	require.Equal(t, []string{"inference/a", "inference/b"}, p.Status().Objects)

	// New and wrong: nothing of it, and nobody else is concerned.
	s.put("inferencepolicies", policyObject(t, 1, "c", typo))
	require.ErrorContains(t, <-problems, "inference/c")
	require.Equal(t, []string{"inference/a", "inference/b"}, p.Status().Objects)
	require.Len(t, p.Status().Errs, 2)

	// Corrected and gone.
	s.remove("inferencepolicies", ns, "c")
	s.put("inferencepolicies", policyObject(t, 4, "a", byQueue))
	waitFor(t, "no problem", func() bool { return len(p.Status().Errs) == 0 })
	s.remove("inferencepolicies", ns, "b")
	waitFor(t, "the second version", func() bool { return p.Set().Version() == second })
	s.remove("inferencepolicies", ns, "a")
	waitFor(t, "that there is none", func() bool { return p.Status().Err != nil })
	require.ErrorIs(t, p.Status().Err, kubernetes.ErrNoPolicy)
	require.Equal(t, second, p.Set().Version(), "what was in force stays")
	require.Empty(t, problemsBut(problems, kubernetes.ErrNoPolicy))
}

func problemsBut(problems chan error, known error) []error {
	var out []error
	for {
		select {
		case err := <-problems:
			if !strings.Contains(err.Error(), known.Error()) {
				out = append(out, err)
			}
		default:
			return out
		}
	}
}

func TestPoliciesThatAreWrongAreNotOpened(t *testing.T) {
	s := newAPIServer(t)
	_, err := openPolicies(t, s, nil)
	require.ErrorIs(t, err, kubernetes.ErrNoPolicy)
	p, err := openPolicies(t, s, func(o *kubernetes.PolicyOptions) { o.AllowNone = true })
	require.NoError(t, err)
	require.NoError(t, p.Close())
	s.put("inferencepolicies", policyObject(t, 1, "a", byTTFT))
	s.put("inferencepolicies", policyObject(t, 1, "b", typo))
	_, err = openPolicies(t, s, nil)
	var check *policy.CheckError
	require.ErrorAs(t, err, &check)
	require.Contains(t, s.patched(), kubernetes.ReasonInvalid)
	s.turn(faultDown)
	_, d := s.clients(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = kubernetes.OpenPolicies(ctx, kubernetes.PolicyOptions{Client: d, Timeout: 100 * time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A policy may come before the provider that it names, and stays when that one goes.
func TestPoliciesAndWhatTheyNameComeInAnyOrder(t *testing.T) {
	s := newAPIServer(t)
	provider := func(name string) *unstructured.Unstructured {
		return object(t, 1, `{kind: InferenceProvider, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: `+name+`}, spec: {url: "https://h"}}`)
	}
	s.put("inferenceproviders", provider("cloud-b"))
	p, err := openPolicies(t, s, func(o *kubernetes.PolicyOptions) {
		o.AllowNone, o.Timeout = true, time.Second // which passes before it is told that the cluster is away
	})
	require.NoError(t, err)
	s.put("inferencepolicies", policyObject(t, 1, "a", toCloud))
	waitFor(t, "the problem", func() bool { return len(p.Status().Errs) == 1 })
	require.Empty(t, p.Status().Objects)
	s.put("inferenceproviders", provider("cloud-a"))
	waitFor(t, "the policy", func() bool { return len(p.Status().Objects) == 1 && len(p.Status().Errs) == 0 })
	s.remove("inferenceproviders", ns, "cloud-a")
	waitFor(t, "the problem", func() bool { return len(p.Status().Errs) == 1 })
	require.Len(t, p.Status().Objects, 1, "what was in force stays")
	require.Contains(t, s.patched(), kubernetes.ReasonNotSupported)

	// The cluster is away and comes back.
	s.turn(faultDown)
	waitFor(t, "Err", func() bool { return p.Status().Err != nil })
	s.turn("")
	waitFor(t, "no Err", func() bool { return p.Status().Err == nil })
}

func TestBackendsNameWhatThereIs(t *testing.T) {
	s := newAPIServer(t)
	backend := func(generation int64, kind string) *unstructured.Unstructured {
		return object(t, generation, `{kind: GatewayBackend, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: b}, spec: {ref: {kind: `+kind+`, name: one}}}`)
	}
	s.put("gatewaybackends", backend(1, "InferencePool"))
	_, err := openPolicies(t, s, func(o *kubernetes.PolicyOptions) { o.AllowNone = true })
	require.NoError(t, err)
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonUnresolved) })
	s.put("inferenceworkersets", set(t, 1, "one", ""))
	s.put("gatewaybackends", backend(2, "InferenceWorkerSet"))
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), "The object is right.") })
}
