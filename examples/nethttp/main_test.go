package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// At the end readiness fails first, while requests are still served; streams
// finish, and how they ended is recorded.
func TestStopsInOrder(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			// A machine that pauses for longer than the notice needs a longer one.
			for notice := 3 * time.Second; !stopsInOrder(t, secure, notice); notice *= 2 {
				require.Less(t, notice, time.Minute)
			}
		})
	}
}

// stopsInOrder reports false if the notice was over before it was looked at.
func stopsInOrder(t *testing.T, secure bool, notice time.Duration) bool {
	t.Helper()
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := config{
		Listen: freeAddress(t), Fleet: source{File: filepath.Join(dir, "fleet.yaml")}, Policy: "kvsteer",
		Record: filepath.Join(dir, "decisions"), Notice: duration(notice), Grace: duration(5 * time.Minute),
	}
	if secure {
		c.TLS = newCertificate(t, dir, 1)
	}
	require.NoError(t, os.WriteFile(c.Fleet.File, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	stop, ended := start(t, &c)

	engine.Faults().Hang(fleettest.HangMidStream)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	resp, err := client(c).Post(address(c)+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, secure, resp.TLS != nil)
	stop()
	codes := []int{status(c, "/healthz"), status(c, "/health"), status(c, "/v1/models")}
	require.Eventually(t, func() bool { return status(c, "/healthz") == 0 }, 2*notice+30*time.Second, 5*time.Millisecond)
	engine.Faults().Clear()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "[DONE]")
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
	log, err := os.ReadFile(c.Record)
	require.NoError(t, err)
	require.Contains(t, string(log), `"known":true`)
	if slices.Contains(codes, 0) {
		return false
	}
	require.Equal(t, []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusOK}, codes, "not ready is not gone")
	return true
}

// start runs a gateway, and returns when it is ready. Its addresses were free a moment ago:
// if somebody else was faster it gets others.
func start(t *testing.T, c *config) (stop context.CancelFunc, ended chan error) {
	t.Helper()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		own := *c
		go func() { done <- run(ctx, &own) }()
		require.Eventually(t, func() bool { return len(done) > 0 || status(*c, "/healthz") == http.StatusOK }, 30*time.Second, 5*time.Millisecond)
		if len(done) == 0 {
			return cancel, done
		}
		cancel()
		require.ErrorContains(t, <-done, "address already in use")
		c.Listen = freeAddress(t)
		if c.Ops != "" {
			c.Ops = freeAddress(t)
		}
	}
	require.Fail(t, "no address is free")
	return nil, nil
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
		"unknown policy": {config{Policy: "x"}, "-policy is neither kvsteer, round-robin nor least-requests, and as a file: "},
		"no policies":    {config{Policy: bad}, "there is no policy of kind InferencePolicy"},
		"no fleet file":  {config{Policy: "kvsteer", Fleet: source{File: filepath.Join(t.TempDir(), "none.yaml")}}, "-fleet: stat "},
		"bad fleet file": {config{Policy: "kvsteer", Fleet: source{File: bad}}, `3:5: a worker has no key "ulr"; did you mean "url"?`},
		"no model's files": {
			config{Policy: "kvsteer", Fleet: source{File: good}, Listen: "127.0.0.1:0", Files: files{"m": {Dir: t.TempDir()}}}, "-files: ",
		},
		"port in use": {config{Policy: "kvsteer", Fleet: source{File: good}, Listen: taken.Addr().String()}, "-listen: listen tcp 127.0.0.1:"},
		"no log": {
			config{Policy: "kvsteer", Fleet: source{File: good}, Listen: "127.0.0.1:0", Record: t.TempDir()}, "-record: record: open ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, run(t.Context(), &c.c), c.want) })
	}
}

// Files that are not those of the engine's model are found out, and requests are
// served all the same.
func TestFilesOfAnotherModel(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := config{
		Listen: freeAddress(t), Fleet: source{File: filepath.Join(dir, "fleet.yaml")}, Policy: "kvsteer", Queue: true,
		Record: filepath.Join(dir, "decisions"), Grace: duration(time.Minute),
	}
	require.Error(t, c.Files.Set("m"))
	require.NoError(t, c.Files.Set("m=../../kvcache/prompt/local/testdata/models/qwen"))
	require.NoError(t, os.WriteFile(c.Fleet.File, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	stop, ended := start(t, &c)
	require.Eventually(t, func() bool {
		resp, err := http.Post("http://"+c.Listen+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"hi there"}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		log, err := os.ReadFile(c.Record)
		require.NoError(t, err)
		return resp.StatusCode == http.StatusOK && strings.Contains(string(log), "not from local: ids differ from the engine's")
	}, 30*time.Second, 5*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
}

// address is the gateway's, and client one that trusts it. It keeps no connections.
func address(c config) string {
	if c.TLS.Cert != "" {
		return "https://" + c.Listen
	}
	return "http://" + c.Listen
}

func client(c config) *http.Client {
	t := &http.Transport{DisableKeepAlives: true}
	if pem, err := os.ReadFile(c.TLS.Cert); err == nil {
		t.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	return &http.Client{Transport: t}
}

// status is 0 when nobody listens.
func status(c config, path string) int {
	resp, err := client(c).Get(address(c) + path)
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
