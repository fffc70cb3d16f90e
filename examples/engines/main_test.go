package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// A router over the file that was played finds every worker in it, and its events.
func TestPlaysTheFleetFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	var stop func() error
	for stop == nil { // ports that were free may be others' by the time that they are listened at
		stop = played(t, path)
	}
	workers, err := fleet.New(fleet.Options{Discoverer: &file.Discoverer{Path: path}})
	require.NoError(t, err)
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithEvents(&zmtp.Transport{}))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return workers.Snapshot().Routable() == 2 }, 30*time.Second, 10*time.Millisecond)
	ask := func(model string) kvsteer.DecisionCandidate {
		body := []byte(`{"model":"` + model + `","prompt":"` + fleettest.Text(1, 100) + `"}`)
		sel, err := router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Body: body})
		require.NoError(t, err)
		defer sel.Done(kvsteer.Usage{})
		return *sel.Decision().Winner()
	}
	require.Equal(t, "b", ask("other").Name)
	require.Eventually(t, func() bool {
		won := ask("m")
		return won.Name == "a" && won.TrustState == kvcache.Exact.String()
	}, 30*time.Second, 10*time.Millisecond)

	require.NoError(t, router.Close())
	require.NoError(t, workers.Close())
	require.NoError(t, stop())
	http.DefaultClient.CloseIdleConnections()
}

// played plays a fleet that it writes to path. It is nil if one of the ports is taken.
func played(t *testing.T, path string) (stop func() error) {
	t.Helper()
	a, b := free(t), free(t)
	text := fmt.Sprintf(`workers:
  - {name: a, url: "http://%s", models: [m], events: [{events: "tcp://%s", replay: "tcp://%s"}]}
  - {name: b, url: "http://%s"}
`, a, free(t), free(t), b)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, path, fleettest.Config{Model: "other", Speed: 1000}) }()
	taken := false
	require.Eventually(t, func() bool {
		select {
		case err := <-ended:
			assert.ErrorContains(t, err, "in use")
			taken = true
			return true
		default:
			return answers(a) && answers(b)
		}
	}, time.Minute, 10*time.Millisecond)
	if taken {
		cancel()
		return nil
	}
	return func() error { cancel(); return <-ended }
}

func answers(address string) bool {
	resp, err := http.Get("http://" + address + "/health")
	return err == nil && resp.Body.Close() == nil
}

// What can't be played is said, by the worker's name.
func TestSaysWhatItCantPlay(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), filepath.Join(t.TempDir(), "none.yaml"), fleettest.Config{}), "none.yaml")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(path, []byte("workers: [{name: a, url: \"http://"+taken.Addr().String()+"\"}]\n"), 0o600))
	require.ErrorContains(t, run(t.Context(), path, fleettest.Config{}), "worker a: listen tcp")
	for want, worker := range map[string]string{
		"2 models can't be played":                 `url: "http://127.0.0.1:1", models: [m, n]`,
		"https://127.0.0.1:1 can't be played":      `url: "https://127.0.0.1:1"`,
		"http://127.0.0.1:1/deep/ can't be played": `url: "http://127.0.0.1:1/deep/"`,
		"engine sglang can't be played":            `url: "http://127.0.0.1:1", engine: sglang`,
	} {
		require.NoError(t, os.WriteFile(path, []byte("workers: [{name: a, "+worker+"}]\n"), 0o600))
		require.ErrorContains(t, run(t.Context(), path, fleettest.Config{}), "worker a: "+want)
	}
}

// Publishers belong to the ranks that they are listed for, whatever their order.
func TestRanks(t *testing.T) {
	one, zero := follow.Endpoint{Events: "tcp://b", Rank: 1}, follow.Endpoint{Events: "tcp://a"}
	for _, list := range [][]follow.Endpoint{{one, zero}, {zero, one}, {{Events: "tcp://a"}, {Events: "tcp://b"}}} {
		for rank, want := range []string{"tcp://a", "tcp://b"} {
			at, listed := endpoint(list, rank)
			require.True(t, listed)
			require.Equal(t, want, at.Events)
		}
		_, listed := endpoint(list, 2)
		require.False(t, listed)
	}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
