package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/providers/file"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// A model that no engine has is served by a provider, translated, as the policy says; what
// happened is in the metrics and on the console.
func TestProvidersAndOps(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	service := providertest.New(t, providertest.Anthropic, providertest.Options{Key: "secret-key"})
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("key", "secret-key\n")
	c := defaults()
	c.Listen, c.Ops, c.Notice = freeAddress(t), freeAddress(t), 0
	c.Fleet.File = write("fleet.yaml", "workers:\n  - name: w0\n    url: "+engine.URL()+"\n")
	c.Policy = write("policy.yaml", `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: p}
spec:
  rules:
  - name: anybody
    route: {select: [{type: Local, minimize: PredictedTTFT}, {type: Provider, minimize: PredictedTTFT}]}
`)
	c.Outside = write("providers.yaml", `
apiVersion: kvsteer.dev/v1alpha1
kind: InferenceProvider
metadata: {name: elsewhere}
spec:
  kind: Anthropic
  url: `+service.URL()+`
  credentials: {file: key}
  models: [{name: big, upstreamName: claude-big}]
`)
	stop, ended := start(t, &c)
	body := `{"model":"big","messages":[{"role":"user","content":"hi"}]}`
	resp, err := client(c).Post(address(c)+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	require.Contains(t, string(text), `"chat.completion"`)
	require.Equal(t, "claude-big", service.Last().Model)

	ops := func(path string) string {
		resp, err := http.Get("http://" + c.Ops + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.NotContains(t, string(text), "secret-key")
		return string(text)
	}
	require.Contains(t, ops("/metrics"), `kvsteer_provider_decisions_total{provider="elsewhere"} 1`)
	require.Contains(t, ops("/"), "<html")
	stop()
	require.NoError(t, <-ended)
}

// Providers that the policy never uses are a mistake.
func TestProvidersWithoutAPolicy(t *testing.T) {
	c := defaults()
	c.Outside = "providers.yaml"
	require.ErrorContains(t, run(t.Context(), &c), "never uses them")
}

// The example file is one, and its provider is that of the example policy.
func TestExampleProviders(t *testing.T) {
	list, err := file.Read("providers.yaml", file.Options{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "northcloud", list[0].Name)
	text, err := os.ReadFile(filepath.Join("..", "policies", "burst-when-queued.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "order: [northcloud")
}
