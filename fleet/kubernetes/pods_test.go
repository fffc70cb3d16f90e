package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func podsOf(t *testing.T, s *apiServer) *kubernetes.Pods {
	t.Helper()
	c, _ := s.clients(t)
	return &kubernetes.Pods{Client: c, Namespaces: []string{ns}, Selector: "app=vllm", Ports: []string{"http"}}
}

func TestPodsFromStartToEnd(t *testing.T) {
	s := newAPIServer(t)
	a, b := newPod("a", "u1", "10.0.0.1"), newPod("b", "u2", "10.0.0.2")
	other := newPod("other", "u3", "10.0.0.3")
	other.Labels = map[string]string{"app": "redis"}
	s.put("pods", a)
	s.put("pods", notReady(b))
	s.put("pods", other)
	r := start(t, podsOf(t, s))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000")

	s.put("pods", b)
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000", "inference/b@u2.0=http://10.0.0.2:8000")

	// Terminating though ready, and no longer ready: draining. Gone: out.
	s.put("pods", terminating(a))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000!", "inference/b@u2.0=http://10.0.0.2:8000")
	s.put("pods", notReady(terminating(a)))
	s.put("pods", notReady(b))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000!")
	s.remove("pods", ns, "a")
	r.wants(t)

	// The same name comes back as another pod, at the address of b.
	s.put("pods", newPod("a", "u4", "10.0.0.2"))
	r.wants(t, "inference/a@u4.0=http://10.0.0.2:8000")

	// No longer selected.
	unselected := newPod("a", "u4", "10.0.0.2")
	unselected.Labels["app"] = "other"
	s.put("pods", unselected)
	r.wants(t)
	require.Empty(t, r.errors())
}

func TestRestartsOfTheEngineMakeAnotherInstance(t *testing.T) {
	s := newAPIServer(t)
	pod := newPod("a", "u1", "10.0.0.1")
	s.put("pods", pod)
	r := start(t, podsOf(t, s))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000")

	pod = pod.DeepCopy()
	pod.Status.ContainerStatuses[1].RestartCount = 7 // the sidecar has no cache
	s.put("pods", pod)
	pod = pod.DeepCopy()
	pod.Status.ContainerStatuses[0].RestartCount = 2
	s.put("pods", pod)
	r.wants(t, "inference/a@u1.2=http://10.0.0.1:8000")
	for _, list := range r.all() {
		require.NotContains(t, short(list)[0], "u1.7")
	}

	// By a number that no container declares, any of them may be the engine.
	d := podsOf(t, s)
	d.Ports = []string{"9000"}
	start(t, d).wants(t, "inference/a@u1.9=http://10.0.0.1:9000")
}

func TestPodsThatAreNoWorkers(t *testing.T) {
	never := map[string]func(*corev1.Pod){
		"no address":         func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil },
		"pending":            func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"failed, but ready":  func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"succeeded":          func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"readiness unknown":  func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionUnknown },
		"no readiness":       func(p *corev1.Pod) { p.Status.Conditions = nil },
		"port not there":     func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "web" },
		"port is UDP":        func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP },
		"role unknown":       func(p *corev1.Pod) { p.Annotations["kvsteer.dev/role"] = "cook" },
		"no number":          func(p *corev1.Pod) { p.Annotations["kvsteer.dev/block-size"] = "many" },
		"no word":            func(p *corev1.Pod) { p.Labels["kvsteer.dev/speculative"] = "yes" },
		"replay, no events":  func(p *corev1.Pod) { p.Annotations["kvsteer.dev/replay-port"] = "1" },
		"port too large":     func(p *corev1.Pod) { p.Annotations["kvsteer.dev/port"] = "70000" },
		"path without slash": func(p *corev1.Pod) { p.Annotations["kvsteer.dev/path"] = "x" },
	}
	for name, spoil := range never {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			bad := newPod("bad", "u1", "10.0.0.1")
			spoil(bad)
			s.put("pods", bad)
			s.put("pods", newPod("good", "u2", "10.0.0.2"))
			start(t, podsOf(t, s)).wants(t, "inference/good@u2.0=http://10.0.0.2:8000")
		})
	}
}

