package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

// The workers of a cluster are those of a pool, which is named in full.
func TestPool(t *testing.T) {
	at := func() (*rest.Config, error) { return &rest.Config{Host: "http://127.0.0.1:1"}, nil }
	d, err := (&config{pool: "inference/vllm"}).discoverer(at)
	require.NoError(t, err)
	pool, ok := d.(*kubernetes.Pool)
	require.True(t, ok)
	require.NoError(t, pool.Validate())
	require.Equal(t, []string{"inference", "vllm"}, []string{pool.Namespace, pool.Name})
	for _, wrong := range []string{"vllm", "/vllm", "inference/"} {
		_, err = (&config{pool: wrong}).discoverer(at)
		require.ErrorContains(t, err, "is not NAMESPACE/NAME")
	}
	_, err = (&config{pool: "inference/vllm"}).discoverer(rest.InClusterConfig)
	require.ErrorContains(t, err, "it is read with the service account of a pod")
}
