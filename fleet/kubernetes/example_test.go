package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

// config is what rest.InClusterConfig returns in a pod.
func config() *rest.Config { return &rest.Config{Host: "https://cluster.example"} }

func ExamplePods() {
	pods := &kubernetes.Pods{
		Client:     clientset.NewForConfigOrDie(config()),
		Namespaces: []string{"inference"}, Selector: "app=vllm", Ports: []string{"http"},
		Options: kubernetes.Options{Template: kubernetes.Template{EventsPort: 5557, ReplayPort: 5657}},
	}
	// fleet.New(fleet.Options{Discoverer: pods}) asks the same.
	fmt.Println(pods.Validate())
	// Output: <nil>
}

func ExampleEndpointSlices() {
	endpoints := &kubernetes.EndpointSlices{
		Client:     clientset.NewForConfigOrDie(config()),
		Namespaces: []string{"inference"}, Service: "vllm", Ports: []string{"http"},
	}
	fmt.Println(endpoints.Validate())
	// Output: <nil>
}

func ExamplePool() {
	pool := &kubernetes.Pool{
		Client: clientset.NewForConfigOrDie(config()), Objects: dynamic.NewForConfigOrDie(config()),
		Namespace: "inference", Name: "vllm",
	}
	fmt.Println(pool.Validate())
	// Output: <nil>
}

func ExampleWorkerSets() {
	sets := &kubernetes.WorkerSets{
		Client: clientset.NewForConfigOrDie(config()), Objects: dynamic.NewForConfigOrDie(config()),
		Namespaces: []string{"inference"},
	}
	fmt.Println(sets.Validate())
	// Output: <nil>
}

// The policies that it returns are for kvsteer.WithPolicy.
func ExampleOpenPolicies() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := kubernetes.OpenPolicies(ctx, kubernetes.PolicyOptions{
		Client: dynamic.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"}), Namespaces: []string{"inference"},
	})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}
