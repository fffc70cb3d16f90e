package fleettest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// captures is where answers of a real vLLM are kept.
const captures = "../../internal/e2e/vllm/testdata"

// omitted are fields of vLLM that the fake engine doesn't have: they are always
// null or of no consequence to a router.
var omitted = map[string]bool{
	"routed_experts": true, "prompt_text": true, "ec_transfer_params": true, "metrics": true, "multimodal_tokens": true,
	"instructions": true, "metadata": true, "temperature": true, "tool_choice": true, "tools": true, "top_p": true,
	"background": true, "max_output_tokens": true, "max_tool_calls": true, "previous_response_id": true, "prompt": true,
	"reasoning": true, "service_tier": true, "top_logprobs": true, "truncation": true, "user": true,
	"presence_penalty": true, "frequency_penalty": true, "kv_transfer_params": true, "input_messages": true,
	"output_messages": true, "input_tokens_per_turn": true, "cached_tokens_per_turn": true, "tool_output_tokens": true,
	"output_tokens_per_turn": true, "tool_output_tokens_per_turn": true, "content_parts": true,
	"reasoning_ended": true, "reasoning_parser_kwargs": true, "return_token_ids": true, "output_mode": true,
	"stream_options": true, "buffer_steps": true, "hwm": true, "max_queue_size": true, "permission": true,
	"sampling_params": true,
}

// sameShape compares the fields of two JSON values, and the types of what both
// have; null fits everything.
func sameShape(t *testing.T, at string, ours, theirs any) {
	t.Helper()
	if ours == nil || theirs == nil {
		return
	}
	switch r := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			t.Errorf("%s: %T, vLLM has an object", at, ours)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(r)) {
			// The text of a whole response is a setting, always null.
			if _, ok := o[key]; !ok && !omitted[key] && (key != "text" || r[key] != nil) {
				t.Errorf("%s: no %q, which vLLM has", at, key)
			}
			if !omitted[key] {
				sameShape(t, at+"."+key, o[key], r[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if _, ok := r[key]; !ok {
				t.Errorf("%s: %q, which vLLM hasn't", at, key)
			}
		}
	case []any:
		o, ok := ours.([]any)
		if !ok {
			t.Errorf("%s: %T, vLLM has a list", at, ours)
			return
		}
		if len(o) > 0 && len(r) > 0 {
			sameShape(t, at+"[0]", o[0], r[0])
		}
		if (len(o) == 0) != (len(r) == 0) {
			t.Errorf("%s: %d elements, vLLM has %d", at, len(o), len(r))
		}
	default:
		if kind(ours) != kind(theirs) {
			t.Errorf("%s: %T, vLLM has %T", at, ours, theirs)
		}
	}
}

func kind(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	default:
		return "other"
	}
}

func captured(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(captures, file))
	if err != nil {
		t.Skipf("no capture: %v", err)
	}
	return raw
}

