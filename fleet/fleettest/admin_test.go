package fleettest

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	vllm := New(t, Config{Speed: fast, MaxBody: 2000, MaxModelLen: 100, APIKey: "k", Adapters: []Adapter{{Name: "tuned"}}})
	sglang := New(t, Config{Speed: fast, Dialect: SGLang})
	c := client(t)
	const auth = "Authorization"
	for _, test := range []struct {
		name, path string
		body       any
		header     string
		want       int
		says       string
	}{
		{"malformed", pathChat, `{"model":`, "Bearer k", 400, "JSON"},
		{"wrong type", pathChat, `{"model":"fake-model","max_tokens":"x"}`, "Bearer k", 400, "max_tokens"},
		{"no messages", pathChat, `{}`, "Bearer k", 400, "messages"},
		{"no role", pathChat, `{"messages":[{"content":"x"}]}`, "Bearer k", 400, "role"},
		{"content of the wrong kind", pathChat, `{"messages":[{"role":"user","content":7}]}`, "Bearer k", 400, "content"},
		{"unknown model", pathChat, user("x", "model", "nope"), "Bearer k", 404, "fake-model, tuned"},
		{"unknown model, messages", pathMessages, user("x", "model", "nope"), "Bearer k", 404, "not_found_error"},
		{"too large", pathChat, user(strings.Repeat("x", 3000)), "Bearer k", 413, "too large"},
		{"too long", pathChat, user(Text(1, 110)), "Bearer k", 400, "maximum context length"},
		{"too long with max_tokens", pathChat, user("x", "max_tokens", 95), "Bearer k", 400, "maximum context length"},
		{"max_tokens 0", pathChat, user("x", "max_tokens", 0), "Bearer k", 400, "max_tokens"},
		{"n 0", pathChat, user("x", "n", 0), "Bearer k", 400, "n must"},
		{"empty prompt", pathCompletions, `{"prompt":""}`, "Bearer k", 400, "empty"},
		{"prompt of the wrong kind", pathCompletions, `{"prompt":{}}`, "Bearer k", 400, "prompt"},
		{"no key", pathChat, user("x"), "", 401, "Unauthorized"},
		{"unknown path", "/v1/nothing", user("x"), "Bearer k", 404, "Not Found"},
		{"fine", pathChat, user("x"), "Bearer k", 200, "assistant"},
		{"tokenizing needs no key", "/tokenize", user("x"), "", 200, "tokens"},
		{"rendering is off", pathChat + "/render", user("x"), "Bearer k", 404, "Not Found"},
	} {
		status, _, raw := post(t, c, vllm.URL()+test.path, test.body, auth, test.header)
		if status != test.want || !strings.Contains(string(raw), test.says) {
			t.Errorf("%s: %d %s, want %d and %q", test.name, status, raw, test.want, test.says)
		}
		if status >= 400 && test.path != pathMessages && test.says != "Not Found" && number(t, decode(t, raw), "error", "code") != status {
			t.Errorf("%s: not vLLM's shape: %s", test.name, raw)
		}
	}
	status, _, raw := post(t, c, sglang.URL()+pathChat, `{"model":"nope"}`)
	if v := decode(t, raw); status != 404 || number(t, v, "code") != 404 || v["object"] != "error" {
		t.Errorf("SGLang: %d %s", status, raw)
	}
}

func TestRequestsAreRecordedExactly(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, Record: 2, OutputTokens: 1})
	c := client(t)
	odd := "{ \"model\" : \"fake-model\",\"z\":1.0, \"a\":9007199254740993,\r\n\"messages\":[{\"role\":\"user\",\"content\":\"caf\\u00e9 \xe2\x9c\x93\"}] }"
	post(t, c, e.URL()+pathChat, user("forgotten"))
	post(t, c, e.URL()+pathChat, odd, "X-Canary", "tweet")
	post(t, c, e.URL()+pathChat, `{"model":"nope","messages":[]}`)
	list := e.Requests()
	if len(list) != 2 {
		t.Fatalf("%d requests recorded, want the latest 2", len(list))
	}
	r := list[0]
	if !bytes.Equal(r.Body, []byte(odd)) || r.Header.Get("X-Canary") != "tweet" || r.Status != 200 || r.Model != "fake-model" || r.Rank != 0 {
		t.Errorf("recorded %+v", r)
	}
	if list[1].Status != 404 || list[1].Rank != -1 || list[1].Model != "nope" {
		t.Errorf("recorded %+v", list[1])
	}
}