func TestProblemsAreToldOnceWithWhatToDo(t *testing.T) {
	s := newAPIServer(t)
	bad := newPod("bad", "u1", "10.0.0.1")
	bad.Annotations["kvsteer.dev/role"] = "prefil"
	bad.Annotations["kvsteer.dev/event-port"] = "5557"
	s.put("pods", bad)
	s.put("pods", newPod("good", "u2", "10.0.0.2"))
	d := podsOf(t, s)
	problems := make(chan error, 100)
	d.Options.OnProblem = func(err error) { problems <- err }
	r := start(t, d)
	r.wants(t, "inference/good@u2.0=http://10.0.0.2:8000")
	for i := range 20 {
		s.put("pods", newPod("good", fmt.Sprint("v", i), "10.0.0.2"))
	}
	r.wants(t, "inference/good@v19.0=http://10.0.0.2:8000")
	r.end()
	close(problems)
	var texts []string
	for err := range problems {
		var object *kubernetes.ObjectError
		require.ErrorAs(t, err, &object)
		require.ErrorIs(t, err, kubernetes.ErrInvalidObject)
		require.Equal(t, "bad", object.Name)
		texts = append(texts, err.Error())
	}
	require.Equal(t, []string{
		"kubernetes: Pod inference/bad: annotation kvsteer.dev/event-port: not known; did you mean kvsteer.dev/events-port?",
		`kubernetes: Pod inference/bad: worker.role: "prefil" is not known; use prefill or decode, ` +
			"or leave it out for a worker that serves whole requests",
	}, texts)
}

// Whoever may label a pod chooses how much room is made for it: there is a limit.
func TestNumbersOfPodsHaveLimits(t *testing.T) {
	s := newAPIServer(t)
	for key, value := range map[string]string{
		"data-parallel": "1025", "block-size": "1048577", "events-port": "65536", "port": strings.Repeat("http,", 65),
	} {
		pod := newPod(key, "u1", "10.0.0.1")
		pod.Annotations["kvsteer.dev/poll-events"] = "true"
		pod.Annotations["kvsteer.dev/"+key] = value
		s.put("pods", pod)
	}
	s.put("pods", newPod("good", "u2", "10.0.0.2"))
	d := podsOf(t, s)
	problems := make(chan error, 100)
	d.Options.OnProblem = func(err error) { problems <- err }
	start(t, d).wants(t, "inference/good@u2.0=http://10.0.0.2:8000")
	for _, want := range []string{
		`data-parallel: "1025" is not a whole number between 1 and 1024`, `block-size: "1048577" is not`,
		`events-port: "65536" is not a whole number between 1 and 65535`, "port: it names 65 ports; name at most 64",
	} {
		key, _, _ := strings.Cut(want, ":")
		var found bool
		for range len(problems) {
			err := <-problems
			found = found || strings.Contains(err.Error(), "kvsteer.dev/"+want)
			problems <- err
		}
		require.True(t, found, key)
	}
}

// Two pods that publish events at one address (of a host's network) would spoil each
// other's index: one of them is left out, and the fleet goes on.
func TestClashesTakeOutOne(t *testing.T) {
	s := newAPIServer(t)
	for i, name := range []string{"a", "b"} {
		pod := newPod(name, "u"+name, "10.0.0.1")
		pod.Spec.HostNetwork = true
		pod.Spec.Containers[0].Ports[0].ContainerPort = int32(8000 + i)
		pod.Annotations["kvsteer.dev/events-port"] = "5557"
		s.put("pods", pod)
	}
	d := podsOf(t, s)
	problems := make(chan error, 100)
	d.Options.OnProblem = func(err error) { problems <- err }
	start(t, d).wants(t, "inference/a@ua.0=http://10.0.0.1:8000")
	require.ErrorContains(t, <-problems, "also events")
}

func TestAnnotationsSayWhatTheClusterDoesNot(t *testing.T) {
	s := newAPIServer(t)
	pod := newPod("a", "u1", "fd00::1")
	pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: "10.0.0.1"})
	pod.Labels["kvsteer.dev/role"] = "decode"
	pod.Labels["kvsteer.dev/class"] = "label"
	pod.Labels["topology.kubernetes.io/region"] = "eu"
	for k, v := range map[string]string{
		"port": "http", "scheme": "https", "path": "/engine", "engine": "vllm", "models": "meta/llama, other", "class": "h100-tp2",
		"pool": "large", "block-size": "32", "data-parallel": "2", "events-port": "5557", "replay-port": "5657", "events-topic": "kv",
		"speculative": "true", "draining": "true",
	} {
		pod.Annotations["kvsteer.dev/"+k] = v
	}
	s.put("pods", pod)
	d := podsOf(t, s)
	d.Ports = nil
	d.Options.Template = kubernetes.Template{Pool: "small", Labels: map[string]string{"rack": "7", "app": "not"}}
	r := start(t, d)
	r.wants(t, "inference/a@u1.0=https://[fd00::1]:8000/engine!")
	list, _ := r.last()
	require.Equal(t, fleet.Worker{
		Name: "inference/a", Epoch: "u1.0", URL: "https://[fd00::1]:8000/engine", Engine: fleet.EngineVLLM,
		Models: []string{"meta/llama", "other"}, Class: "h100-tp2", Pool: "large", BlockSize: 32, DataParallel: 2,
		Events: []follow.Endpoint{
			{Events: "tcp://[fd00::1]:5557", Replay: "tcp://[fd00::1]:5657", Topic: "kv"},
			{Events: "tcp://[fd00::1]:5558", Replay: "tcp://[fd00::1]:5658", Topic: "kv", Rank: 1},
		},
		Speculative: true, Role: fleet.RoleDecode, Draining: true,
		Labels: map[string]string{
			"app": "vllm", "rack": "7", "kvsteer.dev/role": "decode", "kvsteer.dev/class": "label", "topology.kubernetes.io/region": "eu",
		},
	}, list[0])

	other := podsOf(t, s)
	other.Options.Template, other.Options.Family = d.Options.Template, kubernetes.FamilyIPv4
	start(t, other).wants(t, "inference/a@u1.0=https://10.0.0.1:8000/engine!")
}

