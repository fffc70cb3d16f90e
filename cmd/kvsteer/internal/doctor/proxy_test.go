package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// meddler stands between the doctor and an engine. What it answers itself is not
// passed on.
type meddler func(w http.ResponseWriter, r *http.Request) (answered bool)

// behind describes the engine as one behind a meddler.
func behind(t *testing.T, e *fleettest.Engine, m meddler) fleet.Worker {
	t.Helper()
	to, err := url.Parse(e.URL())
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval, proxy.Transport = -1, whole{}
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Del("Date")
		return nil
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	w := e.Worker()
	w.URL = s.URL
	return w
}

// whole sends a request when its body is here. A plain proxy now and then breaks an answer
// off without it: a server closes the body that it reads from once an answer begins, and
// whoever is still looking for its end then closes the connection.
type whole struct{}

func (whole) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return http.DefaultTransport.RoundTrip(r)
}

// at answers one path.
func at(path string, answer http.HandlerFunc) meddler {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		answer(w, r)
		return true
	}
}

func reply(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func dated(by time.Duration) meddler {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
		return false
	}
}

// hideIDs has the engine not show the ids of prompts, as versions before that did.
func hideIDs(_ http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/v1/chat/completions" {
		b, _ := io.ReadAll(r.Body)
		b = bytes.ReplaceAll(b, []byte(`"return_token_ids":true`), []byte(`"return_token_ids":false`))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	}
	return false
}

// What no fake engine does by itself.
func TestFaultsBehindAProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meddler
		ill
	}{
		"clock ahead":  {dated(time.Hour), ill{}.must("clock", Warning, "ahead of this machine's")},
		"clock behind": {dated(-time.Minute), ill{}.must("clock", Warning, "behind this machine's")},
		"clock right":  {dated(0), ill{}.must("clock", OK, "agrees")},
		"no clock": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header()["Date"] = nil
			return false
		}, ill{}.must("clock", Skipped, "no date")},
		"redirect": {at("/health", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}), ill{}.must("health", Fault, "redirect")},
		"no health":     {at("/health", status(http.StatusNotFound)), ill{}.must("health", OK, "/v1/models answers")},
		"newer":         {at("/version", reply(`{"version":"0.99.1"}`)), ill{}.must("engine", Warning, "newer than what was tested")},
		"older":         {at("/version", reply(`{"version":"0.8.5"}`)), ill{}.must("engine", Warning, "older than what was tested")},
		"tested":        {at("/version", reply(`{"version":"0.16.0"}`)), ill{}.must("engine", OK, "within what was tested")},
		"post-release":  {at("/version", reply(`{"version":"0.23.0.post1"}`)), ill{}.must("engine", OK, "within what was tested")},
		"development":   {at("/version", reply(`{"version":"0.1.dev17+gabcdef"}`)), ill{}.must("engine", OK, "without a release's number")},
		"no version":    {at("/version", status(http.StatusNotFound)), ill{}.must("engine", OK, "does not say which version")},
		"no models":     {at("/v1/models", reply(`{"data":[]}`)), ill{}.must("models", Fault, "lists no models")},
		"models broken": {at("/v1/models", status(http.StatusInternalServerError)), ill{}.must("models", Fault, "status 500")},
		"metrics missing": {at("/metrics", reply("vllm:num_requests_running{engine=\"0\"} 1\n"+
			"vllm:cache_config_info{block_size=\"16\",engine=\"0\"} 1\n")), ill{}.must("metrics", Warning, "requests in the queue (vllm:num_requests_waiting)")},
		"other metrics":  {at("/metrics", reply("up 1\n")), ill{}.must("metrics", Fault, "none of the engine's metrics")},
		"closed metrics": {at("/metrics", status(http.StatusForbidden)), ill{}.must("metrics", Fault, "wants a key")},
		"tokens fail": {
			at("/v1/chat/completions/render", status(http.StatusInternalServerError)),
			ill{}.must("tokens", Fault, "/render does not serve as it should: engine failed"),
		},
		"tokens differ": {
			at("/v1/chat/completions/render", reply(`{"token_ids":[`+strings.Repeat("5,", 40)+`5]}`)),
			ill{}.must("probe", Fault, "but by render there are 41"),
		},
		"no chats": {at("/v1/chat/completions", status(http.StatusBadRequest)), ill{}.must("probe", OK, "tokens sent twice")},
		"nothing is served": {func(w http.ResponseWriter, r *http.Request) bool {
			no := r.URL.Path == "/v1/chat/completions" || r.URL.Path == "/v1/completions"
			if no {
				w.WriteHeader(http.StatusNotFound)
			}
			return no
		}, ill{}.must("probe", Skipped, "takes neither chats nor completions")},
		"an error in the stream": {
			at("/v1/chat/completions", reply("data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n")),
			ill{}.must("probe", Fault, "the answer is an error"),
		},
		"events said in a list": {
			at("/kv_event_sources", reply(`[{"data_parallel_rank":0,"endpoint":"tcp://*:5557","replay_endpoint":null,"topic":"kv"}]`)),
			ill{}.must("events", OK, "connected"),
		},
		"cut without a word": {
			at("/v1/chat/completions", reply("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")),
			ill{}.must("probe", Fault, "the answer ends too early"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.confirm(t, oneWorker(t, behind(t, engine(t), c.meddler)))
		})
	}
}

