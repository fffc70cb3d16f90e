package kvsteer_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

// trtllmRig is a rig of TensorRT-LLM engines, whose router has no use for an event
// transport.
func trtllmRig(t *testing.T, engines int, more func(c *fleettest.Config), workers ...func(w *fleet.Worker)) *rig {
	t.Helper()
	return newRig(t, rigConfig{
		engines: engines,
		worker: func(_ int, w *fleet.Worker) {
			for _, change := range workers {
				change(w)
			}
		},
		engine: func(_ int, c *fleettest.Config) {
			c.Dialect, c.Hub, c.Render = fleettest.TensorRTLLM, nil, true
			if more != nil {
				more(c)
			}
		},
		options: []kvsteer.Option{kvsteer.WithEvents(nil), kvsteer.WithPredictor(roles{})},
	})
}

// behind sends a request to an engine past the router, so that only events can
// tell of it.
func behind(t *testing.T, e *fleettest.Engine, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// cachedAt waits until the router expects a prompt's cached tokens to be as ok says.
func (r *rig) cachedAt(worker, text string, ok func(cached int) bool) {
	r.t.Helper()
	last := -1
	require.Eventually(r.t, func() bool {
		d, err := r.router.Explain(r.t.Context(), chatRequest(text, false))
		if err != nil {
			return false
		}
		for i := range d.Candidates {
			if d.Candidates[i].Name == worker {
				last = d.Candidates[i].CachedTokens
			}
		}
		return ok(last)
	}, 30*time.Second, 5*time.Millisecond, "cached tokens on %s", worker)
}

func TestTensorRTLLM(t *testing.T) {
	t.Parallel()
	r := trtllmRig(t, 3, nil)
	r.waitTrust(kvcache.Exact)
	require.Equal(t, fleet.EngineTRTLLM, r.fleet.Snapshot().Members()[0].Engine())

	// What the router never saw is known from events alone.
	const prompts = 6
	for i := range prompts {
		text := fleettest.Text(uint64(i), 1500)
		holder := r.engines[i%len(r.engines)]
		behind(t, holder, chatBody(text, false))
		r.cachedAt(holder.Name(), text, func(cached int) bool { return cached >= 1472 })
	}
	for i := range prompts {
		text := fleettest.Text(uint64(i), 1500)
		n := r.observed.outcomeCount()
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text+" and then?", false)).status)
		o := r.observed.nextOutcome(t, n)
		require.Empty(t, o.Decision.Degradations)
		require.Equal(t, r.engines[i%len(r.engines)].Name(), o.Decision.Winner().Name)
		require.Equal(t, kvcache.Exact, o.Decision.Winner().Trust)
		require.True(t, o.Usage.CachedKnown)
		require.Equal(t, o.Usage.CacheRead, o.CachedPredicted)
		require.Zero(t, o.CachedPredicted%32)
		require.Positive(t, o.CachedPredicted)
	}
	r.waitTrust(kvcache.Exact)
	r.idle()
}

func TestTensorRTLLMEviction(t *testing.T) {
	t.Parallel()
	r := trtllmRig(t, 1, func(c *fleettest.Config) { c.Blocks = 100 })
	r.waitTrust(kvcache.Exact)
	name := r.engines[0].Name()
	first := fleettest.Text(1, 1500)
	behind(t, r.engines[0], chatBody(first, false))
	r.cachedAt(name, first, func(cached int) bool { return cached > 1000 })
	for i := range 3 {
		behind(t, r.engines[0], chatBody(fleettest.Text(uint64(10+i), 1500), false))
	}
	r.cachedAt(name, first, func(cached int) bool { return cached == 0 })
	r.waitTrust(kvcache.Exact)
}

func TestTensorRTLLMRanks(t *testing.T) {
	t.Parallel()
	r := trtllmRig(t, 1, func(c *fleettest.Config) { c.Ranks = 3 })
	r.waitTrust(kvcache.Exact)
	seen := map[int]bool{}
	for i := range 6 {
		text := fleettest.Text(uint64(i), 1000)
		behind(t, r.engines[0], chatBody(text, false))
		requests := r.engines[0].Requests()
		rank := requests[len(requests)-1].Rank
		seen[rank] = true
		require.Eventually(t, func() bool {
			d, err := r.router.Explain(t.Context(), chatRequest(text, false))
			return err == nil && d.Winner().Candidate.Rank == rank && d.Winner().CachedTokens > 900
		}, 30*time.Second, 5*time.Millisecond)
	}
	require.Greater(t, len(seen), 1, "more than one rank had something to tell")
}

