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
// finish, and how they ended is recorded.
func TestStopsInOrder(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := config{
		listen: freeAddress(t), fleet: filepath.Join(dir, "fleet.yaml"), policy: "kvsteer",
		record: filepath.Join(dir, "decisions"), notice: 3 * time.Second, grace: time.Minute,
	}
	require.NoError(t, os.WriteFile(c.fleet, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c) }()
	require.Eventually(t, func() bool { return status(c, "/healthz") == http.StatusOK }, 30*time.Second, 5*time.Millisecond)

	engine.Faults().Hang(fleettest.HangMidStream)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	resp, err := http.Post("http://"+c.listen+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	stop()
	require.Equal(t, http.StatusServiceUnavailable, status(c, "/healthz"))
	require.Equal(t, http.StatusServiceUnavailable, status(c, "/health"))
	require.Equal(t, http.StatusOK, status(c, "/v1/models"), "not ready is not gone")
	require.Eventually(t, func() bool { return status(c, "/healthz") == 0 }, 30*time.Second, 5*time.Millisecond)
	engine.Faults().Clear()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "[DONE]")
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
	log, err := os.ReadFile(c.record)
	require.NoError(t, err)
	require.Contains(t, string(log), `"known":true`)
}

// What the flags ask for and can't be had is the error of run, at once.
func TestRefusesToStart(t *testing.T) {
	good := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(good, []byte("workers: []\n"), 0o600))
	bad := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("workers:\n  - name: w0\n    ulr: x\n"), 0o600))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cases := map[string]struct {
		c    config
		want string
	}{
		"unknown policy": {config{policy: "x"}, "-policy is neither kvsteer nor round-robin, and as a file: "},
		"no policies":    {config{policy: bad}, "there is no policy of kind InferencePolicy"},
		"no fleet file":  {config{policy: "kvsteer", fleet: filepath.Join(t.TempDir(), "none.yaml")}, "-fleet: stat "},
		"bad fleet file": {config{policy: "kvsteer", fleet: bad}, `3:5: a worker has no key "ulr"; did you mean "url"?`},
		"no model's files": {
			config{policy: "kvsteer", fleet: good, listen: "127.0.0.1:0", files: files{"m": {Dir: t.TempDir()}}}, "-files: ",
		},
		"port in use": {config{policy: "kvsteer", fleet: good, listen: taken.Addr().String()}, "-listen: listen tcp 127.0.0.1:"},
		"no log": {
			config{policy: "kvsteer", fleet: good, listen: "127.0.0.1:0", record: t.TempDir()}, "-record: record: open ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, run(t.Context(), c.c), c.want) })
	}
}

// Files that are not those of the engine's model are found out, and requests are
// served all the same.
func TestFilesOfAnotherModel(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := config{
		listen: freeAddress(t), fleet: filepath.Join(dir, "fleet.yaml"), policy: "kvsteer", queue: true,
		record: filepath.Join(dir, "decisions"), grace: time.Minute,
	}
	require.Error(t, c.files.Set("m"))
	require.NoError(t, c.files.Set("m=../../kvcache/prompt/local/testdata/models/qwen"))
	require.NoError(t, os.WriteFile(c.fleet, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c) }()
	require.Eventually(t, func() bool { return status(c, "/healthz") == http.StatusOK }, 30*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		resp, err := http.Post("http://"+c.listen+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"hi there"}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		log, err := os.ReadFile(c.record)
		require.NoError(t, err)
		return resp.StatusCode == http.StatusOK && strings.Contains(string(log), "not from local: ids differ from the engine's")
	}, 30*time.Second, 5*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
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
