//go:build e2e

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
)

const manifests = "../../examples/kubernetes/"

// upstream is the module whose manifests define the InferencePool of
// inference.networking.k8s.io.
const upstream = "sigs.k8s.io/gateway-api-inference-extension@v1.0.0"

// TestRealCluster runs everything against etcd and kube-apiserver as they are, with
// the rights of rbac.yaml.
func TestRealCluster(t *testing.T) {
	c := newRealCluster(t)
	r := &rig{realCluster: c, ctx: context.Background()}
	r.admin, _ = r.clients(c.Admin)
	t.Log("kube-apiserver ", strings.TrimSpace(c.must("", "version")))
	c.must("", "create", "namespace", ns)
	c.must("", "apply", "-f", manifests+"crds.yaml")
	c.must("", "apply", "-f", r.upstreamCRD())
	c.must("", "apply", "-f", manifests+"rbac.yaml")
	c.must("", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	r.config = r.serviceAccount()
	for _, part := range []struct {
		name string
		test func(*rig)
	}{
		{"manifests", (*rig).testManifests},
		{"rights", (*rig).testRights},
		{"pods", (*rig).testPods},
		{"outage", (*rig).testOutage},
		{"slices", (*rig).testSlices},
		{"pools", (*rig).testPools},
		{"worker sets", (*rig).testWorkerSets},
		{"policies", (*rig).testPolicies},
		{"gateway", (*rig).testGateway},
		{"thousand pods", (*rig).testThousand},
	} {
		t.Run(part.name, func(t *testing.T) {
			own := *r
			own.T = t
			part.test(&own)
		})
	}
}

type rig struct {
	*testing.T
	*realCluster

	ctx    context.Context //nolint:containedctx // that of the test
	admin  clientset.Interface
	config *rest.Config // of the service account
}

func (r *rig) clients(config *rest.Config) (clientset.Interface, dynamic.Interface) {
	r.t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(r.t, err)
	c, err := clientset.NewForConfigAndClient(config, client)
	require.NoError(r.t, err)
	d, err := dynamic.NewForConfigAndClient(config, client)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	return c, d
}

func (r *rig) upstreamCRD() string {
	out, err := exec.Command("go", "mod", "download", "-json", upstream).Output()
	require.NoError(r.t, err)
	var module struct{ Dir string }
	require.NoError(r.t, json.Unmarshal(out, &module))
	return module.Dir + "/config/crd/bases/inference.networking.k8s.io_inferencepools.yaml"
}

// serviceAccount is a token of the account in rbac.yaml.
func (r *rig) serviceAccount() *rest.Config {
	token, err := r.admin.CoreV1().ServiceAccounts(ns).CreateToken(r.ctx, "kvsteer-gateway", &authnv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(r.t, err)
	config := rest.CopyConfig(r.Admin)
	config.BearerToken = token.Status.Token
	return config
}

// create makes a pod as a kubelet would have it.
func (r *rig) create(pod *corev1.Pod) *corev1.Pod {
	r.Helper()
	pod = pod.DeepCopy()
	pod.UID = ""
	pod.Spec.NodeName = "node" // so that deleting it takes its grace period
	made, err := r.admin.CoreV1().Pods(ns).Create(r.ctx, pod, metav1.CreateOptions{})
	require.NoError(r, err)
	pod.Status.DeepCopyInto(&made.Status)
	made, err = r.admin.CoreV1().Pods(ns).UpdateStatus(r.ctx, made, metav1.UpdateOptions{})
	require.NoError(r, err)
	return made
}

func (r *rig) kill(names ...string) {
	r.Helper()
	for _, name := range names {
		zero := int64(0)
		require.NoError(r, r.admin.CoreV1().Pods(ns).Delete(r.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	}
}

func (r *rig) pods(config *rest.Config) *kubernetes.Pods {
	c, _ := r.clients(config)
	return &kubernetes.Pods{Client: c, Namespaces: []string{ns}, Selector: "app=vllm", Ports: []string{"http"}}
}

func line(pod *corev1.Pod, restarts int) string {
	return fmt.Sprintf("inference/%s@%s.%d=http://%s:8000", pod.Name, pod.UID, restarts, pod.Status.PodIP)
}

// Everything that examples/kubernetes has is taken by the server.
func (r *rig) testManifests() {
	for _, f := range []string{"engines.yaml", "resources.yaml", "pool.yaml", "rbac.yaml", "crds.yaml"} {
		r.Log(r.must("", "apply", "--dry-run=server", "-f", manifests+f))
	}
	// The endpoint picker of a Gateway, and the pool that it follows. The Gateway itself is of
	// an API that is not installed here.
	const picker = "../../examples/extproc/kubernetes/"
	r.Log(r.must("", "apply", "--dry-run=server", "-f", picker+"picker.yaml"))
	text, err := os.ReadFile(picker + "gateway.yaml")
	require.NoError(r, err)
	pools := 0
	for object := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(object, "kind: InferencePool\nmetadata") {
			pools++
			r.Log(r.must(object, "apply", "--dry-run=server", "-f", "-"))
		}
	}
	require.Equal(r, 1, pools)
}

// The account may do what rbac.yaml says, and nothing else.
func (r *rig) testRights() {
	c, _ := r.clients(r.config)
	allowed := func(verb, group, resource, sub, namespace string) bool {
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(r.ctx, &authzv1.SelfSubjectAccessReview{
			Spec: authzv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authzv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub,
			}},
		}, metav1.CreateOptions{})
		require.NoError(r, err)
		return review.Status.Allowed
	}
	read := map[string]bool{"list": true, "watch": true}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		for _, x := range [][2]string{
			{"", "pods"},
			{"discovery.k8s.io", "endpointslices"},
			{"inference.networking.k8s.io", "inferencepools"},
			{"kvsteer.dev", "inferencepools"},
			{"kvsteer.dev", "inferenceworkersets"},
			{"kvsteer.dev", "inferenceproviders"},
			{"kvsteer.dev", "inferencepolicies"},
			{"kvsteer.dev", "gatewaybackends"},
		} {
			assert.Equal(r, read[verb], allowed(verb, x[0], x[1], "", ns), "%s %v", verb, x)
			assert.False(r, allowed(verb, x[0], x[1], "", "default"), "%s %v elsewhere", verb, x)
			assert.Equal(r, x[0] == "kvsteer.dev" && verb == "patch", allowed(verb, x[0], x[1], "status", ns), "%s %v/status", verb, x)
		}
		for _, x := range [][2]string{
			{"", "secrets"},
			{"", "configmaps"},
			{"", "services"},
			{"", "nodes"},
			{"", "serviceaccounts"},
			{"apps", "deployments"},
			{"rbac.authorization.k8s.io", "roles"},
			{"apiextensions.k8s.io", "customresourcedefinitions"},
		} {
			assert.False(r, allowed(verb, x[0], x[1], "", ns), "%s %v", verb, x)
		}
	}
	_, err := c.CoreV1().Secrets(ns).List(r.ctx, metav1.ListOptions{})
	require.ErrorContains(r, err, "forbidden")
	// Elsewhere it may not, and the error says what to grant.
	d := r.pods(r.config)
	d.Namespaces = []string{"default"}
	run := start(r.T, d)
	waitFor(r.T, "an error", func() bool { return len(run.errors()) > 0 })
	require.ErrorContains(r, run.errors()[0], "grant the verbs list and watch")
}