func TestModelsAndInfo(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, Model: "base", Adapters: []Adapter{{Name: "tuned"}}, Ranks: 2})
	c := client(t)
	_, body := get(t, c, e.URL()+"/v1/models")
	v := decode(t, []byte(body))
	if dig(t, v, "data", 0, "id") != "base" || dig(t, v, "data", 0, "parent") != nil || number(t, v, "data", 0, "max_model_len") != DefaultMaxModelLen {
		t.Errorf("base model: %s", body)
	}
	if dig(t, v, "data", 1, "id") != "tuned" || dig(t, v, "data", 1, "parent") != "base" {
		t.Errorf("adapter: %s", body)
	}
	_, body = get(t, c, e.URL()+"/server_info")
	if number(t, decode(t, []byte(body)), "vllm_config", "block_size") != 16 {
		t.Errorf("info: %s", body)
	}
	if status, _ := get(t, c, e.URL()+"/health"); status != 200 {
		t.Errorf("health: %d", status)
	}
	if w := e.Worker(); w.Name != "engine" || w.URL != e.URL() || w.DataParallel != 2 {
		t.Errorf("worker %+v", w)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, Ranks: 2, Model: `m"1`, OutputTokens: 3})
	c := client(t)
	for range 2 {
		post(t, c, e.URL()+pathChat, user(Text(1, 92), "model", `m"1`), headerRank, "1")
	}
	has := func(text string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("metrics lack %q:\n%s", line, text)
			}
		}
	}
	_, text := get(t, c, e.URL()+"/metrics")
	has(text, "# TYPE vllm:num_requests_running gauge",
		`vllm:num_requests_running{engine="0",model_name="m\"1"} 0.0`,
		`vllm:prefix_cache_queries_total{engine="1",model_name="m\"1"} 200.0`,
		`vllm:prefix_cache_hits_total{engine="1",model_name="m\"1"} 96.0`,
		`vllm:generation_tokens_total{engine="1",model_name="m\"1"} 6.0`,
		`vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="1",kv_cache_size_tokens="196608",num_gpu_blocks="12288"} 1.0`,
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m\"1"} 2.0`,
		`vllm:time_to_first_token_seconds_bucket{engine="0",le="2560.0",model_name="m\"1"} 2.0`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="m\"1"} 2.0`)
	e.Faults().MetricsBlockSize(32)
	e.Faults().FreezeMetrics(true)
	_, frozen := get(t, c, e.URL()+"/metrics")
	has(frozen, `vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="196608",num_gpu_blocks="12288"} 1.0`)
	post(t, c, e.URL()+pathChat, user("more", "model", `m"1`))
	if _, again := get(t, c, e.URL()+"/metrics"); again != frozen {
		t.Error("frozen metrics changed")
	}
	e.Faults().Clear()
	if _, now := get(t, c, e.URL()+"/metrics"); now == frozen {
		t.Error("metrics still frozen")
	}
	e.Faults().HideMetrics(true)
	if status, _ := get(t, c, e.URL()+"/metrics"); status != 404 {
		t.Errorf("hidden metrics answer %d", status)
	}
	s := New(t, Config{Speed: fast, Dialect: SGLang})
	_, text = get(t, c, s.URL()+"/metrics")
	has(text, `sglang:num_running_reqs{dp_rank="0",model_name="fake-model"} 0.0`)
}

func TestUsageSwitches(t *testing.T) {
	t.Parallel()
	c := client(t)
	ask := func(cfg Config, faults func(*Faults)) map[string]any {
		cfg.Speed = fast
		e := New(t, cfg)
		if faults != nil {
			faults(e.Faults())
		}
		post(t, c, e.URL()+pathChat, user(Text(1, 40)))
		_, _, raw := post(t, c, e.URL()+pathChat, user("other words"))
		return decode(t, raw)
	}
	if v := ask(Config{NoCachedTokens: true}, nil); dig(t, v, "usage", "prompt_tokens_details") != nil {
		t.Errorf("vLLM without details: %v", v["usage"])
	}
	if v := ask(Config{}, nil); number(t, v, "usage", "prompt_tokens_details", "cached_tokens") != 0 {
		t.Errorf("vLLM with details: %v", v["usage"])
	}
	usage, ok := ask(Config{Dialect: SGLang}, nil)["usage"].(map[string]any)
	if _, there := usage["prompt_tokens_details"]; !ok || there {
		t.Errorf("SGLang with nothing cached: %v", usage)
	}
	if v := ask(Config{}, func(f *Faults) { f.NoUsage(true) }); v["usage"] != nil {
		t.Errorf("usage in spite of the fault: %v", v["usage"])
	}
}

func TestAdminHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(t *testing.T, e *Engine, c *http.Client) {
		t.Helper()
		e.Faults().HangAdmin(true)
		time.AfterFunc(time.Minute, e.Faults().Clear)
		start := time.Now()
		post(t, c, e.URL()+pathChat, user("x", "max_tokens", 1))
		if time.Since(start) > time.Second {
			t.Error("the API hangs too")
		}
		if status, _ := get(t, c, e.URL()+"/health"); status != 200 || time.Since(start) != time.Minute {
			t.Errorf("health %d after %v", status, time.Since(start))
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Ranks: -1},
		{Speed: -1},
		{BlockSize: -1},
		{Events: 99},
		{Network: NewNetwork(), Listener: &pipeListener{}},
	} {
		if e, err := Start(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, %v", cfg, e, err)
		}
	}
	n := NewNetwork()
	New(t, Config{Network: n, Name: "a"})
	if _, err := Start(Config{Network: n, Name: "a"}); !errors.Is(err, ErrConfig) {
		t.Errorf("two engines of one name: %v", err)
	}
}
