package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

// The code in docs/kubernetes.md; internal/docscheck looks for it here.
func TestPage(t *testing.T) {
	client := fake.NewClientset()
	workers, err := fleet.New(fleet.Options{Discoverer: &kubernetes.Pods{
		Client: client, Namespaces: []string{"inference"}, Selector: "app=vllm", Ports: []string{"http"},
	}})
	require.NoError(t, err)
	require.NoError(t, workers.Close())
}
