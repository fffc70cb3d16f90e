package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

// source makes what the suite drives of a cluster and a Discoverer of it. Each fault costs
// some ten seconds of client-go's backoff, so that only Pods gets all of them: what reads
// from the API server is the same for all.
func source(s *apiServer, d fleet.Discoverer, set func([]fleet.Worker) error) fleettest.DiscovererSource {
	fault := func(name string) fleettest.DiscovererFault {
		return fleettest.DiscovererFault{Turn: func(on bool) error {
			if s.turn(""); on {
				s.turn(name)
			}
			return nil
		}}
	}
	faults := map[string]fleettest.DiscovererFault{"down": fault(faultDown), "kind": fault(faultKind)}
	if _, all := d.(*kubernetes.Pods); all {
		faults["silent"], faults["error"] = fault(faultSilent), fault(faultError)
		faults["garbage"], faults["denied"] = fault(faultGarbage), fault(faultDenied)
	}
	return fleettest.DiscovererSource{Discoverer: d, Set: set, Faults: faults}
}

// options are short where the API server never answers.
func options(t *testing.T) (o kubernetes.Options) {
	t.Helper()
	if strings.Contains(t.Name(), "outage") {
		o.Timeout = 2 * time.Second
	}
	return o
}

func TestPodsConform(t *testing.T) {
	conforms(t, nil, wantOfCluster, func(t *testing.T, s *apiServer) fleet.Discoverer {
		t.Helper()
		d := podsOf(t, s)
		d.Ports, d.Options = nil, options(t)
		return d
	})
}

// The pools and sets of the suite choose the pods of the others. What a pod says of itself
// comes before what they say.
func TestPoolConforms(t *testing.T) {
	text := strings.ReplaceAll(poolText, "APP", "vllm")
	conforms(t, map[string]string{"gateway-inferencepools": text}, func(workers []fleet.Worker) []fleet.Worker {
		return inPool("pool", wantOfCluster(workers))
	}, func(t *testing.T, s *apiServer) fleet.Discoverer {
		t.Helper()
		c, objects := s.clients(t)
		return &kubernetes.Pool{Client: c, Objects: objects, Namespace: ns, Name: "pool", Options: options(t)}
	})
}

func TestOwnPoolConforms(t *testing.T) {
	const text = `{kind: InferencePool, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: own}, spec: {selector: {matchLabels: {app: vllm}}}}`
	conforms(t, map[string]string{"inferencepools": text}, func(workers []fleet.Worker) []fleet.Worker {
		return inPool("own", wantOfCluster(workers))
	}, func(t *testing.T, s *apiServer) fleet.Discoverer {
		t.Helper()
		c, objects := s.clients(t)
		return &kubernetes.Pool{Client: c, Objects: objects, Namespace: ns, Name: "own", Own: true, Options: options(t)}
	})
}

func TestWorkerSetsConform(t *testing.T) {
	const text = `{kind: InferenceWorkerSet, apiVersion: kvsteer.dev/v1alpha1, metadata: {name: set}, spec: {selector: {matchLabels: {app: vllm}}}}`
	conforms(t, map[string]string{"inferenceworkersets": text}, wantOfCluster, func(t *testing.T, s *apiServer) fleet.Discoverer {
		t.Helper()
		c, objects := s.clients(t)
		return &kubernetes.WorkerSets{Client: c, Objects: objects, Namespaces: []string{ns}, Options: options(t)}
	})
}

func inPool(name string, workers []fleet.Worker) []fleet.Worker {
	for i := range workers {
		if workers[i].Pool == "" {
			workers[i].Pool = name
		}
	}
	return workers
}

// conforms runs the suite over workers that are pods, beside some objects.
func conforms(t *testing.T, objects map[string]string, want func([]fleet.Worker) []fleet.Worker,
	of func(*testing.T, *apiServer) fleet.Discoverer,
) {
	t.Helper()
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{Timeout: longest, Want: want, New: func(t *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
		t.Helper()
		s := newAPIServer(t)
		for resource, text := range objects {
			s.put(resource, object(t, 1, text))
		}
		c := cluster{s}
		if err := c.set(workers); err != nil {
			t.Fatal(err)
		}
		return source(s, of(t, s), c.set)
	}})
}

// sliced holds workers as endpoints, each in a slice of its own because it has its own
// port.
type sliced struct{ *apiServer }

func (c sliced) set(workers []fleet.Worker) error {
	slices := map[string]*discoveryv1.EndpointSlice{}
	for i := range workers {
		w := &workers[i]
		u, err := url.Parse(w.URL)
		if err != nil || u.Scheme != "http" || net.ParseIP(u.Hostname()) == nil || w.Name == "" || strings.Contains(w.Name, "\x01") || slices[w.Name] != nil {
			return fmt.Errorf("pods have a name each, and slices an address: %w", errors.ErrUnsupported)
		}
		port, err := strconv.ParseInt(u.Port(), 10, 32)
		if err != nil || port == 0 {
			return fmt.Errorf("ports are numbers: %w", errors.ErrUnsupported)
		}
		s := newSlice(w.Name, newEndpoint(w.Name, w.Epoch, u.Hostname(), true, w.Draining))
		*s.Ports[0].Port = int32(port)
		slices[w.Name] = s
	}
	c.mu.Lock()
	for key, u := range c.objects {
		if slices[u.GetName()] == nil {
			c.removeLocked(key)
		}
	}
	for _, s := range slices {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
		if err != nil {
			c.mu.Unlock()
			return err
		}
		c.putLocked("endpointslices", &unstructured.Unstructured{Object: raw})
	}
	c.mu.Unlock()
	return nil
}

// rounded hides how often an endpoint has come back: of a slice that is all there is to
// tell a restart by, and the suite's workers come back as they were.
type rounded struct{ fleet.Discoverer }

func (d rounded) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	return d.Discoverer.Discover(ctx, func(list []fleet.Worker) error {
		for i := range list {
			list[i].Epoch = list[i].Epoch[:strings.LastIndexByte(list[i].Epoch, '.')]
		}
		return set(list)
	})
}

func TestEndpointSlicesConform(t *testing.T) {
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{
		Timeout: longest,
		Want: func(workers []fleet.Worker) []fleet.Worker {
			for i, w := range workers { // what pods say of themselves is not in slices
				u, err := url.Parse(w.URL)
				if err == nil && w.Epoch == "" {
					w.Epoch = u.Hostname()
				}
				workers[i] = fleet.Worker{Name: ns + "/" + w.Name, Epoch: w.Epoch, URL: w.URL, Draining: w.Draining}
			}
			return workers
		},
		New: func(t *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
			t.Helper()
			s := newAPIServer(t)
			client, _ := s.clients(t)
			c := sliced{s}
			if err := c.set(workers); err != nil {
				t.Fatal(err)
			}
			d := &kubernetes.EndpointSlices{Client: client, Namespaces: []string{ns}, Service: "vllm", Options: options(t)}
			return source(s, rounded{d}, c.set)
		},
	})
}
