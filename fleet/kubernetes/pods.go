package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/kvsteer/kvsteer/fleet"
)

// Pods are the pods that a selector chooses. Client, Selector and, unless annotations
// say it, Ports are required. It must be neither changed nor copied once it is in use;
// several Fleets may share it.
//
// A worker's name is NAMESPACE/POD, and NAMESPACE/POD:PORT if there are several ports.
type Pods struct {
	// Client reads pods: its user needs the verbs list and watch for them.
	Client clientset.Interface
	// Namespaces are looked through. None means all.
	Namespaces []string
	// Selector is of labels, as kubectl's -l takes it, for example "app=vllm".
	Selector string
	// Ports are numbers or names of container ports: an engine listens on each of them.
	Ports []string

	Options Options

	memory memory
}

var _ fleet.Discoverer = (*Pods)(nil)

// Validate reports what is missing or can't be; fleet.New asks it.
func (d *Pods) Validate() error {
	switch {
	case d.Client == nil:
		return errors.New("kubernetes: Pods.Client is nil; make one with kubernetes.NewForConfig of client-go")
	case d.Selector == "":
		return errors.New(`kubernetes: Pods.Selector is empty; choose pods by their labels, for example "app=vllm"`)
	}
	if err := checkSelector("Pods.Selector", d.Selector); err != nil {
		return err
	}
	if err := checkPorts("Pods.Ports", d.Ports); err != nil {
		return err
	}
	return d.Options.validate()
}

func checkSelector(field, selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return fmt.Errorf("kubernetes: %s: %w; write it as for kubectl get pods -l", field, err)
	}
	return nil
}

func checkPorts(field string, ports []string) error {
	for i, p := range ports {
		if strings.TrimSpace(p) == "" || strings.Contains(p, ",") {
			return fmt.Errorf("kubernetes: %s[%d] is %q; give the number or the name of one port", field, i, p)
		}
	}
	return nil
}

// Discover watches pods until ctx ends. It returns an error when the API server can't
// be read from.
func (d *Pods) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	past := d.memory.take(&d.Options)
	defer d.memory.leave(past)
	return discover(ctx, &d.Options, past.told, set, func(s *session) ([]found, bool, error) {
		pods, ready := s.pods(d.Client, d.Namespaces, d.Selector)
		if !ready {
			return nil, false, nil
		}
		var list []found
		for _, pod := range pods {
			list = append(list, s.workers(pod, &d.Options.Template, d.Ports)...)
		}
		return list, true, nil
	})
}

// pods are those of some namespaces that a selector chooses, once they are all known.
func (s *session) pods(client clientset.Interface, namespaces []string, selector string) (all []*corev1.Pod, ready bool) {
	ready = true
	for _, ns := range orAll(namespaces) {
		m := s.need("pods/"+ns+"/"+selector, func() *mirror { return s.mirror(podReader(client, ns, selector), s.onChange()) })
		if !m.synced.Load() {
			ready = false
			continue
		}
		for _, obj := range m.store.List() {
			if pod, ok := obj.(*corev1.Pod); ok {
				all = append(all, pod)
			}
		}
	}
	return all, ready
}

// orAll are the namespaces, each once, or that which stands for all.
func orAll(namespaces []string) []string {
	if len(namespaces) == 0 || slices.Contains(namespaces, metav1.NamespaceAll) {
		return []string{metav1.NamespaceAll}
	}
	out := slices.Clone(namespaces)
	slices.Sort(out)
	return slices.Compact(out)
}

func podReader(client clientset.Interface, ns, selector string) *reader {
	api := client.CoreV1().Pods(ns)
	return &reader{
		what: "pods" + inNamespace(ns), example: &corev1.Pod{}, labels: selector,
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, opts)
		},
	}
}

func inNamespace(ns string) string {
	if ns == "" {
		return " in all namespaces"
	}
	return " in namespace " + ns
}