// The requests are of the captures' kind, four tokens each; the answers must have
// the fields, the order of events and the ends of those of vLLM 0.32.0.
func TestAnswersHaveTheShapeOfRealOnes(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	e := New(t, Config{Speed: fast, Render: true, Hub: hub})
	c := client(t)
	usage := map[string]any{"include_usage": true}
	continuous := map[string]any{"include_usage": true, "continuous_usage_stats": true}
	text := Text(1, 100)
	prompt := func(more ...any) map[string]any {
		m := map[string]any{"model": DefaultModel, "prompt": text, "max_tokens": 4}
		for i := 0; i+1 < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	for _, test := range []struct {
		file, path string
		body       any
	}{
		{"chat_first.json", pathChat, user(text, "max_tokens", 4)},
		{"chat_stream.txt", pathChat, user(text, "max_tokens", 4, "stream", true, "stream_options", usage)},
		{"chat_stream_no_usage.txt", pathChat, user(text, "max_tokens", 4, "stream", true)},
		{"chat_stream_continuous.txt", pathChat, user(text, "max_tokens", 4, "stream", true, "stream_options", continuous)},
		{"completion.json", pathCompletions, prompt()},
		{"completion_stream.txt", pathCompletions, prompt("stream", true, "stream_options", usage)},
		{"messages.json", pathMessages, user(text, "max_tokens", 4)},
		{"messages_stream.txt", pathMessages, user(text, "max_tokens", 4, "stream", true)},
		{"messages_count_tokens.json", pathCount, user(text)},
		{"responses.json", pathResponses, map[string]any{"input": text, "max_output_tokens": 4}},
		{"responses_stream.txt", pathResponses, map[string]any{"input": text, "max_output_tokens": 4, "stream": true}},
		{"tokenize_chat.json", "/tokenize", user(text)},
		{"tokenize_prompt.json", "/tokenize", prompt()},
		{"render_chat.json", pathChat + "/render", user(text)},
		{"render_messages.json", pathMessages + "/render", user(text)},
		{"render_responses.json", pathResponses + "/render", map[string]any{"input": text}},
		{"render_completion.json", pathCompletions + "/render", prompt()},
		{"error_json.json", pathChat, `{"model": "tiny", `},
		{"error_missing.json", pathChat, `{"model":"fake-model"}`},
		{"error_model.json", pathChat, user("x", "model", "other")},
		{"error_too_long.json", pathCompletions, prompt("max_tokens", DefaultMaxModelLen)},
		{"reset_prefix_cache.json", "/reset_prefix_cache", ""},
	} {
		_, _, ours := post(t, c, e.URL()+test.path, test.body)
		compare(t, test.file, ours, captured(t, test.file))
	}
	for file, path := range map[string]string{
		"models.json": "/v1/models", "version.json": "/version", "kv_event_sources.json": "/kv_event_sources",
		"load.json": "/load", "error_not_found.json": "/v1/nothing",
	} {
		_, ours := get(t, c, e.URL()+path)
		compare(t, file, []byte(ours), captured(t, file))
	}
}

func compare(t *testing.T, file string, ours, theirs []byte) {
	t.Helper()
	if strings.HasSuffix(file, ".json") {
		var o, r any
		if err := json.Unmarshal(ours, &o); err != nil {
			t.Errorf("%s: %v in %s", file, err, ours)
			return
		}
		if err := json.Unmarshal(theirs, &r); err != nil {
			t.Fatal(err)
		}
		sameShape(t, file, o, r)
		return
	}
	oursData, oursNames, oursDone := sseEvents(t, ours)
	realData, realNames, realDone := sseEvents(t, theirs)
	if oursDone != realDone || !slices.Equal(oursNames, realNames) {
		t.Errorf("%s: events %v, done %v; vLLM has %v, %v", file, oursNames, oursDone, realNames, realDone)
		return
	}
	for i := range realData {
		sameShape(t, file, oursData[i], realData[i])
	}
	// Not only the fields: the first bytes of each event too, where there is no id
	// in the way.
	prefix := func(raw []byte) []byte { return raw[:bytes.IndexByte(raw, ':')+3] }
	if !bytes.Equal(prefix(ours), prefix(theirs)) {
		t.Errorf("%s: begins with %q, vLLM with %q", file, prefix(ours), prefix(theirs))
	}
}

// Every metric of the fake engine exists in vLLM, with the same labels.
func TestMetricsHaveTheNamesOfRealOnes(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for line := range strings.SplitSeq(string(captured(t, "metrics.txt")), "\n") {
		known[series1(line)] = true
	}
	e := New(t, Config{Speed: fast})
	c := client(t)
	post(t, c, e.URL()+pathChat, user("x"))
	_, text := get(t, c, e.URL()+"/metrics")
	for line := range strings.SplitSeq(text, "\n") {
		if s := series1(line); !known[s] && !strings.Contains(s, "cache_config_info") {
			t.Errorf("vLLM has no %s", s)
		}
	}
}

// series1 returns a line's metric name and label names.
func series1(line string) string {
	if strings.HasPrefix(line, "#") {
		if strings.HasPrefix(line, "# TYPE") {
			return line
		}
		return ""
	}
	name, rest, _ := strings.Cut(line, "{")
	for label := range strings.SplitSeq(rest, `",`) {
		key, _, _ := strings.Cut(label, "=")
		name += " " + key
	}
	return name
}
