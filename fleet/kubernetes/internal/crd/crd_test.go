package crd_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/kubernetes/internal/crd"
)

var update = flag.Bool("update-manifests", false, "write examples/kubernetes/crds.yaml anew")

func TestManifestsAreCurrent(t *testing.T) {
	file := filepath.Join("..", "..", "..", "..", "examples", "kubernetes", "crds.yaml")
	want, err := crd.Manifests()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, want, 0o600))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))),
		"examples/kubernetes/crds.yaml is not what the types and tables say: run go generate in fleet/kubernetes")
}
