package kubernetes_test

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

func ExamplePods() {
	config, err := rest.InClusterConfig()
	if err != nil {
		return // not in a pod
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return
	}
	workers, err := fleet.New(fleet.Options{Discoverer: &kubernetes.Pods{
		Client: client, Namespaces: []string{"inference"}, Selector: "app=vllm", Ports: []string{"http"},
		Options: kubernetes.Options{Template: kubernetes.Template{EventsPort: 5557, ReplayPort: 5657}},
	}})
	if err != nil {
		return
	}
	defer workers.Close() //nolint:errcheck // always nil
}

func ExampleEndpointSlices() {
	var client clientset.Interface
	_ = fleet.Options{Discoverer: &kubernetes.EndpointSlices{
		Client: client, Namespaces: []string{"inference"}, Service: "vllm", Ports: []string{"http"},
	}}
}

func ExamplePool() {
	var client clientset.Interface
	var objects dynamic.Interface
	_ = fleet.Options{Discoverer: &kubernetes.Pool{Client: client, Objects: objects, Namespace: "inference", Name: "vllm"}}
}

func ExampleWorkerSets() {
	var client clientset.Interface
	var objects dynamic.Interface
	_ = fleet.Options{Discoverer: &kubernetes.WorkerSets{Client: client, Objects: objects, Namespaces: []string{"inference"}}}
}

func ExampleOpenPolicies() {
	var objects dynamic.Interface // of dynamic.NewForConfig
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	policies, err := kubernetes.OpenPolicies(ctx, kubernetes.PolicyOptions{Client: objects, Namespaces: []string{"inference"}})
	if err != nil {
		return
	}
	defer policies.Close() //nolint:errcheck // always nil
	// router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithPolicy(policies))
}
