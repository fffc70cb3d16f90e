//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

func chat(text string, stream bool, tokens int) string {
	return fmt.Sprintf(`{"model":"m","stream":%v,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":%q}]}`, stream, tokens, text)
}

// buffered makes an Envoy that collects bodies before it sends them.
func buffered(yaml string) string {
	yaml = strings.ReplaceAll(yaml, "request_body_mode: FULL_DUPLEX_STREAMED", "request_body_mode: BUFFERED")
	yaml = strings.ReplaceAll(yaml, "response_body_mode: FULL_DUPLEX_STREAMED", "response_body_mode: STREAMED")
	yaml = strings.ReplaceAll(yaml, "failure_mode_allow: false", "failure_mode_allow: false\n                      message_timeout: 60s")
	return strings.ReplaceAll(yaml, "                stat_prefix: http", "                stat_prefix: http\n                request_timeout: 0s")
}

// What clients use of the API, through every configuration that docs/envoy.md has.
func TestTheAPIThroughEnvoy(t *testing.T) {
	for name, c := range map[string]rigConfig{
		"original destination": {},
		"retries":              {config: "envoy-retries.yaml"},
		"buffered": {edit: func(yaml string) string {
			return strings.Replace(buffered(yaml), "      filter_chains:", "      per_connection_buffer_limit_bytes: 20000000\n      filter_chains:", 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "retries" {
				c.extproc.Endpoints = 3
			}
			r := newRig(t, c)
			for _, stream := range []bool{false, true} {
				a := r.post("/v1/chat/completions", chat("one two three", stream, 300))
				require.Equal(t, http.StatusOK, a.status, a.body)
				if stream {
					require.Greater(t, strings.Count(a.body, "data:"), 250)
					require.Contains(t, a.body, "data: [DONE]")
					require.NotContains(t, a.body, `"usage":{`, "nobody asked for it")
				}
				a = r.post("/v1/completions", fmt.Sprintf(`{"model":"m","prompt":"one two","max_tokens":4,"stream":%v}`, stream))
				require.Equal(t, http.StatusOK, a.status, a.body)
				a = r.post("/v1/messages", fmt.Sprintf(`{"model":"m","max_tokens":4,"stream":%v,"messages":[{"role":"user","content":"hi"}]}`, stream))
				require.Equal(t, http.StatusOK, a.status, a.body)
			}
			for _, o := range r.seen.all() {
				require.NoError(t, o.Err)
				require.True(t, o.Usage.Known)
			}
			r.idle()

			a, err := r.try(t.Context(), http.MethodGet, "/v1/models", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, a.status)
			require.Contains(t, a.body, `"id":"m"`)
			a = r.post("/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
			require.Equal(t, http.StatusOK, a.status, a.body)
			a = r.post("/tokenize", `{"model":"m","prompt":"a b"}`)
			require.Equal(t, http.StatusOK, a.status, a.body)
			a, err = r.try(t.Context(), http.MethodGet, "/unknown", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, a.status)
			a = r.post("/v1/chat/completions", chat("x", false, 1)[:20])
			require.Equal(t, http.StatusBadRequest, a.status)
			a = r.post("/v1/messages", `{"model":"other","messages":[]}`)
			require.Equal(t, http.StatusNotFound, a.status)
			require.Contains(t, a.body, `"type":"error"`, "Anthropic's dialect")
			a, err = r.try(t.Context(), http.MethodPost, "/v1/chat/completions", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, a.status, "no body at all")

			// 5 MB of one prompt: over the engines' longest, which they say themselves.
			a = r.post("/v1/chat/completions", chat(strings.Repeat("word ", 1<<20), false, 1))
			require.Equal(t, http.StatusBadRequest, a.status)
			require.Contains(t, a.body, "maximum")
			r.idle()
		})
	}
}

// A long prompt arrives as it was sent.
func TestLongPromptsArriveWhole(t *testing.T) {
	r := newRig(t, rigConfig{engine: func(_ int, c *fleettest.Config) { c.MaxModelLen, c.Blocks, c.Speed = 16<<20, 1<<20, 1e6 }})
	text := fleettest.Text(1, 100_000) // of 100,000 tokens
	body := chat(text+strings.Repeat(" ", 5<<20), false, 1)
	a := r.post("/v1/chat/completions", body)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Greater(t, r.seen.all()[0].Usage.Prompt(), 100_000)
	a = r.post("/v1/chat/completions", strings.Repeat(" ", int(r.router.MaxBody())+1))
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	r.idle()
}

// Envoy goes where a direct Select would have gone: one fleet is driven through Envoy, an
// equal one by Select, with the same requests in the same order.
func TestDecisionsAreThoseOfSelect(t *testing.T) {
	through, direct := newRig(t, rigConfig{}), newRig(t, rigConfig{bare: true})
	for i := range 60 {
		// Ten conversations, each longer at every turn.
		text := fleettest.Text(uint64(i%10), 200)
		for turn := range i/10 + 1 {
			text += " " + fleettest.Text(uint64(1000+100*(i%10)+turn), 50)
		}
		body := chat(text, i%2 == 0, 4)
		a := through.post("/v1/chat/completions", body)
		require.Equal(t, http.StatusOK, a.status, a.body)
		sel, err := direct.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body)})
		require.NoError(t, err)
		resp, err := http.Post(sel.Target().URL.String()+"/v1/chat/completions", "application/json", strings.NewReader(string(sel.BodyWithUsage())))
		require.NoError(t, err)
		answer := sel.Answer(resp.StatusCode, resp.Header)
		buf := make([]byte, 4096)
		for err == nil {
			var n int
			n, err = resp.Body.Read(buf)
			answer.Pass(buf[:n])
		}
		answer.End()
		require.NoError(t, resp.Body.Close())
		through.settled()
		direct.settled()
	}
	require.Equal(t, direct.seen.workers(), through.seen.workers())
	seen := map[string]int{}
	for _, name := range through.seen.workers() {
		seen[name]++
	}
	require.Len(t, seen, 3, "there was something to decide: %v", seen)
	t.Logf("60 decisions alike: %v", seen)
}

