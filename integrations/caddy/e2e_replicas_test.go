//go:build e2e

package kvsteercaddy

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/redistest"
)

// Two real Caddys in front of the same engines know of each other's requests through a real
// Redis, and one that ends by SIGTERM leaves its snapshot.
func TestE2EReplicas(t *testing.T) {
	address := redistest.Start(t)
	one, two := startCaddy(t, "60s"), startCaddy(t, "60s")
	for _, list := range []string{"fast.json", "slow.json"} { // two has engines of its own no more
		text, err := os.ReadFile(filepath.Join(one.dir, list))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(two.dir, list), text, 0o600))
	}
	const options = "\n snapshot DIR/SITE.caches"
	one.reload("redis " + address + " {\n channel SITE\n name one\n}" + options)
	two.reload("redis " + address + " {\n channel SITE\n name two\n}" + options)
	elsewhere := func(p *process, want int) {
		t.Helper()
		require.Eventually(t, func() bool {
			n := 0
			for _, r := range p.status() {
				if r.State != serving || r.Replicas == nil {
					continue // of the configuration before
				}
				if !r.Replicas.Up || len(r.Replicas.Peers) != 1 {
					return false
				}
				for _, w := range r.Workers {
					n += w.Elsewhere
				}
			}
			return n == want
		}, beats, 10*moment, "%d requests of the other", want)
	}
	elsewhere(one, 0)
	elsewhere(two, 0)
	for _, e := range one.slow.engines {
		e.Faults().Hang(fleettest.HangMidStream)
	}
	resp, err := one.begin(t.Context(), one.slow, chatPath, chat("hi", true))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	from := bufio.NewReader(resp.Body)
	_, err = from.ReadString('\n')
	require.NoError(t, err)
	elsewhere(two, 1)
	elsewhere(one, 0)
	for _, e := range one.slow.engines {
		e.Faults().Clear()
	}
	_, err = from.WriteTo(&syncBuffer{})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	elsewhere(two, 0)

	require.Contains(t, two.ask("/kvsteer/snapshot"), "several fleets")
	require.NotEmpty(t, two.ask("/kvsteer/snapshot?fleet="+two.slow.fleet))
	one.terminate()
	require.NoError(t, <-one.ended)
	for _, site := range []string{"fast", "slow"} {
		require.FileExists(t, filepath.Join(one.dir, site+".caches"))
	}
	require.Eventually(t, func() bool {
		for _, r := range two.status() {
			if r.State == serving && (r.Replicas == nil || len(r.Replicas.Peers) > 0) {
				return false
			}
		}
		return true
	}, beats, 10*moment, "it said good-bye")
}
