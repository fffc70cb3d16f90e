package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// The file that comes along says what the flags' defaults say, and its paths are relative
// to it.
func TestTheExampleFile(t *testing.T) {
	c, err := parse([]string{"-config", "gateway.yaml"})
	require.NoError(t, err)
	want := defaults()
	want.Fleet.File = "fleet.yaml"
	require.Equal(t, want, c)
	text, err := os.ReadFile("gateway.yaml")
	require.NoError(t, err)
	// All that it only mentions is known, too.
	full := filepath.Join(t.TempDir(), "full.yaml")
	require.NoError(t, os.WriteFile(full, []byte(strings.ReplaceAll(string(text), "\n#- ", "\n")), 0o600))
	c, err = parse([]string{"-config", full})
	require.NoError(t, err)
	dir := filepath.Dir(full)
	require.Equal(t, filepath.Join(dir, "server.pem"), c.TLS.Cert)
	require.Equal(t, filepath.Join(dir, "keys.yaml"), c.Tenant.Keys)
	require.Equal(t, filepath.Join(dir, "models", "qwen3"), c.Files["Qwen/Qwen3-8B"].Dir)
	require.True(t, c.Queue)
}

func TestFlagsCountMore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "g.yaml")
	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:1\nfleet: {url: \"http://registry/workers\"}\ngrace: 5s\npolicy: round-robin\n"), 0o600))
	c, err := parse([]string{"-config", file, "-listen", "127.0.0.1:2", "-notice", "9s"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:2", c.Listen)
	require.Equal(t, source{URL: "http://registry/workers"}, c.Fleet)
	require.Equal(t, duration(5*time.Second), c.Grace)
	require.Equal(t, duration(9*time.Second), c.Notice)
	require.Equal(t, "round-robin", c.Policy)
	c, err = parse([]string{"-fleet", "https://registry/x", "-config", file})
	require.NoError(t, err)
	require.Equal(t, source{URL: "https://registry/x"}, c.Fleet)
	c, err = parse(nil)
	require.NoError(t, err)
	require.Equal(t, source{File: "fleet.yaml"}, c.Fleet)
	_, err = parse([]string{"fleet.yaml"})
	require.ErrorContains(t, err, `unexpected argument "fleet.yaml"`)
	_, err = parse([]string{"-polcy", "x"})
	require.ErrorContains(t, err, "-polcy")
}

// What a file says that can't be meant is an error with its place.
func TestWrongSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "g.yaml")
	for text, want := range map[string]string{
		"listen: 127.0.0.1:1\nlistn: x\n":         "line 2",
		"tls:\n  certificate: x\n":                "line 2",
		"listen: a\npolicy: kvsteer\nlisten: b\n": "line 3",
		"\n\ngrace: soon\n":                       "line 3",
		"grace: -1s\n":                            "line 1",
		"queue: perhaps\n":                        "line 1",
		"fleet: {file: a, url: \"http://b\"}\n":   "give one of file and url",
		"fleet:\n  dns: x\n":                      "line 2",
		"listen: [\n":                             "L2.C1",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := parse([]string{"-config", file})
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "g.yaml", text)
	}
	_, err := parse([]string{"-config", file + "x"})
	require.ErrorContains(t, err, "-config: open ")
}

// A list of workers behind a URL, and clients by their keys.
func TestURLAndKeys(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"workers": [{"name": "w0", "url": %q}]}`, engine.URL())
	}))
	defer registry.Close()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("keys.yaml", fmt.Sprintf("keys:\n  - {id: a, tenant: acme, hash: \"sha256:%x\"}\n", sha256.Sum256([]byte("kv-secret"))))
	write("limits.yaml", "rules:\n- {name: acme, scope: tenant, requests: {amount: 1, per: 24h}}\n")
	write("g.yaml", "listen: "+freeAddress(t)+"\nfleet: {url: \""+registry.URL+"\"}\ntenancy: {keys: keys.yaml, limits: limits.yaml, refuseAnonymous: true}\n")
	c, err := parse([]string{"-config", filepath.Join(dir, "g.yaml"), "-notice", "0s"})
	require.NoError(t, err)
	stop, ended := start(t, &c)
	ask := func(key string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address(c)+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := client(c).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusUnauthorized, ask(""))
	require.Equal(t, http.StatusUnauthorized, ask("kv-other"))
	require.Equal(t, http.StatusOK, ask("kv-secret"))
	require.Equal(t, http.StatusTooManyRequests, ask("kv-secret"))
	stop()
	require.NoError(t, <-ended)

	wrong := c
	wrong.Tenant.Keys = ""
	require.ErrorContains(t, run(t.Context(), &wrong), "need a file of API keys")
	wrong = c
	wrong.Tenant.Limits = filepath.Join(dir, "keys.yaml")
	require.ErrorContains(t, run(t.Context(), &wrong), "-limits: ")
}