// settled waits until the index has heard of what the engines cached.
func (r *rig) settled() {
	r.t.Helper()
	r.idle()
	require.Eventually(r.t, func() bool {
		for _, e := range r.engines {
			if s := e.Stats(); s.InFlight != 0 || s.Running != 0 {
				return false
			}
		}
		return true
	}, wait, tick)
}

func TestClientsLeave(t *testing.T) {
	r := newRig(t, rigConfig{engine: func(_ int, c *fleettest.Config) { c.Speed = 1 }})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions",
				strings.NewReader(chat(fmt.Sprint(i), true, 100000)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := r.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if i%2 == 0 {
				_, _ = resp.Body.Read(make([]byte, 100)) // in the middle of it
			}
		})
	}
	wg.Wait()
	r.idle()
	for _, e := range r.engines {
		require.Eventually(t, func() bool { return e.Stats().InFlight == 0 }, wait, tick, "the engine was told")
	}
	for _, m := range r.fleet.Snapshot().Members() {
		require.True(t, m.Routable(), "clients that leave are no worker's fault")
	}
}

// What clients must not say does not reach workers, and does not decide.
func TestInternalHeadersAreStripped(t *testing.T) {
	for _, edit := range []func(string) string{nil, buffered} {
		r := newRig(t, rigConfig{edit: edit})
		evil := strings.TrimPrefix(r.engines[1].URL(), "http://")
		for range 6 {
			a := r.post("/v1/chat/completions", chat("x", false, 1),
				"X-Gateway-Destination-Endpoint", evil, "x-gateway-DESTINATION-endpoint", evil,
				"X-Kvsteer-Anything", "1", "x-kvsteer-anything", "2", "X-Data-Parallel-Rank", "7", "X-Gateway-Destination-Endpoint-Served", evil)
			require.Equal(t, http.StatusOK, a.status, a.body)
		}
		r.idle()
		for i, name := range r.seen.workers() {
			var got []fleettest.Request
			for _, e := range r.engines {
				if e.Name() == name {
					got = e.Requests()
				}
			}
			require.NotEmpty(t, got, "decision %d went to %s", i, name)
			h := got[len(got)-1].Header
			require.Empty(t, h.Values("X-Kvsteer-Anything"))
			require.Empty(t, h.Values("X-Data-Parallel-Rank"))
			require.Len(t, h.Values("X-Gateway-Destination-Endpoint"), 1)
		}
	}
}

// Whom a client claims to speak for is not whom Envoy takes it for.
func TestClientsAreOutside(t *testing.T) {
	for _, config := range []string{"", "envoy-retries.yaml"} {
		r := newRig(t, rigConfig{config: config})
		a := r.post("/v1/chat/completions", chat("x", false, 1), "X-Forwarded-For", "10.0.0.1")
		require.Equal(t, http.StatusOK, a.status, a.body)
		r.idle()
		var got []string
		for _, e := range r.engines {
			for _, req := range e.Requests() {
				if req.Path == "/v1/chat/completions" {
					got = append(got, req.Header.Get("X-Forwarded-For"))
				}
			}
		}
		require.Len(t, got, 1)
		require.True(t, strings.HasPrefix(got[0], "10.0.0.1,"), "Envoy adds what it sees: %q", got[0])
	}
}

func TestUsageStaysWhereItWasAskedFor(t *testing.T) {
	r := newRig(t, rigConfig{})
	a := r.post("/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":3,"messages":[{"role":"user","content":"x"}]}`)
	require.Contains(t, a.body, `"usage":{`)
	a = r.post("/v1/chat/completions", chat("x", false, 2))
	var v struct {
		Usage struct {
			Tokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &v))
	require.Positive(t, v.Usage.Tokens)
	r.idle()
}
