package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const source = `syntax = "proto3";
package p.v1;
option go_package = "example.com/p";
// Said of M.
message M { repeated fixed64 keys = 1; }
`

func TestGenerates(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "m.proto")
	require.NoError(t, os.WriteFile(in, []byte(source), 0o600))
	require.NoError(t, run(t.Context(), []string{"-name", "p/v1/m.proto", in, dir}))
	code, err := os.ReadFile(filepath.Join(dir, "m.pb.go"))
	require.NoError(t, err)
	require.Contains(t, string(code), "// Said of M.\ntype M struct {")
	require.Contains(t, string(code), "// source: p/v1/m.proto")
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "m.proto")
	require.NoError(t, os.WriteFile(in, []byte("message M {"), 0o600))
	require.ErrorContains(t, run(t.Context(), []string{"-name", "p/v1/m.proto", in, dir}), "syntax error")
	require.ErrorContains(t, run(t.Context(), []string{in, dir}), "usage")
	require.Error(t, run(t.Context(), []string{"-name", "x", filepath.Join(dir, "none"), dir}))
	require.Error(t, run(t.Context(), []string{"-unknown"}))
}
