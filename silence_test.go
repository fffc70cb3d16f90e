package kvsteer_test

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// An engine that was configured for events and sends none is named, and routed
// approximately meanwhile.
func TestASilentEventStreamRaisesTheAlarm(t *testing.T) {
	t.Parallel()
	quiet := follow.NewHub()
	pipe, err := quiet.Open("quiet", follow.PipeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pipe.Close()) })
	logs := &syncBuffer{}
	r := newRig(t, rigConfig{
		engines: 1,
		engine:  func(_ int, c *fleettest.Config) { c.Hub = nil },
		worker:  func(_ int, w *fleet.Worker) { w.Events = []follow.Endpoint{pipe.Endpoint(0)} },
		options: []kvsteer.Option{
			kvsteer.WithEvents(quiet), kvsteer.WithLogger(slog.New(slog.NewTextHandler(logs, nil))),
		},
	})
	for i := range 12 {
		n := r.observed.outcomeCount()
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(fleettest.Text(uint64(i), 100), false)).status)
		r.observed.nextOutcome(t, n)
	}
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	require.LessOrEqual(t, d.Winner().Trust, kvcache.Approximate)
	require.Contains(t, strings.Join(d.Degradations, "; "), "publishes no KV events")
	cache := r.router.Stats().Caches[0]
	require.True(t, cache.Silent)
	require.Equal(t, d.Winner().Trust, cache.Ranks[0].Trust, "what is shown is what decisions go by")
	require.Contains(t, cache.Ranks[0].TrustReason, "publishes no KV events")
	require.Contains(t, logs.String(), "publishes no KV events")
	require.Contains(t, logs.String(), "worker=w0")

	// It speaks again: the alarm is over with the next request.
	pipe.Publish([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x90, 0}) // [0.0, [], 0]
	require.Eventually(t, func() bool {
		n := r.observed.outcomeCount()
		r.post("/v1/chat/completions", chatBody(fleettest.Text(uint64(100+n), 100), false))
		r.observed.nextOutcome(t, n)
		d, err := r.router.Explain(t.Context(), chatRequest("x", false))
		return err == nil && !strings.Contains(strings.Join(d.Degradations, "; "), "publishes no KV events")
	}, 30*time.Second, 10*time.Millisecond)
	require.False(t, r.router.Stats().Caches[0].Silent)
}

// A rank that has fallen silent is found among others that talk.
func TestOneSilentRankAmongOthers(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	pipes := make([]*follow.Pipe, 2)
	for i, name := range []string{"talks", "silent"} {
		pipe, err := hub.Open(name, follow.PipeOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, pipe.Close()) })
		pipes[i] = pipe
	}
	r := newRig(t, rigConfig{
		engines: 1,
		engine:  func(_ int, c *fleettest.Config) { c.Hub, c.Ranks = nil, 2 },
		worker: func(_ int, w *fleet.Worker) {
			w.Events = []follow.Endpoint{pipes[0].Endpoint(0), pipes[1].Endpoint(1)}
		},
		options: []kvsteer.Option{kvsteer.WithEvents(hub)},
	})
	r.waitJoined()
	answered := make([]int, 2)
	for i := 0; answered[0] < 12 || answered[1] < 12; i++ {
		require.Less(t, i, 1000)
		before := r.router.Stats().Caches[0].Streams[0].Messages
		pipes[0].Publish([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x90, 0}) // [0.0, [], 0]
		require.Eventually(t, func() bool { return r.router.Stats().Caches[0].Streams[0].Messages > before }, wait, tick)
		req := chatRequest(fleettest.Text(uint64(i), 100), false)
		req.Header = http.Header{"X-Data-Parallel-Rank": {strconv.Itoa(i % 2)}}
		s, err := r.router.Select(t.Context(), req)
		require.NoError(t, err)
		answered[s.Decision().Winner().Rank]++
		s.Done(kvsteer.Usage{})
	}
	cache := r.router.Stats().Caches[0]
	require.True(t, cache.Silent)
	require.Empty(t, cache.Ranks[0].TrustReason)
	require.Equal(t, kvcache.Exact, cache.Ranks[0].Trust)
	require.Contains(t, cache.Ranks[1].TrustReason, "publishes no KV events")
	require.LessOrEqual(t, cache.Ranks[1].Trust, kvcache.Approximate)
}
