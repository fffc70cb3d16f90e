package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/redistest"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// process is a gateway that runs in this one.
type process struct {
	c     config
	stop  func()
	ended chan error
}

// startGateway returns when its metrics can be read, workers or not. Its addresses were free
// a moment ago: if somebody else was faster it gets others.
func startGateway(t *testing.T, c config) *process {
	t.Helper()
	for range 20 {
		c.Listen, c.Ops = freeAddress(t), freeAddress(t)
		ctx, stop := context.WithCancel(t.Context())
		p := &process{c: c, stop: stop, ended: make(chan error, 1)}
		own := c
		go func() { p.ended <- run(ctx, &own) }()
		eventually(t, "it runs", func() bool { return len(p.ended) > 0 || p.metric(t, "kvsteer_index_bytes") >= 0 })
		if len(p.ended) == 0 {
			return p
		}
		stop()
		require.ErrorContains(t, <-p.ended, "address already in use")
	}
	require.Fail(t, "no address is free")
	return nil
}

func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	require.NoError(t, <-p.ended)
}

// metric is the sum of a metric's series; -1 while it can't be read.
func (p *process) metric(t *testing.T, name string) (sum int) {
	t.Helper()
	resp, err := client(p.c).Get("http://" + p.c.Ops + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? ([0-9]+)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) == 0 {
		return -1
	}
	for _, f := range found {
		n, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		sum += n
	}
	return sum
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, time.Minute, 5*time.Millisecond, what)
}

// Two replicas find each other through Redis, which has their limits as well, and what one
// of them knew of caches its successor begins with.
func TestReplicas(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000, ZMQ: true})
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	list, err := json.Marshal(map[string][]fleet.Worker{"workers": {engine.Worker()}})
	require.NoError(t, err)
	c := defaults()
	c.Fleet.File = write("fleet.yaml", string(list))
	c.Tenant.Keys = write("keys.yaml", fmt.Sprintf("keys:\n  - {id: a, tenant: acme, hash: \"sha256:%x\"}\n", sha256.Sum256([]byte("kv-secret"))))
	c.Tenant.Limits = write("limits.yaml", "rules:\n- {name: acme, scope: tenant, requests: 1000000}\n")
	c.Redis = sharedConfig{URL: redistest.Start(t), Name: "chat"}
	c.Notice = 0
	var both [2]*process // each with a file of its own
	for i := range both {
		c.Snapshot = filepath.Join(dir, fmt.Sprintf("caches-%d", i))
		both[i] = startGateway(t, c)
	}
	for _, p := range both {
		eventually(t, "it knows the other", func() bool { return p.metric(t, "kvsteer_replica_peers") == 1 })
		eventually(t, "Redis is asked about limits", func() bool { return p.metric(t, "kvsteer_limit_store_up") == 1 })
		require.Positive(t, p.metric(t, "kvsteer_replica_carrier_messages_total"))
	}

	first := both[0]
	eventually(t, "an answer", func() bool { // on a busy machine Redis may be late, and requests refused
		return first.ask(t, strings.Repeat("What is a replica? ", 50)) == http.StatusOK
	})
	eventually(t, "limits are there", func() bool { return len(keysIn(t, c.Redis.URL, "{chat}*")) > 0 })
	eventually(t, "events have told of the prompt", func() bool {
		return first.metric(t, "kvsteer_index_residencies")-max(first.metric(t, "kvsteer_index_provisional_residencies"), 0) > 0
	})
	first.end(t)
	eventually(t, "it said good-bye", func() bool { return both[1].metric(t, "kvsteer_replica_peers") == 0 })
	both[1].end(t)

	// Nobody can tell the successor but the file.
	require.NoError(t, engine.Kill())
	c.Snapshot, c.Redis.URL = first.c.Snapshot, ""
	successor := startGateway(t, c)
	eventually(t, "it begins with the snapshot", func() bool { return successor.metric(t, "kvsteer_index_residencies") > 0 })
	require.Equal(t, -1, successor.metric(t, "kvsteer_replica_peers"), "no Redis, no replicas")
	require.Equal(t, -1, successor.metric(t, "kvsteer_limit_store_up"))
	successor.end(t)
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func (p *process) ask(t *testing.T, text string) int {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address(p.c)+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer kv-secret")
	resp, err := client(p.c).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func keysIn(t *testing.T, url, pattern string) []string {
	t.Helper()
	o, err := redis.ParseAddress(url)
	require.NoError(t, err)
	c := goredis.NewClient(o)
	defer c.Close()
	keys, err := c.Keys(context.WithoutCancel(t.Context()), pattern).Result()
	require.NoError(t, err)
	return keys
}

// A Redis that is away keeps no request from being answered where nobody has limits, and
// decisions say that the router is alone.
func TestRedisIsAway(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m", Speed: 1000})
	dir := t.TempDir()
	c := defaults()
	c.Listen, c.Notice = freeAddress(t), 0
	c.Fleet.File, c.Record = filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "decisions")
	require.NoError(t, os.WriteFile(c.Fleet.File, []byte("workers:\n  - name: w0\n    url: "+engine.URL()+"\n"), 0o600))
	c.Redis.URL = freeAddress(t)
	stop, ended := start(t, &c)
	require.Equal(t, http.StatusOK, (&process{c: c}).ask(t, "hi"))
	stop()
	require.NoError(t, <-ended)
	log, err := os.ReadFile(c.Record)
	require.NoError(t, err)
	require.Contains(t, string(log), "the exchange with other routers is down")
}

// What is wrong is said at the start, and a password is not repeated.
func TestWrongRedisAndSnapshot(t *testing.T) {
	for _, address := range []string{"http://:hunter2@redis:6379", "redis://:hunter2@redis:six", "redis://:hunter2@redis:6379/?db=hunter2", "a b"} {
		c := defaults()
		c.Redis.URL = address
		err := run(t.Context(), &c)
		require.ErrorContains(t, err, "-redis: ", address)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, _, err := newSnapshot(filepath.Join(t.TempDir(), "none", "caches"))
	require.ErrorContains(t, err, "-snapshot: kvsteer: no snapshot can be saved there")
}
