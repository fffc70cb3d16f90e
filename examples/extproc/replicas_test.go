package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/redistest"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// patience is for whatever a busy machine has to do.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patience, 5*time.Millisecond, what)
}

// replica is another gateway over the same workers, which hears of the picker on a real
// Redis, and leaves a snapshot.
func replica(t *testing.T, engine *fleettest.Engine, address string) *kvsteer.Router {
	t.Helper()
	o, err := redis.ParseAddress(address)
	require.NoError(t, err)
	client := goredis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	exchange, err := redis.NewExchange(client, redis.ExchangeOptions{Channel: "chat:replicas"})
	require.NoError(t, err)
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(engine.Worker())})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, workers.Close()) })
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithEvents(&zmtp.Transport{}),
		kvsteer.WithReplicas(exchange, kvsteer.ReplicaOptions{Name: "other"}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, router.Close()) })
	eventually(t, "workers", func() bool { return workers.Snapshot().Routable() == 1 })
	return router
}

func known(r *kvsteer.Router) int {
	s := r.Stats().Index
	return s.Pairs - s.Provisional
}

// A picker and another gateway know of each other; what that has left in a file the picker
// begins with, and leaves there at its end.
func TestReplicasAndSnapshot(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000, ZMQ: true})
	dir, address := t.TempDir(), redistest.Start(t)
	list, err := json.Marshal(map[string][]fleet.Worker{"workers": {engine.Worker()}})
	require.NoError(t, err)
	c := config{
		listen: "127.0.0.1:0", fleet: filepath.Join(dir, "fleet.yaml"), endpoints: 1, grace: time.Minute,
		redis: address, redisName: "chat", snapshot: filepath.Join(dir, "caches"),
	}
	require.NoError(t, os.WriteFile(c.fleet, list, 0o600))
	other := replica(t, engine, address)
	through := &http.Client{Transport: kvsteer.NewTransport(other, kvsteer.TransportOptions{})}
	resp, err := through.Post("http://gateway/v1/chat/completions", "application/json", strings.NewReader(
		`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"`+strings.Repeat("What is a replica? ", 50)+`"}]}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	through.CloseIdleConnections()
	eventually(t, "events have told of the prompt", func() bool { return known(other) > 0 })
	require.NoError(t, other.SaveSnapshot(c.snapshot))
	require.NoError(t, engine.Kill(), "nobody can tell but the file")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c) }()
	host, err := os.Hostname()
	require.NoError(t, err)
	eventually(t, "it is a replica", func() bool {
		peers := other.Stats().Replicas.Peers
		return len(ended) > 0 || len(peers) == 1 && peers[0].Name == host
	})
	require.NoError(t, os.Remove(c.snapshot)) // it has read it
	stop()
	require.NoError(t, <-ended)
	eventually(t, "it said good-bye", func() bool { return len(other.Stats().Replicas.Peers) == 0 })

	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(engine.Worker())})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	successor, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithEvents(&zmtp.Transport{}), kvsteer.WithSnapshot(kvsteer.SnapshotFile(c.snapshot)))
	require.NoError(t, err)
	defer func() { require.NoError(t, successor.Close()) }()
	eventually(t, "the picker's snapshot has it", func() bool { return known(successor) > 0 })
}

// What is wrong is said at the start, and a password is not repeated.
func TestWrongRedisAndSnapshot(t *testing.T) {
	c := config{fleet: "fleet.yaml", listen: "127.0.0.1:0", redis: "redis://:hunter2@redis:six"}
	err := run(t.Context(), c)
	require.ErrorContains(t, err, "-redis: ")
	require.NotContains(t, err.Error(), "hunter2")
	c.redis, c.snapshot = "", filepath.Join(t.TempDir(), "none", "caches")
	require.ErrorContains(t, run(t.Context(), c), "-snapshot: ")
}
