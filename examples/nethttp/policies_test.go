package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// cards is a policy that turns requests with personal data away, with a status.
const cards = `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: cards}
spec:
  rules:
  - name: not-here
    matches: [{tag: TAG}]
    route:
      exclude: [{name: all, drop: {}}]
      onEmpty: {action: Reject, status: STATUS, message: take the card number out}
`

// A policy file decides about what requests hold, and a change of it takes effect. The
// decision log says what was found.
func TestPolicyFile(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := config{
		Listen: freeAddress(t), Fleet: source{File: filepath.Join(dir, "fleet.yaml")}, Policy: filepath.Join(dir, "policy.yaml"),
		Record: filepath.Join(dir, "decisions"), Grace: duration(time.Minute),
	}
	says := func(tag, status string) {
		text := strings.NewReplacer("TAG", tag, "STATUS", status).Replace(cards)
		require.NoError(t, os.WriteFile(c.Policy, []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(c.Fleet.File, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	says("pii-detcted", "451")
	require.ErrorContains(t, run(t.Context(), &c), `did you mean "pii-detected"?`)

	says("pii-detected", "451")
	stop, ended := start(t, &c)
	require.Equal(t, http.StatusOK, asked(t, c, "hi there"))
	require.Equal(t, http.StatusUnavailableForLegalReasons, asked(t, c, "charge 4111 1111 1111 1111, please"))
	says("pii-detected", "403")
	require.Eventually(t, func() bool { return asked(t, c, "and 4111 1111 1111 1111") == http.StatusForbidden },
		30*time.Second, 50*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
	log, err := os.ReadFile(c.Record)
	require.NoError(t, err)
	require.Contains(t, string(log), `"name":"pii-detected","state":"absent"`)
	require.NotContains(t, string(log), "1111 1111")
}

// asked is the status of a chat that says text.
func asked(t *testing.T, c config, text string) int {
	t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`
	resp, err := http.Post("http://"+c.Listen+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}