// A restart, a full buffer, and a second consumer.
func TestTensorRTLLMFaults(t *testing.T) {
	t.Parallel()
	r := trtllmRig(t, 1, nil)
	r.waitTrust(kvcache.Exact)
	e, name := r.engines[0], r.engines[0].Name()
	text := fleettest.Text(1, 1500)
	behind(t, e, chatBody(text, false))
	r.cachedAt(name, text, func(cached int) bool { return cached > 1000 })

	require.NoError(t, e.Restart())
	r.cachedAt(name, text, func(cached int) bool { return cached == 0 })
	r.waitTrust(kvcache.Exact)
	behind(t, e, chatBody(text, false))
	r.cachedAt(name, text, func(cached int) bool { return cached > 1000 })

	// Events that were lost show with the next ones: what was known is dropped.
	e.Faults().LoseEvents(1)
	behind(t, e, chatBody(fleettest.Text(2, 1500), false))
	last := fleettest.Text(3, 1500)
	behind(t, e, chatBody(last, false))
	r.waitTrust(kvcache.Resyncing)
	r.cachedAt(name, text, func(cached int) bool { return cached == 0 })
	d, err := r.router.Explain(t.Context(), chatRequest(last, false))
	require.NoError(t, err)
	require.Equal(t, name, d.Winner().Name)
}

// A restarted engine is another instance as soon as the fleet has noticed. What it had
// said by then was taken out by the follower of the former one, and is not lost.
func TestTensorRTLLMRestartIsHandedOn(t *testing.T) {
	t.Parallel()
	var begun atomic.Int32 // processes whose first event was fetched
	r := trtllmRig(t, 1, nil, func(w *fleet.Worker) {
		u, err := url.Parse(w.URL)
		require.NoError(t, err)
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite:      func(q *httputil.ProxyRequest) { q.SetURL(u) },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
			ModifyResponse: func(resp *http.Response) error {
				b, err := io.ReadAll(resp.Body)
				if strings.Contains(string(b), `"event_id":0,`) {
					begun.Add(1)
				}
				resp.Body = io.NopCloser(bytes.NewReader(b))
				return err
			},
		})
		t.Cleanup(proxy.Close)
		w.Events[0].Events = proxy.URL
	})
	r.waitTrust(kvcache.Exact)
	e, before := r.engines[0], r.fleet.Snapshot().Members()[0].ID()
	require.NoError(t, e.Kill())
	r.waitRoutable(0)
	e.Faults().Unhealthy(true) // the fleet waits, the follower does not
	require.NoError(t, e.Revive())
	require.Eventually(t, func() bool { return begun.Load() == 2 }, wait, tick)
	require.Equal(t, before, r.fleet.Snapshot().Members()[0].ID())
	e.Faults().Clear()
	r.waitRoutable(1)
	require.NotEqual(t, before, r.fleet.Snapshot().Members()[0].ID())
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(1, 1500)
	behind(t, e, chatBody(text, false))
	r.cachedAt(e.Name(), text, func(cached int) bool { return cached > 1000 })
	r.waitTrust(kvcache.Exact)
}

func TestTensorRTLLMNeedsNoTransportButOthersDo(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithEvents(nil)}})
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(d.Degradations), "WithEvents")
}

// What was cached is reported for each kind of request, streamed or not, and was
// predicted.
func TestTensorRTLLMReportsCachedTokens(t *testing.T) {
	t.Parallel()
	r := trtllmRig(t, 2, nil)
	r.waitTrust(kvcache.Exact)
	for i, c := range []struct{ path, body string }{
		{"/v1/chat/completions", chatBody(fleettest.Text(1, 1500), true)},
		{"/v1/completions", `{"model":"` + testModel + `","prompt":"` + fleettest.Text(2, 1500) + `"}`},
		{"/v1/completions", `{"model":"` + testModel + `","stream":true,"prompt":"` + fleettest.Text(3, 1500) + `"}`},
	} {
		require.Equal(t, http.StatusOK, r.post(c.path, c.body).status)
		require.Eventually(t, func() bool {
			n := r.observed.outcomeCount()
			require.Equal(t, http.StatusOK, r.post(c.path, c.body).status)
			o := r.observed.nextOutcome(t, n)
			return o.Usage.CachedKnown && o.Usage.CacheRead >= 1472 && o.Usage.CacheRead == o.CachedPredicted
		}, 30*time.Second, 5*time.Millisecond, "case %d", i)
	}
	r.idle()
}
