package kvsteer_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// Of the paths of vLLM, SGLang, TensorRT-LLM and Triton those that ask a model something
// pass, and what changes or reveals an engine does not, wherever it is.
func TestDefaultForward(t *testing.T) {
	t.Parallel()
	refused := []string{
		"POST /v2/repository/models/m/unload", "POST /v2/repository/models/m/load", "POST /v2/repository/index",
		"POST /v2/logging", "GET /v2/logging", "POST /v2/trace/setting", "GET /v2/trace/setting",
		"POST /v2/models/m/trace/setting", "GET /v2/models/m/trace/setting", "POST /v2/models/m/versions/1/trace/setting",
		"GET /v2/models/m/config", "GET /v2/models/m/stats", "GET /v2/models/stats", "POST /v2/models/m", "POST /v2/models/m/ready",
		"GET /v2/models", "GET /v2/models/", "GET /v2/models//infer", "POST /v2/models/m/versions/infer/", "POST /v2/models/m/infer/x",
		"POST /v2/systemsharedmemory/region/r/register", "GET /v2/systemsharedmemory/status", "POST /v2/cudasharedmemory/region/r/unregister",
		"GET /v2", "POST /v2/v1/completions", "POST /v2/nothing",
		"GET /v1/loads", "GET /v1/config", "POST /v1/collective_rpc", "POST /v1/nothing", "GET /v1", "GET /v1/",
		"POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter", "POST /v1/load_lora_adapter/", "POST /v1/load_lora_adapter;x",
		"POST /v1;x/load_lora_adapter", "POST /v1/score;x", "GET /v1/models/m;x", "GET /v1/models/m%253bx", "POST /v2/models/m;x/infer",
		"POST /v1/models/m", "DELETE /v1/models/m", "PUT /v1/models/m", "POST /v1/responses/r/input_items/x", "GET /v1/responses/r/else",
		"GET /v1/files", "POST /v1/batches", "GET /v1/metrics", "GET /v1/metadata", "GET /metrics", "GET /server_info", "GET /get_server_info",
		"POST /sleep", "POST /wake_up", "POST /pause", "POST /update_weights", "POST /collective_rpc", "POST /start_profile",
		"POST /reset_prefix_cache", "POST /flush_cache", "GET /kv_cache_events", "GET /load", "GET /get_load", "POST /abort_request",
		"POST /generate", "POST /invocations", "POST /inference/v1/generate", "GET /perf_metrics", "GET /prometheus/metrics", "GET /",
	}
	passes := []string{
		"POST /v1/embeddings", "POST /v1/rerank", "POST /v2/rerank", "POST /v2/embed", "POST /v1/score", "POST /v1/classify",
		"POST /v1/tokenize", "POST /v1/detokenize", "POST /v1/moderations", "POST /v1/audio/transcriptions", "POST /v1/audio/translations",
		"POST /v1/audio/speech", "POST /v1/images/generations", "POST /v1/images/edits", "GET /v1/realtime", "POST /v1/realtime/sessions",
		"POST /v1/chat/completions/", "POST /v1/chat/completions/render", "POST /v1/messages/count_tokens",
		"GET /v1/responses/resp_1", "DELETE /v1/responses/resp_1", "POST /v1/responses/resp_1/cancel", "GET /v1/responses/resp_1/input_items",
		"GET /v1/models", "GET /v1/models/org/name", "HEAD /v1/models/m",
		"POST /v2/models/m/infer", "POST /v2/models/m/versions/1/infer", "POST /v2/models/m/generate", "POST /v2/models/m/generate_stream",
		"GET /v2/models/m", "GET /v2/models/m/ready", "GET /v2/models/m/versions/1/ready", "GET /v2/health/ready",
		"POST /tokenize", "POST /detokenize", "GET /version", "GET /ping", "GET /health", "POST /rerank", "POST /score", "POST /classify", "POST /pooling",
	}
	ask := func(line string) bool {
		method, at, _ := strings.Cut(line, " ")
		u, err := url.Parse(at)
		require.NoError(t, err, line)
		return kvsteer.DefaultForward(&http.Request{Method: method, URL: u})
	}
	for _, line := range refused {
		require.False(t, ask(line), line)
	}
	for _, line := range passes {
		require.True(t, ask(line), line)
	}
}

// The same at the gateway: no worker hears of it.
func TestAdministrationBelowVersionsIsNotForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	before := len(r.engines[0].Requests())
	for _, path := range []string{
		"/v2/repository/models/m/unload", "/v2/logging", "/v2/trace/setting", "/v2/models/m/trace/setting",
		"/v2/systemsharedmemory/region/r/register", "/v1/loads", "/v1/config", "/v1/collective_rpc", "/v1/load_lora_adapter;x",
		"/v1/load_lora_adapter%3bx", "/v1/load_lora_adapter%253bx",
	} {
		a := r.post(path, "{}")
		require.Equal(t, http.StatusNotFound, a.status, "%s: %s", path, a.body)
		require.Contains(t, a.body, "not forwarded", path)
	}
	require.Len(t, r.engines[0].Requests(), before)
}
