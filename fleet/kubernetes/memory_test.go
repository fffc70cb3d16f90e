package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

const (
	podA = "inference/a@u1.0=http://10.0.0.1:8000"
	podB = "inference/b@u2.0=http://10.0.0.2:8000"
	one  = "inference/one@=http://h:1"
)

// away lets the API server be away until Discover ended; change is what happens
// meanwhile.
func away(t *testing.T, s *apiServer, r *run, change func()) {
	t.Helper()
	before := len(r.errors())
	s.turn(faultError)
	waitFor(t, "the failure is told", func() bool { return len(r.errors()) > before })
	change()
	s.compact()
	s.turn("")
}

// What a set said before it was wrong stays in force though the API server was away.
func TestSetsKeepWhatTheySaidWhenTheServerWasAway(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	s.put("inferenceworkersets", set(t, 1, "one", "class: h100"))
	r := start(t, &kubernetes.WorkerSets{Client: c, Objects: d, Namespaces: []string{ns}})
	r.wants(t, podA, one)
	s.put("inferenceworkersets", set(t, 2, "one", "classes: h200"))
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonLastGood) })
	away(t, s, r, func() { s.put("pods", newPod("b", "u2", "10.0.0.2")) })
	r.wants(t, podA, podB, one)
	for _, list := range r.all() {
		require.NotEmpty(t, list)
	}
	require.NotContains(t, s.patched(), kubernetes.ReasonInvalid)

	// A new one of that name said nothing so far.
	away(t, s, r, func() {
		other := set(t, 1, "one", "classes: h200")
		other.SetUID("another")
		s.remove("inferenceworkersets", ns, "one")
		s.put("inferenceworkersets", other)
	})
	r.wants(t)
}

// Labels that the API server refuses to look for are the fault of one set.
func TestSelectorsThatTheServerRefuses(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	bad := set(t, 1, "bad", "")
	bad.Object["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"app": "my value"}}
	s.put("inferenceworkersets", bad)
	s.put("inferenceworkersets", set(t, 1, "one", ""))
	r := start(t, &kubernetes.WorkerSets{Client: c, Objects: d, Namespaces: []string{ns}})
	r.wants(t, podA, one)
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), "spec.selector: ") })
	require.Empty(t, r.errors())
}

const ownPool = `{kind: InferencePool, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: pool},
spec: {selector: {matchLabels: {app: APP}}, targetPorts: [{number: 8000}]}}`

// A pool that becomes wrong goes on meaning what it meant, also over an outage.
func TestPoolKeepsWhatItSaid(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	s.put("inferencepools", object(t, 1, strings.ReplaceAll(ownPool, "APP", "vllm")))
	problems := make(chan error, 100)
	pool := &kubernetes.Pool{Client: c, Objects: d, Namespace: ns, Name: "pool", Own: true}
	pool.Options.OnProblem = func(err error) { problems <- err }
	r := start(t, pool)
	r.wants(t, podA)
	s.put("inferencepools", object(t, 2, strings.ReplaceAll(ownPool, "APP", `"my value"`)))
	require.ErrorContains(t, <-problems, "spec.selector: ")
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), kubernetes.ReasonLastGood) })
	s.put("pods", newPod("b", "u2", "10.0.0.2"))
	r.wants(t, podA, podB)
	waitFor(t, "the status", func() bool { return strings.Contains(s.patched(), `"workers":2`) })
	require.Empty(t, r.errors(), "it is no failure to read the cluster")
	away(t, s, r, func() { s.remove("pods", ns, "a") })
	r.wants(t, podB)
	for range len(problems) {
		require.NotContains(t, (<-problems).Error(), "spec.selector: ", "it is told once")
	}
	away(t, s, r, func() { s.remove("inferencepools", ns, "pool") })
	r.wants(t)
}

// A status that can't be written holds no list up.
func TestStatusComesAfterTheList(t *testing.T) {
	for name, discoverer := range map[string]func(c *apiServer) fleet.Discoverer{
		"sets": func(s *apiServer) fleet.Discoverer {
			c, d := s.clients(t)
			s.put("inferenceworkersets", set(t, 1, "one", ""))
			return &kubernetes.WorkerSets{Client: c, Objects: d, Options: kubernetes.Options{Timeout: 5 * time.Minute}}
		},
		"pool": func(s *apiServer) fleet.Discoverer {
			c, d := s.clients(t)
			s.put("inferencepools", object(t, 1, strings.ReplaceAll(ownPool, "APP", "vllm")))
			return &kubernetes.Pool{
				Client: c, Objects: d, Namespace: ns, Name: "pool", Own: true, Options: kubernetes.Options{Timeout: 5 * time.Minute},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.hold = hold(t)
			s.put("pods", newPod("a", "u1", "10.0.0.1"))
			r := start(t, discoverer(s))
			waitFor(t, "the list", func() bool { list, n := r.last(); return n > 0 && short(list)[0] == podA })
		})
	}
}

