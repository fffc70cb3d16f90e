//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// hangingStreams begins streams that stop in the middle.
func (r *rig) hangingStreams(n int) (streams []io.ReadCloser) {
	r.t.Helper()
	for _, e := range r.engines {
		e.Faults().Hang(fleettest.HangMidStream)
	}
	for i := range n {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/chat/completions",
			strings.NewReader(chat(fleettest.Text(uint64(i), 100), true, 50)))
		require.NoError(r.t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := r.client.Do(req)
		require.NoError(r.t, err)
		r.t.Cleanup(func() { _ = resp.Body.Close() })
		require.Equal(r.t, http.StatusOK, resp.StatusCode)
		_, err = resp.Body.Read(make([]byte, 10))
		require.NoError(r.t, err)
		streams = append(streams, resp.Body)
	}
	return streams
}

// tookOver waits until the second Envoy serves.
func (r *rig) tookOver(client *http.Client) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		resp, err := client.Get(r.envoy.admin + "/server_info")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(text), `"restart_epoch": 1`) && strings.Contains(string(text), `"state": "LIVE"`)
	}, wait, tick, "the new one has taken over")
}

// Envoy restarts hot: a new process takes the listener over while the old one serves the
// streams that it has to their end. The picker has both, and in the end nothing in flight.
func TestEnvoyRestartsHot(t *testing.T) {
	id := filepath.Join(t.TempDir(), "base-id")
	// The old one stays for far longer than the streams below need.
	times := []string{"--drain-time-s", "1", "--parent-shutdown-time-s", "45"}
	r := newRig(t, rigConfig{bare: true, engine: func(_ int, c *fleettest.Config) { c.OutputTokens = 50 }})
	r.startEnvoy(rigConfig{args: append([]string{"--use-dynamic-base-id", "--base-id-path", id, "--restart-epoch", "0"}, times...)})
	base, err := os.ReadFile(id)
	require.NoError(t, err)

	streams := r.hangingStreams(10)
	require.Equal(t, 10, r.router.InFlight())

	old := r.envoy
	r.envoy = runEnvoy(t, old.yaml, old.admin, append([]string{"--base-id", strings.TrimSpace(string(base)), "--restart-epoch", "1"}, times...)...)
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // connections of its own
	r.tookOver(fresh)
	resp, err := fresh.Get(r.url + "/v1/models")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, 10, r.router.InFlight(), "the streams live")

	for _, e := range r.engines {
		e.Faults().Clear()
	}
	for _, from := range streams {
		rest, err := io.ReadAll(from)
		require.NoError(t, err)
		require.Contains(t, string(rest), "[DONE]")
	}
	r.idle()
	old.kill()
	r.client.CloseIdleConnections()
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chat("after", false, 5)).status)
	r.idle()
	for _, m := range r.fleet.Snapshot().Members() {
		require.True(t, m.Routable())
	}
}

// Streams that outlast the old Envoy are cut off, and released.
func TestAHotRestartThatCutsStreamsOff(t *testing.T) {
	id := filepath.Join(t.TempDir(), "base-id")
	times := []string{"--drain-time-s", "1", "--parent-shutdown-time-s", "2"}
	r := newRig(t, rigConfig{bare: true, engine: func(_ int, c *fleettest.Config) { c.OutputTokens = 50 }})
	r.startEnvoy(rigConfig{args: append([]string{"--use-dynamic-base-id", "--base-id-path", id, "--restart-epoch", "0"}, times...)})
	base, err := os.ReadFile(id)
	require.NoError(t, err)
	streams := r.hangingStreams(10)
	old := r.envoy
	r.envoy = runEnvoy(t, old.yaml, old.admin, append([]string{"--base-id", strings.TrimSpace(string(base)), "--restart-epoch", "1"}, times...)...)
	<-old.done
	for _, from := range streams {
		_, err := io.ReadAll(from)
		require.Error(t, err)
	}
	r.idle()
	for _, e := range r.engines {
		e.Faults().Clear()
	}
	for _, m := range r.fleet.Snapshot().Members() {
		require.True(t, m.Routable(), "it was none's fault")
	}
	r.tookOver(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chat("after", false, 5)).status)
	r.idle()
}
