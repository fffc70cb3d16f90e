//go:build e2e

package prompt_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/prompt/requests"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

const servedRequests = 150

// reported is what a serving engine says about a prompt: its ids where the API can
// return them, its length everywhere.
type reported struct {
	IDs     []uint32 `json:"prompt_token_ids"`
	Choices []struct {
		IDs []uint32 `json:"prompt_token_ids"`
	} `json:"choices"`
	Usage struct {
		Prompt      int `json:"prompt_tokens"`
		Input       int `json:"input_tokens"`
		CacheRead   int `json:"cache_read_input_tokens"`
		CacheCreate int `json:"cache_creation_input_tokens"`
	} `json:"usage"`
}

// TestServing compares with what an engine that generates reports about the prompts
// it computed: ids of chat and completions, lengths of messages and responses.
func TestServing(t *testing.T) {
	values := map[string]string{}
	for line := range strings.Lines(script(t, "../vllm/setup.sh")) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[k] = v
	}
	dir := values["KVSTEER_VLLM_MODEL"]
	require.NotEmpty(t, dir)
	src, err := local.New(local.Options{Models: map[string]local.Model{modelName: {Dir: dir, MaxModelLen: 16384}}})
	require.NoError(t, err)
	defer func() { _ = src.Close() }()
	ports := []int{freePort(t), freePort(t), freePort(t)}
	s := &server{
		url: launch(t, "serving", ports[0], "../vllm/worker.sh", "--port", strconv.Itoa(ports[0]), "--name", modelName,
			"--events-port", strconv.Itoa(ports[1]), "--replay-port", strconv.Itoa(ports[2]), "--no-events", "--no-dev",
			"--", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
		http: &http.Client{Timeout: 2 * time.Minute},
	}
	g := requests.New(uint64(env("KVSTEER_E2E_SEED", 1))+77, modelName)
	g.Thinking = true // the endpoint itself, not its render twin
	ids, counts, refusals := 0, 0, 0
	for range env("KVSTEER_E2E_SERVED", servedRequests) {
		r := g.Next()
		r.Body = limit(t, r)
		got, localErr := src.Encode(t.Context(), &prompt.Request{API: r.API, Model: modelName, Body: r.Body})
		reply, postErr := s.post(t.Context(), r.API.Path(), r.Body)
		var no refused
		if errors.As(postErr, &no) {
			refusals++
			continue
		}
		require.NoError(t, postErr, "%s", r.Body)
		require.NoError(t, localErr, "%s", r.Body)
		var v reported
		require.NoError(t, json.Unmarshal(reply, &v))
		want := v.IDs
		if len(v.Choices) > 0 && want == nil {
			want = v.Choices[0].IDs
		}
		if want != nil {
			require.True(t, slices.Equal(want, got.Tokens), "ids differ: %s", r.Body)
			ids++
		}
		n := v.Usage.Prompt + v.Usage.Input + v.Usage.CacheRead + v.Usage.CacheCreate
		require.Equal(t, n, got.Count, "%s: lengths differ: %s", r.API, r.Body)
		counts++
	}
	t.Logf("%d requests: ids of %d equal, lengths of %d equal, %d refused by the engine; 0 differences", counts+refusals, ids, counts, refusals)
	require.Positive(t, ids)
	require.Less(t, refusals, counts/10)
}

// limit makes the request generate one token and return the ids of its prompt.
func limit(t *testing.T, r requests.Request) []byte {
	t.Helper()
	o, err := jsonscan.Parse(r.Body, 0)
	require.NoError(t, err)
	var e jsonscan.Edit
	e.Set("stream", []byte("false"))
	switch r.API {
	case prompt.Chat, prompt.Completions:
		e.Set("return_token_ids", []byte("true"))
		e.Set("max_tokens", []byte("1"))
	case prompt.Responses:
		e.Set("max_output_tokens", []byte("1"))
	default:
		e.Set("max_tokens", []byte("1"))
		if o.Value("thinking").Get("type").Is("enabled") {
			e.Set("thinking", []byte(`{"type":"adaptive"}`)) // its budget would have to be generated
		}
	}
	body, err := e.Apply(o)
	require.NoError(t, err)
	return body
}