func TestSeveralPortsAreSeveralEngines(t *testing.T) {
	s := newAPIServer(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	d := podsOf(t, s)
	d.Ports = []string{"8000", "8001"}
	d.Options.Template.EventsPort = 5557
	r := start(t, d)
	r.wants(t, "inference/a:8000@u1.0=http://10.0.0.1:8000", "inference/a:8001@u1.0=http://10.0.0.1:8001")
	list, _ := r.last()
	require.Equal(t, "tcp://10.0.0.1:5557", list[0].Events[0].Events)
	require.Equal(t, "tcp://10.0.0.1:5558", list[1].Events[0].Events)
}

func TestAdjustHasTheLastWord(t *testing.T) {
	s := newAPIServer(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	s.put("pods", newPod("b", "u2", "10.0.0.2"))
	d := podsOf(t, s)
	d.Options.Adjust = func(w *fleet.Worker, pod *corev1.Pod) bool {
		w.Name = strings.ToUpper(pod.Name)
		return pod.Name != "b"
	}
	start(t, d).wants(t, "A@u1.0=http://10.0.0.1:8000")
}

// A thousand pods at once are one list, and a storm of changes few.
func TestThousandPods(t *testing.T) {
	s := newAPIServer(t)
	put := func(from, to, generation int) {
		for i := from; i < to; i++ {
			s.put("pods", newPod(fmt.Sprintf("p%04d", i), fmt.Sprintf("u%d-%d", i, generation), fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)))
		}
	}
	put(0, 1000, 1)
	r := start(t, podsOf(t, s))
	waitFor(t, "the first list", func() bool { _, n := r.last(); return n > 0 })
	list, _ := r.last()
	require.Len(t, list, 1000, "the first list is complete")
	put(0, 1000, 2)
	waitFor(t, "all pods anew", func() bool {
		list, _ := r.last()
		for i := range list {
			if !strings.HasSuffix(list[i].Epoch, "-2.0") {
				return false
			}
		}
		return len(list) == 1000
	})
	_, n := r.last()
	assert.Less(t, n, 900, "changes are folded")
}

func TestValidate(t *testing.T) {
	s := newAPIServer(t)
	c, d := s.clients(t)
	good := kubernetes.Pods{Client: c, Selector: "app=vllm"}
	for _, bad := range []interface{ Validate() error }{
		&kubernetes.Pods{},
		&kubernetes.Pods{Client: c},
		&kubernetes.Pods{Client: c, Selector: "a b"},
		&kubernetes.Pods{Client: c, Selector: "a", Ports: []string{""}},
		&kubernetes.Pods{Client: c, Selector: "a", Options: kubernetes.Options{Family: "IPv5"}},
		&kubernetes.Pods{Client: c, Selector: "a", Options: kubernetes.Options{Timeout: -time.Second}},
		&kubernetes.Pods{Client: c, Selector: "a", Options: kubernetes.Options{Template: kubernetes.Template{Scheme: "ftp"}}},
		&kubernetes.Pods{Client: c, Selector: "a", Options: kubernetes.Options{Template: kubernetes.Template{DataParallel: 1<<31 - 1}}},
		&kubernetes.Pods{Client: c, Selector: "a", Options: kubernetes.Options{Template: kubernetes.Template{DataParallel: -1}}},
		&kubernetes.EndpointSlices{Client: c},
		&kubernetes.EndpointSlices{Service: "a"},
		&kubernetes.EndpointSlices{Client: c, Service: "a", Selector: "b"},
		&kubernetes.Pool{Client: c, Objects: d, Name: "a"},
		&kubernetes.Pool{Client: c, Namespace: "a", Name: "b"},
		&kubernetes.WorkerSets{Client: c},
		&kubernetes.WorkerSets{Client: c, Objects: d, Selector: "a b"},
	} {
		require.ErrorContains(t, bad.Validate(), "kubernetes: ")
		_, err := fleet.New(fleet.Options{Discoverer: bad.(fleet.Discoverer)})
		require.ErrorContains(t, err, "kubernetes: ")
	}
	require.NoError(t, good.Validate())
}
