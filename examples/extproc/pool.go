package main

import (
	"fmt"
	"strings"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kvsteer/kvsteer/fleet"
	fleetfile "github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

// discoverer follows a file, or the pods of an InferencePool of the cluster that we run in.
func (c *config) discoverer(cluster func() (*rest.Config, error)) (fleet.Discoverer, error) {
	if c.pool == "" {
		// Later a wrong file changes nothing and is logged; at the start it ends us.
		if _, err := fleetfile.Load(c.fleet); err != nil {
			return nil, fmt.Errorf("-fleet: %w", err)
		}
		return &fleetfile.Discoverer{Path: c.fleet}, nil
	}
	namespace, name, ok := strings.Cut(c.pool, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("-pool: %q is not NAMESPACE/NAME", c.pool)
	}
	access, err := cluster()
	if err != nil {
		return nil, fmt.Errorf("-pool: it is read with the service account of a pod: %w", err)
	}
	client, err := clientset.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("-pool: %w", err)
	}
	objects, err := dynamic.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("-pool: %w", err)
	}
	return &kubernetes.Pool{Client: client, Objects: objects, Namespace: namespace, Name: name}, nil
}