// A prompt that is as long as the engine's, and another one.
func TestOtherTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meddler
		ill
	}{
		"shown":     {nil, ill{}.must("probe", Fault, "token 9 of the prompt is 12345 by render, but ")},
		"not shown": {hideIDs, ill{}.must("probe", Fault, "its KV events are of other tokens than the prompt has by render")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine(t)
			w := behind(t, e, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v1/chat/completions/render" {
					return c.meddler != nil && c.meddler(w, r)
				}
				resp, err := http.Post(e.URL()+"/v1/chat/completions/render", "application/json", r.Body)
				if !assert.NoError(t, err) {
					return false
				}
				defer resp.Body.Close()
				var answer map[string]any
				assert.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
				if ids, _ := answer["token_ids"].([]any); assert.Greater(t, len(ids), 9) {
					ids[9] = 12345
				}
				assert.NoError(t, json.NewEncoder(w).Encode(answer))
				return true
			})
			c.confirm(t, oneWorker(t, w))
		})
	}
}

// A rank that the request was not sent to computes it.
func TestRankIsNotHeeded(t *testing.T) {
	t.Parallel()
	e := engine(t, func(c *fleettest.Config) { c.Ranks = 2 })
	r := oneWorker(t, behind(t, e, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Data-Parallel-Rank") != "" {
			r.Header.Set("X-Data-Parallel-Rank", "0")
		}
		return false
	}))
	ill{}.must("probe", Warning, "sent to rank 1, but rank 0 computed it").confirm(t, r)
}

// An engine of which nothing is known is no fault.
func TestAnotherEngine(t *testing.T) {
	t.Parallel()
	e := engine(t, func(c *fleettest.Config) { c.ZMQ, c.Render, c.NoTokenize, c.NoDevMode = false, false, true, true })
	w := behind(t, e, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/v1/models":
			reply(`{"data":[{"id":"fake-model","owned_by":"me"}]}`)(w, r)
		case "/metrics", "/version", "/kv_event_sources":
			w.WriteHeader(http.StatusNotFound)
		default:
			return false
		}
		return true
	})
	w.Engine = fleet.EngineAuto
	ill{}.must("engine", Warning, "neither vLLM, SGLang nor TensorRT-LLM").confirm(t, oneWorker(t, w))
	w.Engine = fleet.EngineOther
	ill{}.must("engine", OK, "declared as another kind").confirm(t, oneWorker(t, w))
}

// Whether events could be fetched is found out without fetching any.
func TestPolledEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events, other int
		ill
	}{
		"there":   {http.StatusMethodNotAllowed, http.StatusMethodNotAllowed, ill{}.must("events", OK, "/kv_cache_events is there")},
		"absent":  {http.StatusNotFound, http.StatusMethodNotAllowed, ill{}.must("events", Fault, "the engine has no /kv_cache_events")},
		"unknown": {http.StatusNotFound, http.StatusNotFound, ill{}.must("events", Skipped, "does not say whether it has")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engine(t, func(c *fleettest.Config) { c.Dialect, c.ZMQ = fleettest.TensorRTLLM, false })
			w := behind(t, e, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodOptions {
					return r.URL.Path == "/kv_cache_events" // nobody may fetch them
				}
				w.WriteHeader(map[bool]int{true: c.events, false: c.other}[r.URL.Path == "/kv_cache_events"])
				return true
			})
			c.confirm(t, oneWorker(t, w))
		})
	}
}