func (r *rig) testPods() {
	a := r.create(newPod("a", "", "10.0.0.1"))
	b := r.create(newPod("b", "", "fd00::2"))
	other := newPod("other", "", "10.0.0.9")
	other.Labels = nil
	r.create(other)
	run := start(r.T, r.pods(r.config))
	lineB := "inference/b@" + string(b.UID) + ".0=http://[fd00::2]:8000"
	run.wants(r.T, line(a, 0), lineB)

	// The engine's container is restarted.
	a.Status.ContainerStatuses[0].RestartCount = 1
	a, err := r.admin.CoreV1().Pods(ns).UpdateStatus(r.ctx, a, metav1.UpdateOptions{})
	require.NoError(r, err)
	run.wants(r.T, line(a, 1), lineB)

	// Deleted with grace: it drains though it is ready, until it is gone.
	require.NoError(r, r.admin.CoreV1().Pods(ns).Delete(r.ctx, "a", metav1.DeleteOptions{}))
	run.wants(r.T, line(a, 1)+"!", lineB)
	r.kill("a")
	run.wants(r.T, lineB)

	// The same name is another pod, at the address of the other one, which isn't ready.
	_, err = r.admin.CoreV1().Pods(ns).UpdateStatus(r.ctx, notReady(b), metav1.UpdateOptions{})
	require.NoError(r, err)
	run.wants(r.T)
	again := newPod("a", "", "fd00::2")
	a2 := r.create(again)
	require.NotEqual(r, a.UID, a2.UID)
	run.wants(r.T, "inference/a@"+string(a2.UID)+".0=http://[fd00::2]:8000")

	// No longer selected.
	_, err = r.admin.CoreV1().Pods(ns).Patch(r.ctx, "a", "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"app":null}}}`), metav1.PatchOptions{})
	require.NoError(r, err)
	run.wants(r.T)
	require.Empty(r, run.errors())
	r.kill("a", "b", "other")
}

// The network is cut, and the API server restarted, while pods come and go.
func (r *rig) testOutage() {
	w := newWire(r.T, "127.0.0.1:"+r.port)
	config := rest.CopyConfig(r.config)
	config.Host = "https://" + w.listener.Addr().String()
	a, b := r.create(newPod("a", "", "10.0.0.1")), r.create(newPod("b", "", "10.0.0.2"))
	run := start(r.T, r.pods(config))
	run.wants(r.T, line(a, 0), line(b, 0))
	w.Cut(true)
	waitFor(r.T, "an error", func() bool { return len(run.errors()) > 0 })
	r.kill("a", "b")
	b2 := r.create(newPod("b", "", "10.0.0.1"))
	list, _ := run.last()
	require.Equal(r, []string{line(a, 0), line(b, 0)}, short(list), "the last list stays")
	r.Stop()
	r.Start()
	w.Cut(false)
	run.wants(r.T, line(b2, 0))
	// Restarted while we watch.
	r.Stop()
	r.Start()
	c := r.create(newPod("c", "", "10.0.0.3"))
	run.wants(r.T, line(b2, 0), line(c, 0))
	for _, list := range run.all() {
		require.NotEmpty(r, list)
	}
	r.kill("b", "c")
}

func (r *rig) testSlices() {
	slice := `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"s1","namespace":"inference",
"labels":{"kubernetes.io/service-name":"vllm"}},"addressType":"IPv4","ports":[{"name":"http","port":8000}],
"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":%v,"serving":true,"terminating":%v},
"targetRef":{"kind":"Pod","name":"a","namespace":"inference","uid":"u1"}}]}`
	apply := func(ready, terminating bool) {
		r.must(fmt.Sprintf(slice, ready, terminating), "apply", "-f", "-")
	}
	apply(true, false)
	c, _ := r.clients(r.config)
	run := start(r.T, &kubernetes.EndpointSlices{Client: c, Namespaces: []string{ns}, Service: "vllm", Ports: []string{"http"}})
	run.wants(r.T, "inference/a@u1.0=http://10.0.0.1:8000")
	apply(false, false)
	run.wants(r.T)
	apply(true, false)
	run.wants(r.T, "inference/a@u1.1=http://10.0.0.1:8000")
	apply(false, true)
	run.wants(r.T, "inference/a@u1.1=http://10.0.0.1:8000!")
	r.must("", "delete", "-n", ns, "endpointslice", "s1")
	run.wants(r.T)
	require.Empty(r, run.errors())
}

func (r *rig) testPools() {
	a := r.create(newPod("a", "", "10.0.0.1"))
	c, objects := r.clients(r.config)
	for _, own := range []bool{false, true} {
		d := &kubernetes.Pool{Client: c, Objects: objects, Namespace: ns, Name: "vllm", Own: own}
		run := start(r.T, d)
		waitFor(r.T, "that there is none", func() bool { return len(run.errors()) > 0 })
		require.ErrorIs(r, run.errors()[0], kubernetes.ErrNoPool)
		manifest := r.must("", "create", "--dry-run=client", "-o", "yaml", "-f", manifests+"pool.yaml")
		group := "inferencepool.inference.networking.k8s.io"
		if own {
			group = "inferencepool.kvsteer.dev"
			manifest = "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePool\nmetadata: {name: vllm, namespace: inference}\n" +
				"spec: {selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}]}\n"
		}
		r.must(manifest, "apply", "-f", "-")
		run.wants(r.T, line(a, 0))
		list, _ := run.last()
		require.Equal(r, "vllm", list[0].Pool)
		r.must("", "patch", "-n", ns, group, "vllm", "--type=merge", "-p", `{"spec":{"targetPorts":[{"number":9000}]}}`)
		run.wants(r.T, "inference/a@"+string(a.UID)+".0=http://10.0.0.1:9000")
		if own {
			waitFor(r.T, "the status", func() bool {
				return strings.Contains(r.must("", "get", "-n", ns, group), "vllm   1         True")
			})
		}
		r.must("", "delete", "-n", ns, group, "vllm")
		run.wants(r.T)
		run.end()
	}
	r.kill("a")
}

func (r *rig) testWorkerSets() {
	a := r.create(newPod("a", "", "10.0.0.1"))
	c, objects := r.clients(r.config)
	r.must("", "apply", "-f", manifests+"resources.yaml")
	run := start(r.T, &kubernetes.WorkerSets{Client: c, Objects: objects, Namespaces: []string{ns}})
	both := []string{line(a, 0), "inference/rack-7@=http://10.20.0.7:8000"}
	run.wants(r.T, both...)
	row := func() string { return r.must("", "get", "-n", ns, "inferenceworkerset", "h100") }
	waitFor(r.T, "the status", func() bool { return strings.Contains(row(), "h100   2         True       Accepted") })
	// What the schema can't see is found here, and what was said before stays in force.
	r.must("", "patch", "-n", ns, "inferenceworkerset", "h100", "--type=merge", "-p", `{"spec":{"worker":{"classes":"x"}}}`)
	waitFor(r.T, "the status", func() bool { return strings.Contains(row(), "2         False      LastGoodVersionInForce") })
	list, _ := run.last()
	require.Equal(r, both, short(list))
	out, err := r.kubectl("", "patch", "-n", ns, "inferenceworkerset", "h100", "--type=merge", "-p", `{"spec":{"worker":{"role":"cook"}}}`)
	require.Error(r, err)
	require.Contains(r, out, "Unsupported value")
	r.Log("\n" + row())
	r.must("", "delete", "-n", ns, "-f", manifests+"resources.yaml")
	run.wants(r.T)
	r.kill("a")
}

func (r *rig) testPolicies() {
	_, objects := r.clients(r.config)
	problems := make(chan error, 100)
	open := func(none bool) (*kubernetes.Policies, error) {
		return kubernetes.OpenPolicies(r.ctx, kubernetes.PolicyOptions{
			Client: objects, Namespaces: []string{ns}, AllowNone: none, OnError: func(err error) { problems <- err },
		})
	}
	_, err := open(false)
	require.ErrorIs(r, err, kubernetes.ErrNoPolicy)
	r.must("", "apply", "-f", manifests+"resources.yaml")
	p, err := open(false)
	require.NoError(r, err)
	defer p.Close()
	version := p.Set().Version()
	row := func(kind string) string { return r.must("", "get", "-n", ns, kind) }
	waitFor(r.T, "the status", func() bool { return strings.Contains(row("inferencepolicy"), "True       Accepted") })
	waitFor(r.T, "the status", func() bool { return strings.Contains(row("inferenceprovider"), "True       False") })
	waitFor(r.T, "the status", func() bool { return strings.Contains(row("gatewaybackend"), "True       False") })

	// A gateway that has a set sends requests to the provider, with the secret that it has mounted.
	set, err := providers.New(nil, providers.Options{})
	require.NoError(r, err)
	defer set.Close()
	unserved := make(chan error, 100)
	secrets := r.TempDir()
	require.NoError(r, os.MkdirAll(filepath.Join(secrets, "cloud-a"), 0o700))
	require.NoError(r, os.WriteFile(filepath.Join(secrets, "cloud-a", "api-key"), []byte("secret\n"), 0o600))
	serving, err := kubernetes.OpenPolicies(r.ctx, kubernetes.PolicyOptions{
		Client: objects, Namespaces: []string{ns}, Providers: set, OnError: func(err error) { unserved <- err },
		ReadProviders: file.Options{
			Secret: func(name, key string) (providers.CredentialSource, error) {
				return providers.File(filepath.Join(secrets, name, key)), nil
			},
		},
	})
	require.NoError(r, err)
	require.Len(r, set.Offers("qwen3-8b"), 1)
	waitFor(r.T, "the status", func() bool { return strings.Count(row("inferenceprovider"), "True ") == 2 })
	r.must("", "patch", "-n", ns, "inferenceprovider", "cloud-a", "--type=merge", "-p", `{"spec":{"models":[{"name":"m","contextWindow":1000}, "n"]}}`)
	waitFor(r.T, "the models", func() bool {
		return len(set.Offers("m")) == 1 && len(set.Offers("n")) == 1 && len(set.Offers("qwen3-8b")) == 0
	})
	r.must("", "patch", "-n", ns, "inferenceprovider", "cloud-a", "--type=merge", "-p", `{"spec":{"modells":[]}}`)
	require.ErrorContains(r, <-unserved, `did you mean "models"?`)
	require.Len(r, set.Offers("m"), 1)
	require.NoError(r, serving.Close())

	// A misspelt key is not dropped in silence.
	const patch = `{"spec":{"rules":[{"name":"batch","route":{"exlude":[],"select":[{"minimize":"PredictedTTFT"}]}}]}}`
	r.must("", "patch", "-n", ns, "inferencepolicy", "batch-leaves-room", "--type=merge", "-p", patch)
	waitFor(r.T, "the status", func() bool { return strings.Contains(row("inferencepolicy"), "False      LastGoodVersionInForce") })
	require.Equal(r, version, p.Set().Version())
	require.ErrorContains(r, p.Status().Errs["inference/batch-leaves-room"], `did you mean "exclude"?`)
	r.Log("\n" + row("inferencepolicies,inferenceproviders,gatewaybackends"))
	_, err = open(false)
	var check *policy.CheckError
	require.ErrorAs(r, err, &check, "there is no version that was good before")

	r.must("", "patch", "-n", ns, "inferencepolicy", "batch-leaves-room", "--type=merge", "-p", strings.ReplaceAll(patch, `"exlude":[],`, ""))
	waitFor(r.T, "the new version", func() bool { return p.Set().Version() != version && len(p.Status().Errs) == 0 })
	waitFor(r.T, "the status", func() bool { return strings.Contains(row("inferencepolicy"), "True       Accepted") })
	r.must("", "delete", "-n", ns, "-f", manifests+"resources.yaml")
	waitFor(r.T, "that there is none", func() bool { return p.Status().Err != nil })
	require.ErrorIs(r, p.Status().Err, kubernetes.ErrNoPolicy)
}

func (r *rig) testThousand() {
	begun := time.Now()
	for i := range 1000 {
		r.create(newPod(fmt.Sprintf("p%04d", i), "", fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)))
	}
	r.Log("made in ", time.Since(begun))
	begun = time.Now()
	f, err := fleet.New(fleet.Options{Discoverer: r.pods(r.config), ScrapeInterval: -1, ProbeInterval: time.Hour})
	require.NoError(r, err)
	defer f.Close()
	waitFor(r.T, "all", func() bool { return len(f.Snapshot().Members()) == 1000 })
	r.Log("known in ", time.Since(begun))
	zero := int64(0)
	require.NoError(r, r.admin.CoreV1().Pods(ns).DeleteCollection(r.ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{}))
	waitFor(r.T, "none", func() bool { return len(f.Snapshot().Members()) == 0 })
	require.NoError(r, f.Err())
}
