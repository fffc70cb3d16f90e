package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

func TestTransportServesEveryAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2})
	text := fleettest.Text(1, 200)
	for _, c := range []struct{ name, path, body, want string }{
		{"chat", "/v1/chat/completions", chatBody(text, false), `"choices"`},
		{"chat stream", "/v1/chat/completions", chatBody(text, true), "data: [DONE]"},
		{"completions", "/v1/completions", `{"model":"m","prompt":"` + text + `"}`, `"choices"`},
		{"completions stream", "/v1/completions", `{"model":"m","stream":true,"prompt":"` + text + `"}`, "data: [DONE]"},
		{"completions ids", "/v1/completions", `{"model":"m","prompt":[7,8,9,10]}`, `"choices"`},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"` + text + `"}]}`, `"content"`},
		{"messages stream", "/v1/messages", `{"model":"m","max_tokens":4,"stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`, "message_stop"},
		{"responses", "/v1/responses", `{"model":"m","input":"` + text + `"}`, `"output"`},
		{"responses stream", "/v1/responses", `{"model":"m","stream":true,"input":"` + text + `"}`, "response.completed"},
		{"embeddings", "/v1/embeddings", `{"model":"m","input":"` + text + `"}`, `"embedding"`},
	} {
		n := r.observed.outcomeCount()
		a := r.post(c.path, c.body)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", c.name, a.body)
		require.Contains(t, a.body, c.want, c.name)
		o := r.observed.nextOutcome(t, n)
		require.NoError(t, o.Err, c.name)
		require.True(t, o.Usage.Known, "%s: usage was read", c.name)
		if strings.HasSuffix(c.name, "stream") {
			require.Positive(t, o.TTFT, "%s: the first token was seen", c.name)
		}
	}
	r.idle()
}

func TestSiblingsFollowThePrefixExactly(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, unseen: true})
	r.waitTrust(kvcache.Exact)
	prefix := fleettest.Text(7, 2000)
	first := ""
	for i := range 6 {
		n := r.observed.outcomeCount()
		a := r.post("/v1/chat/completions", chatBody(prefix+fmt.Sprintf(" question %d", i), i%2 == 0))
		require.Equal(t, http.StatusOK, a.status, a.body)
		o := r.observed.nextOutcome(t, n)
		w := o.Decision.Winner()
		if i == 0 {
			first = w.Name
			require.Zero(t, w.CachedTokens)
			continue
		}
		require.Equal(t, first, w.Name, "request %d:\n%s", i, o.Decision)
		require.True(t, o.Usage.CachedKnown)
		require.Equal(t, o.Usage.CacheRead, o.CachedPredicted, "prediction equals the engine's own count")
		require.Greater(t, o.CachedPredicted, 1900)
		require.Equal(t, "exact", w.TrustState)
	}
	r.idle()
}

func TestBodyIsForwardedByteForByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	body := `{ "zeta":{"b":1.0,"a":[9007199254740993, 1e3]},"model" :"m","messages":[{"role":"user","content":"h\u00e9llo"}], "unknown":null,"zeta":1.0 }`
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body).status)
	seen := r.engines[0].Requests()
	require.Equal(t, body, string(seen[len(seen)-1].Body))

	// A stream that doesn't ask for usage: that field, and nothing else, changes.
	body = `{ "model" :"m","stream":true , "messages":[{"role":"user","content":"hi"}],"temperature":1.0}`
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body).status)
	seen = r.engines[0].Requests()
	require.Equal(t, strings.TrimSuffix(body, "}")+`,"stream_options":{"include_usage":true}}`, string(seen[len(seen)-1].Body))
}

func TestUsageChunkIsTakenOutUnlessAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	plain := r.post("/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	require.NotContains(t, plain.body, `"usage":{`)
	require.Contains(t, plain.body, "data: [DONE]")
	require.True(t, r.observed.lastOutcome(t).Usage.Known, "the router saw it all the same")

	asked := r.post("/v1/chat/completions",
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`)
	require.Contains(t, asked.body, `"usage":{`)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithMaxBody(4096)}})
	const chat = "/v1/chat/completions"
	for _, c := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"malformed JSON", chat, `{"model":"m",`, http.StatusBadRequest, "not a JSON object"},
		{"not an object", chat, `[1]`, http.StatusBadRequest, "not a JSON object"},
		{"empty", chat, ``, http.StatusBadRequest, "no body"},
		{"no model", chat, `{"messages":[]}`, http.StatusBadRequest, `has no \"model\"`},
		{"model of a wrong type", chat, `{"model":7}`, http.StatusBadRequest, "non-empty string"},
		{"unknown model", chat, `{"model":"gpt-x","messages":[]}`, http.StatusNotFound, "models served: m"},
		{"too large", chat, `{"model":"m","x":"` + strings.Repeat("a", 5000) + `"}`, http.StatusRequestEntityTooLarge, "4096"},
		{"anthropic dialect", "/v1/messages", `{"model":"gpt-x"}`, http.StatusNotFound, `"type":"error"`},
	} {
		a := r.post(c.path, c.body)
		require.Equal(t, c.status, a.status, "%s: %s", c.name, a.body)
		require.Contains(t, a.body, c.want, c.name)
		require.Equal(t, "application/json", a.header.Get("Content-Type"), c.name)
	}
	require.NoError(t, r.engines[0].Kill())
	r.waitRoutable(0)
	a := r.post(chat, chatBody("hi", false))
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	r.idle()
}

func TestRetriesWhileNothingReachedTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault func(f *fleettest.Faults)
	}{
		{"500", func(f *fleettest.Faults) { f.Fail(1, http.StatusInternalServerError, 0) }},
		{"503", func(f *fleettest.Faults) { f.Fail(1, http.StatusServiceUnavailable, time.Second) }},
		{"429", func(f *fleettest.Faults) { f.Fail(1, http.StatusTooManyRequests, time.Second) }},
		{"died after its headers", func(f *fleettest.Faults) { f.DieMidStream(1, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 2})
			for _, e := range r.engines {
				c.fault(e.Faults()) // whichever is chosen first
			}
			n := r.observed.outcomeCount()
			a := r.post("/v1/chat/completions", chatBody("hello there", true))
			// Both engines fail once each, so that the second attempt fails too.
			o := r.observed.nextOutcome(t, n)
			require.Equal(t, 2, o.Decision.Attempt)
			require.Error(t, o.Err)
			require.NotEqual(t, http.StatusOK, a.status)

			n = r.observed.outcomeCount()
			c.fault(r.engine(o.Decision.Winner().Name).Faults())
			c.fault(r.engines[0].Faults())
			r.engines[1].Faults().Clear()
			a = r.post("/v1/chat/completions", chatBody("hello there", true))
			require.Equal(t, http.StatusOK, a.status, a.body)
			require.Equal(t, 1, strings.Count(a.body, "data: [DONE]"), "one answer, whole")
			require.NoError(t, r.observed.nextOutcome(t, n).Err)
			r.idle()
		})
	}
}

func TestNoRetryOnceTheClientHasSeenOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, engine: func(_ int, c *fleettest.Config) { c.OutputTokens = 40 }})
	for _, e := range r.engines {
		e.Faults().DieMidStream(1, 5)
	}
	a, err := r.try(t.Context(), "/v1/chat/completions", chatBody("hello", true))
	require.Error(t, err, "the client sees that the answer broke off")
	require.Equal(t, http.StatusOK, a.status)
	o := r.observed.nextOutcome(t, 0)
	require.Error(t, o.Err)
	require.Equal(t, 1, o.Decision.Attempt)
	sent := len(r.engines[0].Requests()) + len(r.engines[1].Requests())
	posts := 0
	for _, e := range r.engines {
		for _, q := range e.Requests() {
			if q.Path == "/v1/chat/completions" {
				posts++
			}
		}
	}
	require.Equal(t, 1, posts, "of %d requests", sent)
	r.idle()
}

func TestCancelAtEveryStageReleases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		at   fleettest.HangPoint
	}{
		{"awaiting headers", fleettest.HangBeforeHeaders},
		{"awaiting the first token", fleettest.HangBeforeFirstToken},
		{"mid-stream", fleettest.HangMidStream},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 1})
			r.engines[0].Faults().Hang(c.at)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := r.try(ctx, "/v1/chat/completions", chatBody("hello", true))
				done <- err
			}()
			require.Eventually(t, func() bool { return r.router.InFlight() == 1 }, 30*time.Second, time.Millisecond)
			cancel()
			require.Error(t, <-done)
			o := r.observed.nextOutcome(t, 0)
			require.Error(t, o.Err)
			r.idle()
			r.engines[0].Faults().Clear()
		})
	}
}

func TestASilentWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	first := load(t, `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    route: {select: [{order: [s1]}, {order: [s0]}]}
`)
	for name, begins := range map[string]bool{"before its headers": false, "before the first token": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			says := sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`, `[DONE]`)
			r := newScripted(t, rigConfig{
				options: []kvsteer.Option{kvsteer.WithPolicy(first)},
			}, worker{serve: prompts(says)}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
				asked.Add(1)
				if begins {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
				}
				<-q.Context().Done()
			})})
			// How long the other one takes is up to the machine.
			for timeout := 100 * time.Millisecond; ; timeout *= 2 {
				tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{FirstByteTimeout: timeout})
				resp, err := tr.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hello", true)))
				if err != nil && timeout < wait {
					r.idle()
					continue
				}
				require.NoError(t, err)
				text := rest(resp)
				tr.CloseIdleConnections()
				require.Contains(t, text, "[DONE]")
				break
			}
			r.idle()
			o := r.observed.nextOutcome(t, r.observed.outcomeCount()-1)
			require.NoError(t, o.Err)
			require.Equal(t, "s0", o.Decision.Winner().Name)
			require.Positive(t, asked.Load())
		})
	}
}

func TestClosingABodyEarlyReleases(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) { c.OutputTokens = 200; c.Speed = 10 }})
	client := &http.Client{Transport: kvsteer.NewTransport(r.router, kvsteer.TransportOptions{})}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/chat/completions",
		strings.NewReader(chatBody("hello", true)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	require.NoError(t, err)
	_, err = resp.Body.Read(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Error(t, r.observed.nextOutcome(t, 0).Err)
	r.idle()
}

func TestTransportErrorsAreTyped(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 0})
	client := &http.Client{Transport: kvsteer.NewTransport(r.router, kvsteer.TransportOptions{})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/chat/completions",
		strings.NewReader(chatBody("hello", true)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	_, err = client.Do(req) //nolint:bodyclose // there is none
	var e *kvsteer.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kvsteer.CodeNoCandidates, e.Code, "an empty fleet may yet come to serve it")
}

func TestOtherPathsGoByLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, engine: func(_ int, c *fleettest.Config) {
		c.Adapters = []fleettest.Adapter{{Name: "lora-a"}}
	}})
	a := r.get("/version")
	require.Equal(t, http.StatusOK, a.status, a.body)
	a = r.get("/v1/models")
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.body, `"id":"m"`)
	require.Contains(t, a.body, `"id":"lora-a"`)
	require.Contains(t, a.body, `"parent":"m"`)
	require.Equal(t, http.StatusNotFound, r.get("/v1/audio/speech").status, "the engine's own answer")
	r.idle()
}

// What changes or reveals an engine is not a client's to call.
func TestAdminPathsAreNotForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	before := len(r.engines[0].Requests())
	for _, path := range []string{
		"/reset_prefix_cache", "/sleep", "/flush_cache", "/kv_cache_events", "/metrics", "/server_info",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/../sleep", "/v1//load_lora_adapter", "/V1/load_lora_adapter", "/",
	} {
		a := r.post(path, "{}")
		require.Equal(t, http.StatusNotFound, a.status, "%s: %s", path, a.body)
		require.Contains(t, a.body, "not forwarded", path)
	}
	require.Len(t, r.engines[0].Requests(), before)

	open := newRig(t, rigConfig{engines: 1, transport: kvsteer.TransportOptions{
		Forward: func(*http.Request) bool { return true },
	}})
	require.Equal(t, http.StatusOK, open.post("/reset_prefix_cache", "").status)
}

func (r *rig) get(path string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.gateway.URL+path, nil)
	require.NoError(r.t, err)
	resp, err := r.gateway.Client().Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func TestInternalHeadersAreStripped(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.gateway.URL+"/v1/chat/completions",
		strings.NewReader(chatBody("hi", false)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header["x-kvsteer-worker"] = []string{"w9"}
	req.Header.Add("X-KVSTEER-Debug", "1")
	req.Header.Set("X-Data-Parallel-Rank", "3")
	req.Header.Set("X-Request-Id", "mine")
	resp, err := r.gateway.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	seen := r.engines[0].Requests()
	h := seen[len(seen)-1].Header
	for k := range h {
		require.False(t, strings.HasPrefix(strings.ToLower(k), "x-kvsteer"), k)
	}
	require.Empty(t, h.Get("X-Data-Parallel-Rank"))
	require.Equal(t, "mine", h.Get("X-Request-Id"))
}

func TestClosedRouterSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	require.NoError(t, r.router.Close())
	require.NoError(t, r.router.Close(), "idempotent")
	_, err := r.router.Select(t.Context(), chatRequest("hi", false))
	require.Equal(t, kvsteer.CodeClosed, kvsteer.CodeOf(err))
	require.Equal(t, http.StatusServiceUnavailable, r.post("/v1/chat/completions", chatBody("hi", false)).status)
}

func TestCodeOfForeignErrors(t *testing.T) {
	t.Parallel()
	require.Zero(t, kvsteer.CodeOf(errors.New("other")))
	require.Zero(t, kvsteer.CodeOf(nil))
}
