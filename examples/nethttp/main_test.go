package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// At the end readiness fails first, while requests are still served; streams
// finish, and their outcomes are written.
func TestStopsInOrder(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := config{
		listen: freeAddress(t), fleet: filepath.Join(dir, "fleet.yaml"), policy: "kvsteer",
		outcomes: filepath.Join(dir, "outcomes"), notice: 300 * time.Millisecond, grace: 10 * time.Second,
	}
	require.NoError(t, os.WriteFile(c.fleet, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c) }()
	require.Eventually(t, func() bool { return status(c, "/healthz") == http.StatusOK }, 10*time.Second, 5*time.Millisecond)

	engine.Faults().Hang(fleettest.HangMidStream)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	resp, err := http.Post("http://"+c.listen+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	stop()
	require.Equal(t, http.StatusServiceUnavailable, status(c, "/healthz"))
	require.Equal(t, http.StatusOK, status(c, "/v1/models"), "not ready is not gone")
	require.Eventually(t, func() bool { return status(c, "/healthz") == 0 }, 10*time.Second, 5*time.Millisecond)
	engine.Faults().Clear()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "[DONE]")
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
	outcomes, err := os.ReadFile(c.outcomes)
	require.NoError(t, err)
	require.Contains(t, string(outcomes), `"known":true`)
}

func TestAnUnknownPolicyIsRefused(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), config{policy: "x"}), "want kvsteer or round-robin")
}

// status is 0 when nobody listens.
func status(c config, path string) int {
	resp, err := http.Get(fmt.Sprintf("http://%s%s", c.listen, path))
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