func hold(t *testing.T) chan struct{} {
	t.Helper()
	c := make(chan struct{})
	t.Cleanup(func() { close(c) })
	return c
}

// A problem is told once however often the API server is away, and again when it was
// gone meanwhile.
func TestProblemsAreToldOnceThoughTheServerWasAway(t *testing.T) {
	s := newAPIServer(t)
	bad := newPod("bad", "u0", "10.0.0.9")
	bad.Annotations["kvsteer.dev/role"] = "prefil"
	s.put("pods", bad)
	d := podsOf(t, s)
	problems := make(chan error, 100)
	d.Options.OnProblem = func(err error) { problems <- err }
	r := start(t, d)
	r.wants(t)
	away(t, s, r, func() { s.put("pods", newPod("a", "u1", "10.0.0.1")) })
	r.wants(t, podA)
	require.Len(t, problems, 1)
	s.remove("pods", ns, "bad")
	s.put("pods", newPod("b", "u2", "10.0.0.2"))
	r.wants(t, podA, podB)
	s.put("pods", bad)
	waitFor(t, "the problem", func() bool { return len(problems) == 2 })
}

func TestAdjustHasTheLastWordOnWorkersThatAreNoPods(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	s.put("inferenceworkersets", set(t, 1, "one", ""))
	s.put("inferenceworkersets", set(t, 1, "two", ""))
	sets := &kubernetes.WorkerSets{Client: c, Objects: d}
	sets.Options.Adjust = func(w *fleet.Worker, pod *corev1.Pod) bool {
		w.Class = "adjusted"
		return pod == nil && w.Name != "inference/two"
	}
	r := start(t, sets)
	r.wants(t, one)
	list, _ := r.last()
	require.Equal(t, "adjusted", list[0].Class)
}

// What was seen of endpoints outlasts an outage; an address that was left out during
// it comes back as another instance.
func TestEndpointsAreTheSameThoughTheServerWasAway(t *testing.T) {
	s := newAPIServer(t)
	c, _ := s.clients(t)
	a := func(ready bool) *discoveryv1.EndpointSlice {
		return newSlice("s1", newEndpoint("a", "u1", "10.0.0.1", ready, false))
	}
	server := newSlice("s2", newEndpoint("", "", "10.0.0.3", true, false))
	s.put("endpointslices", a(true))
	s.put("endpointslices", server)
	r := start(t, &kubernetes.EndpointSlices{Client: c, Service: "vllm"})
	const first, second = "inference/a@u1.1=http://10.0.0.1:8000", "inference/vllm/10.0.0.3@10.0.0.3."
	r.wants(t, podA, second+"0=http://10.0.0.3:8000")
	s.put("endpointslices", a(false))
	s.put("endpointslices", a(true))
	r.wants(t, first, second+"0=http://10.0.0.3:8000")
	away(t, s, r, func() { s.put("endpointslices", newSlice("s2")) })
	r.wants(t, first)
	s.put("endpointslices", server)
	r.wants(t, first, second+"1=http://10.0.0.3:8000")
}

func TestLivesAreBounded(t *testing.T) {
	l := kubernetes.NewLives()
	stays := newEndpoint("a", "stays", "10.0.0.1", true, false)
	goes := newEndpoint("b", "goes", "10.0.0.2", true, false)
	require.Equal(t, "stays.0", l.Epoch(&stays))
	require.Equal(t, "goes.0", l.Epoch(&goes))
	for i := range kubernetes.MaxLives {
		e := newEndpoint("c", fmt.Sprint("u", i), "10.0.0.3", true, false)
		l.Epoch(&e)
	}
	require.Greater(t, l.Size(), kubernetes.MaxLives)
	l.Only(stays)
	require.Equal(t, 1, l.Size())
	require.Equal(t, "stays.0", l.Epoch(&stays))
	require.Equal(t, "goes.1", l.Epoch(&goes), "who was forgotten is another instance")
}
