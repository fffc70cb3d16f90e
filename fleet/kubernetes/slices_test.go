package kubernetes_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

func newSlice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	port, portName := int32(8000), "http"
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: ns, Labels: map[string]string{discoveryv1.LabelServiceName: "vllm"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}}, Endpoints: endpoints,
	}
}

func newEndpoint(pod, uid, ip string, ready, terminating bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Terminating: &terminating},
	}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod, UID: types.UID(uid)}
	}
	return e
}

func TestEndpointSlices(t *testing.T) {
	s := newAPIServer(t)
	c, _ := s.clients(t)
	r := start(t, &kubernetes.EndpointSlices{Client: c, Namespaces: []string{ns}, Service: "vllm", Ports: []string{"http"}})
	r.wants(t)
	s.put("endpointslices", newSlice("s1", newEndpoint("a", "u1", "10.0.0.1", true, false), newEndpoint("b", "u2", "10.0.0.2", false, false)))
	s.put("endpointslices", newSlice("s2", newEndpoint("", "", "10.0.0.3", true, false)))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000", "inference/vllm/10.0.0.3@10.0.0.3.0=http://10.0.0.3:8000")

	// Terminating though ready; one that was not ready comes back as another instance,
	// however fast that was; an address that is left out and comes back too.
	s.mu.Lock()
	for _, slice := range []*discoveryv1.EndpointSlice{
		newSlice("s1", newEndpoint("a", "u1", "10.0.0.1", false, false)),
		newSlice("s1", newEndpoint("a", "u1", "10.0.0.1", true, false), newEndpoint("b", "u2", "10.0.0.2", true, true)),
		newSlice("s2"),
		newSlice("s2", newEndpoint("", "", "10.0.0.3", true, false)),
	} {
		s.mu.Unlock()
		s.put("endpointslices", slice)
		s.mu.Lock()
	}
	s.mu.Unlock()
	r.wants(t, "inference/a@u1.1=http://10.0.0.1:8000", "inference/b@u2.1=http://10.0.0.2:8000!",
		"inference/vllm/10.0.0.3@10.0.0.3.1=http://10.0.0.3:8000")

	// An endpoint is moved to another slice: for a moment it is in both.
	s.put("endpointslices", newSlice("s3", newEndpoint("a", "u1", "10.0.0.1", true, true)))
	r.wants(t, "inference/a@u1.1=http://10.0.0.1:8000!", "inference/b@u2.1=http://10.0.0.2:8000!",
		"inference/vllm/10.0.0.3@10.0.0.3.1=http://10.0.0.3:8000")
	s.remove("endpointslices", ns, "s1")
	s.remove("endpointslices", ns, "s2")
	r.wants(t, "inference/a@u1.1=http://10.0.0.1:8000!")
	s.remove("endpointslices", ns, "s3")
	r.wants(t)
	require.Empty(t, r.errors())
}

func TestEndpointSlicesThatCantBeUsedAreReported(t *testing.T) {
	s := newAPIServer(t)
	c, _ := s.clients(t)
	problems := make(chan error, 10)
	d := &kubernetes.EndpointSlices{Client: c, Namespaces: []string{ns}, Service: "vllm", Ports: []string{"metrics"}}
	d.Options.OnProblem = func(err error) { problems <- err }
	s.put("endpointslices", newSlice("s1", newEndpoint("a", "u1", "10.0.0.1", true, false)))
	start(t, d).wants(t)
	require.ErrorContains(t, <-problems, "no TCP port metrics")
}

// Slices come in no order: of both families of an endpoint it is always the same, and
// of two endpoints that claim one name too.
func TestOfTwoSlicesItIsAlwaysTheSame(t *testing.T) {
	s := newAPIServer(t)
	c, _ := s.clients(t)
	problems := make(chan error, 100)
	d := &kubernetes.EndpointSlices{Client: c, Service: "vllm"}
	d.Options.OnProblem = func(err error) { problems <- err }
	v6 := newSlice("a-v6", newEndpoint("a", "u1", "fd00::1", true, false))
	v6.AddressType = discoveryv1.AddressTypeIPv6
	s.put("endpointslices", v6)
	s.put("endpointslices", newSlice("b-v4", newEndpoint("a", "u1", "10.0.0.1", true, false)))
	s.put("endpointslices", newSlice("c", newEndpoint("c", "u3", "10.0.0.3", true, false)))
	s.put("endpointslices", newSlice("d", newEndpoint("c", "u4", "10.0.0.2", true, false)))
	// An old one that drains makes room for that which takes its place.
	s.put("endpointslices", newSlice("e", newEndpoint("e", "u5", "10.0.0.5", true, true)))
	s.put("endpointslices", newSlice("f", newEndpoint("e", "u6", "10.0.0.6", true, false)))
	r := start(t, d)
	for i := range 30 {
		want := []string{"inference/a@u1.0=http://10.0.0.1:8000", "inference/c@u3.0=http://10.0.0.3:8000", "inference/e@u6.0=http://10.0.0.6:8000"}
		if i > 0 {
			ip := fmt.Sprint("10.0.1.", i)
			s.put("endpointslices", newSlice("x", newEndpoint("x", ip, ip, true, false)))
			want = append(want, "inference/x@"+ip+".0=http://"+ip+":8000")
		}
		r.wants(t, want...)
	}
	for _, list := range r.all() {
		require.Equal(t, "http://10.0.0.1:8000", list[0].URL)
		require.Equal(t, "http://10.0.0.3:8000", list[1].URL)
	}
	require.Len(t, problems, 1, "two that claim one name are a problem, once")
	require.ErrorContains(t, <-problems, "EndpointSlice inference/d")
}
