package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Resource is how the API server calls a kind of custom resources.
func Resource(gv schema.GroupVersion, kind string) schema.GroupVersionResource {
	plural := strings.ToLower(kind) + "s"
	if kind == KindPolicy {
		plural = "inferencepolicies"
	}
	return gv.WithResource(plural)
}

// objectReader reads custom resources of one kind.
func objectReader(client dynamic.Interface, resource schema.GroupVersionResource, kind, ns, name, selector string) *reader {
	api := client.Resource(resource).Namespace(ns)
	r := &reader{
		what: resource.GroupResource().String() + inNamespace(ns), example: &unstructured.Unstructured{}, kind: kind, labels: selector,
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, opts)
		},
	}
	if name != "" {
		r.fields = "metadata.name=" + name
	}
	return r
}

// decode reads an object's spec into a Go value. Keys that are not known are errors if
// it is one of ours.
func decode(u *unstructured.Unstructured, into any) error {
	spec, ok, err := unstructured.NestedMap(u.Object, "spec")
	if err != nil || !ok {
		return errors.New("there is no spec; add it")
	}
	strict := u.GroupVersionKind().Group == GroupVersion.Group
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, into, strict); err != nil {
		return fmt.Errorf("%s; correct it", strings.TrimPrefix(err.Error(), "strict decoding error: "))
	}
	return nil
}

// query is a selector as the API server takes it, or what is wrong: the schemas let
// labels pass that the server refuses to look for.
func (s *Selector) query() (text, problem string) {
	if len(s.MatchLabels) == 0 {
		return "", "it chooses no pods; give matchLabels"
	}
	selector, err := labels.ValidatedSelectorFromSet(s.MatchLabels)
	if err != nil {
		return "", err.Error() + "; correct matchLabels"
	}
	return selector.String(), ""
}
