package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestItStartsBecomesReadyAndStops(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "gpu-0"})
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workers:\n  - {name: gpu-0, url: "+engine.URL()+"}\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 20 {
		addr := freeAddress(t)
		done := make(chan error, 1)
		go func() {
			done <- run(ctx, config{
				listen: addr, fleet: file, endpoints: 1, notice: time.Millisecond, grace: time.Minute,
				policy: "../policies/private-stays-here.yaml", // which asks for tags
			})
		}()
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "readiness"})
			return len(done) > 0 || err == nil && resp.GetStatus() == healthv1.HealthCheckResponse_SERVING
		}, 30*time.Second, 10*time.Millisecond)
		require.NoError(t, conn.Close())
		if len(done) == 0 {
			cancel()
			require.NoError(t, <-done)
			return
		}
		require.ErrorContains(t, <-done, "address already in use", "somebody else was faster")
	}
	require.Fail(t, "no address is free")
}

// freeAddress is one that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestMistakesAreNamed(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), config{fleet: "none.yaml"}), "-fleet")
	require.ErrorContains(t, run(t.Context(), config{fleet: "fleet.yaml", listen: "nowhere"}), "-listen")
	require.ErrorContains(t, run(t.Context(), config{fleet: "fleet.yaml", listen: "127.0.0.1:0", policy: "none.yaml"}), "-policy")
	// A tag that nobody produces would never be there, or always.
	text, err := os.ReadFile("../policies/private-stays-here.yaml")
	require.NoError(t, err)
	unheard := filepath.Join(t.TempDir(), "unheard.yaml")
	require.NoError(t, os.WriteFile(unheard, bytes.ReplaceAll(text, []byte("pii-detected"), []byte("unheard-of")), 0o600))
	require.ErrorContains(t, run(t.Context(), config{fleet: "fleet.yaml", listen: "127.0.0.1:0", policy: unheard}), "unheard-of")
}
