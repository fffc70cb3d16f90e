package fleettest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// polledEvent is an event as a consumer reads it.
type polledEvent struct {
	ID   *uint64 `json:"event_id"`
	Rank *int    `json:"attention_dp_rank"`
	Data struct {
		Type   string   `json:"type"`
		Parent *uint64  `json:"parent_hash"`
		Hashes []uint64 `json:"block_hashes"`
		Blocks []struct {
			Hash   uint64 `json:"block_hash"`
			Tokens []struct {
				ID uint32 `json:"token_id"`
			} `json:"tokens"`
			Salt *string `json:"cache_salt"`
			LoRA *int    `json:"lora_id"`
		} `json:"blocks"`
	} `json:"data"`
	Window int `json:"window_size"`
}

func poll(t *testing.T, e *fleettest.Engine) []polledEvent {
	t.Helper()
	status, body := ask(t, http.MethodPost, e.URL()+"/kv_cache_events", "")
	require.Equal(t, http.StatusOK, status)
	var list []polledEvent
	require.NoError(t, json.Unmarshal([]byte(body), &list), body)
	return list
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func trtllmEngine(t *testing.T, more func(c *fleettest.Config)) *fleettest.Engine {
	t.Helper()
	cfg := fleettest.Config{Dialect: fleettest.TensorRTLLM, Speed: 1000, OutputTokens: 4}
	if more != nil {
		more(&cfg)
	}
	return fleettest.New(t, cfg)
}

func complete(t *testing.T, e *fleettest.Engine, seed uint64, more string) {
	t.Helper()
	status, body := ask(t, http.MethodPost, e.URL()+"/v1/completions", `{"prompt":"`+fleettest.Text(seed, 100)+`"`+more+`}`)
	require.Equal(t, http.StatusOK, status, body)
}

func TestTensorRTLLMEvents(t *testing.T) {
	e := trtllmEngine(t, nil)
	w := e.Worker()
	assert.Equal(t, fleet.EngineTRTLLM, w.Engine)
	assert.Equal(t, 32, w.BlockSize)
	assert.Equal(t, []follow.Endpoint{{Events: e.URL()}}, w.Events)
	require.NoError(t, w.Validate())

	list := poll(t, e)
	require.Len(t, list, 1)
	assert.Zero(t, *list[0].ID)
	assert.Equal(t, "created", list[0].Data.Type)
	assert.Equal(t, fleettest.DefaultMaxModelLen, list[0].Window)
	assert.Nil(t, list[0].Rank)
	assert.Empty(t, poll(t, e), "a poll takes events out")

	complete(t, e, 1, "")
	list = poll(t, e)
	require.NotEmpty(t, list)
	assert.Equal(t, uint64(1), *list[0].ID)
	assert.Equal(t, "stored", list[0].Data.Type)
	assert.Nil(t, list[0].Data.Parent)
	assert.Nil(t, list[0].Data.Blocks[0].Salt)
	var tokens []uint32
	for i := range list {
		for _, b := range list[i].Data.Blocks {
			assert.Len(t, b.Tokens, 32)
			for _, token := range b.Tokens {
				tokens = append(tokens, token.ID)
			}
		}
	}
	assert.Equal(t, fleettest.Tokenize(fleettest.Text(1, 100))[:96], tokens)

	// The same again is told no second time.
	complete(t, e, 1, "")
	assert.Empty(t, poll(t, e))
	complete(t, e, 1, `,"cache_salt":"s"`)
	list = poll(t, e)
	require.NotEmpty(t, list)
	assert.Equal(t, "s", *list[0].Data.Blocks[0].Salt)
}

// The package's own decoder reads what the engine says, 64-bit hashes included.
func TestTensorRTLLMDecodes(t *testing.T) {
	e := trtllmEngine(t, func(c *fleettest.Config) {
		c.Ranks, c.Blocks, c.Adapters = 2, 8, []fleettest.Adapter{{Name: "a"}}
	})
	for seed := range uint64(8) {
		complete(t, e, seed, "")
	}
	complete(t, e, 1, `,"model":"a"`)
	_, body := ask(t, http.MethodPost, e.URL()+"/kv_cache_events", "")
	d := wire.TRTLLMDecoder{TokensPerBlock: 32}
	batches, err := d.Decode([]byte(body))
	require.NoError(t, err)
	require.Len(t, batches, 2, "one run of numbers for each rank")
	adapters := 0
	for i, b := range batches {
		assert.Equal(t, i, b.Rank)
		assert.Zero(t, b.First)
		assert.Zero(t, b.Malformed+b.Unknown)
		assert.True(t, b.Created)
		for k := range b.Events {
			if b.Events[k].AdapterUnnamed {
				adapters++
			}
		}
	}
	assert.Positive(t, adapters)
	assert.Contains(t, body, `"removed"`, "the cache is small")
}

func TestTensorRTLLMOverflow(t *testing.T) {
	e := trtllmEngine(t, func(c *fleettest.Config) { c.EventBuffer = 3 })
	for seed := range uint64(8) {
		complete(t, e, seed, "")
	}
	list := poll(t, e)
	require.Len(t, list, 3)
	assert.Positive(t, *list[0].ID, "the oldest went")
	assert.Equal(t, *list[0].ID+2, *list[2].ID)
	last := *list[2].ID
	e.Faults().BurnEvents(1)
	complete(t, e, 100, "")
	complete(t, e, 101, "")
	list = poll(t, e)
	assert.Greater(t, *list[0].ID, last+1)

	require.NoError(t, e.Restart())
	list = poll(t, e)
	require.Len(t, list, 1)
	assert.Zero(t, *list[0].ID)

	off := trtllmEngine(t, func(c *fleettest.Config) { c.EventBuffer = -1 })
	complete(t, off, 1, "")
	assert.Empty(t, poll(t, off))
	assert.Empty(t, off.Worker().Events)
}

func TestTensorRTLLMSurface(t *testing.T) {
	e := trtllmEngine(t, func(c *fleettest.Config) { c.Render = true })
	complete(t, e, 1, "")
	complete(t, e, 1, "")
	status, body := ask(t, http.MethodGet, e.URL()+"/prometheus/metrics", "")
	assert.Equal(t, http.StatusOK, status)
	for _, line := range []string{
		`trtllm_prompt_cached_tokens_total{model_name="fake-model",engine_type="trtllm"} 96.0`,
		`trtllm_request_success_total{model_name="fake-model",engine_type="trtllm",finished_reason="stop"} 2.0`,
		`trtllm_kv_cache_reused_blocks_total{model_name="fake-model",engine_type="trtllm"} 3.0`,
		`trtllm_kv_cache_utilization{`, `trtllm_kv_cache_hit_rate{`, `trtllm_time_to_first_token_seconds_count{`,
	} {
		assert.Contains(t, body, line)
	}
	_, body = ask(t, http.MethodGet, e.URL()+"/metrics", "")
	assert.Equal(t, "[]", body)
	_, body = ask(t, http.MethodGet, e.URL()+"/v1/models", "")
	assert.Contains(t, body, `"owned_by":"tensorrt_llm"`)
	for _, path := range []string{"/tokenize", "/sleep", "/reset_prefix_cache", "/flush_cache"} {
		status, _ = ask(t, http.MethodPost, e.URL()+path, `{"prompt":"x"}`)
		assert.Equal(t, http.StatusNotFound, status, path)
	}
	status, _ = ask(t, http.MethodGet, e.URL()+"/kv_cache_events", "")
	assert.NotEqual(t, http.StatusOK, status)
	status, _ = ask(t, http.MethodPost, e.URL()+"/v1/completions/render", `{"prompt":"x y"}`)
	assert.Equal(t, http.StatusOK, status)
}

func TestTensorRTLLMConfig(t *testing.T) {
	for _, c := range []fleettest.Config{
		{Dialect: fleettest.TensorRTLLM, Hub: follow.NewHub()},
		{Dialect: fleettest.TensorRTLLM, ZMQ: true},
		{Dialect: fleettest.TensorRTLLM + 1},
	} {
		_, err := fleettest.Start(c)
		require.ErrorIs(t, err, fleettest.ErrConfig)
	}
}
