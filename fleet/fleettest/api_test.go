package fleettest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestChatAnswersAndReusesThePrefix(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast})
	c := client(t)
	// 7 tokens of template around 313: 320 is a multiple of the block size.
	body := user(Text(1, 312), "max_tokens", 10)
	status, header, raw := post(t, c, e.URL()+pathChat, body, "X-Request-Id", "abc")
	first := decode(t, raw)
	if status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s", status, header, raw)
	}
	if dig(t, first, "id") != "chatcmpl-abc" || dig(t, first, "choices", 0, "finish_reason") != "length" {
		t.Errorf("answer %s", raw)
	}
	n := number(t, first, "usage", "prompt_tokens")
	if n != 320 || number(t, first, "usage", "completion_tokens") != 10 || number(t, first, "usage", "total_tokens") != 330 {
		t.Errorf("usage %v, want 320 + 10", dig(t, first, "usage"))
	}
	if got := number(t, first, "usage", "prompt_tokens_details", "cached_tokens"); got != 0 {
		t.Errorf("%d tokens cached at first", got)
	}
	_, _, raw = post(t, c, e.URL()+pathChat, body)
	// A fully cached prompt computes its last block again.
	if got := number(t, decode(t, raw), "usage", "prompt_tokens_details", "cached_tokens"); got != 304 {
		t.Errorf("%d tokens cached at the second time, want 304", got)
	}
	if s := e.Stats(); s.HitTokens != 304 || s.QueriedTokens != 640 || s.Requests != 2 || s.InFlight != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestTheNextTurnHitsTheAnswerToo(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, BlockSize: 4})
	c := client(t)
	messages := []any{map[string]any{"role": "user", "content": Text(2, 41)}}
	for turn := range 3 {
		req := map[string]any{"model": DefaultModel, "messages": messages}
		_, _, raw := post(t, c, e.URL()+pathChat, req)
		answer := decode(t, raw)
		prompt, cached := number(t, answer, "usage", "prompt_tokens"), number(t, answer, "usage", "prompt_tokens_details", "cached_tokens")
		// All that was computed before: the whole last prompt and answer but for its
		// end token, down to a full block.
		previous := 0
		for _, r := range e.Requests()[:turn] {
			previous = r.PromptTokens + DefaultOutputTokens - 1
		}
		if want := previous / 4 * 4; cached != want {
			t.Errorf("turn %d: %d of %d tokens cached, want %d", turn, cached, prompt, want)
		}
		messages = append(messages,
			map[string]any{"role": "assistant", "content": dig(t, answer, "choices", 0, "message", "content")},
			map[string]any{"role": "user", "content": Text(uint64(100+turn), 20)})
	}
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		body  map[string]any
		usage bool
	}{
		{"no usage unless asked for", user("hello there", "stream", true), false},
		{"usage", user("hello there", "stream", true, "stream_options", map[string]any{"include_usage": true}), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Config{Speed: fast, OutputTokens: 5})
			c := client(t)
			_, header, raw := post(t, c, e.URL()+pathChat, test.body)
			if !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("content type %q", header.Get("Content-Type"))
			}
			data, _, done := sseEvents(t, raw)
			want := 6 // the role, then five tokens
			if test.usage {
				want++
			}
			if !done || len(data) != want {
				t.Fatalf("%d chunks, done %v, want %d: %s", len(data), done, want, raw)
			}
			if dig(t, data[0], "choices", 0, "delta", "role") != "assistant" {
				t.Errorf("first chunk %v", data[0])
			}
			text := ""
			for i, chunk := range data[1:6] {
				text += dig(t, chunk, "choices", 0, "delta", "content").(string)
				finish := dig(t, chunk, "choices", 0, "finish_reason")
				if (i == 4) != (finish == "stop") {
					t.Errorf("chunk %d finishes with %v", i, finish)
				}
			}
			if n := len(Tokenize(text)); n != 4 {
				t.Errorf("text %q has %d tokens, want 4 and an end token", text, n)
			}
			if !test.usage {
				return
			}
			last := data[6]
			if choices, ok := last["choices"].([]any); !ok || len(choices) != 0 {
				t.Errorf("choices of the usage chunk: %v", last["choices"])
			}
			if number(t, last, "usage", "completion_tokens") != 5 || number(t, last, "usage", "prompt_tokens") != len(mustChat(t, "hello there")) {
				t.Errorf("usage %v", last["usage"])
			}
		})
	}
}

// mustRender renders a request of the chat or messages API.
func mustRender(t *testing.T, request map[string]any) []uint32 {
	t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseBody(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.prompts(pathMessages)
	if err != nil {
		t.Fatal(err)
	}
	return p[0].tokens
}

// mustChat renders a conversation of one message.
func mustChat(t *testing.T, text string) []uint32 {
	t.Helper()
	p, err := chat([]message{{Role: "user", Content: appendQuoted(nil, text)}}, nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	return p.tokens
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, OutputTokens: 3})
	c := client(t)
	_, _, raw := post(t, c, e.URL()+pathCompletions, map[string]any{
		"model": DefaultModel, "prompt": []string{"one two", "three"}, "n": 2, "return_token_ids": true,
	})
	answer := decode(t, raw)
	if got := len(answer["choices"].([]any)); got != 4 {
		t.Fatalf("%d choices, want 4", got)
	}
	if number(t, answer, "usage", "prompt_tokens") != 3 || number(t, answer, "usage", "completion_tokens") != 12 {
		t.Errorf("usage %v, want 3 + 12", answer["usage"])
	}
	if ids := dig(t, answer, "choices", 2, "prompt_token_ids").([]any); len(ids) != 1 || ids[0] != float64(Tokenize("three")[0]) {
		t.Errorf("prompt ids of the third choice: %v", ids)
	}
	_, _, raw = post(t, c, e.URL()+pathCompletions, map[string]any{
		"model": DefaultModel, "prompt": []int{5, 6, 7}, "stream": true, "max_tokens": 2, "n": 2, "ignore_eos": true,
		"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true},
	})
	data, _, done := sseEvents(t, raw)
	if !done || len(data) != 5 {
		t.Fatalf("%d chunks, done %v: %s", len(data), done, raw)
	}
	for _, chunk := range data {
		if number(t, chunk, "usage", "prompt_tokens") != 3 {
			t.Errorf("chunk without usage: %v", chunk)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, OutputTokens: 4, BlockSize: 2})
	c := client(t)
	body := user("what is it", "max_tokens", 100, "system", "be brief")
	_, _, raw := post(t, c, e.URL()+pathMessages, body)
	answer := decode(t, raw)
	// What fills new blocks isn't input, nor is what was read from the cache.
	prompt := len(mustRender(t, body))
	if in, created := number(t, answer, "usage", "input_tokens"), number(t, answer, "usage", "cache_creation_input_tokens"); created != prompt/2*2 || in != prompt%2 {
		t.Errorf("usage %v of %d tokens", answer["usage"], prompt)
	}
	if dig(t, answer, "stop_reason") != "end_turn" || dig(t, answer, "content", 0, "type") != "text" {
		t.Errorf("answer %s", raw)
	}
	body["stream"] = true
	_, _, raw = post(t, c, e.URL()+pathMessages, body)
	data, names, _ := sseEvents(t, raw)
	want := []string{
		"message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_delta",
		"content_block_stop", "message_delta", "message_stop",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("events %v, want %v", names, want)
	}
	start, delta := data[0], data[6]
	if number(t, start, "message", "usage", "input_tokens") != prompt {
		t.Errorf("usage %v of a prompt of %d", dig(t, start, "message", "usage"), prompt)
	}
	if read := number(t, delta, "usage", "cache_read_input_tokens"); read != (prompt-1)/2*2 {
		t.Errorf("read %d tokens of %d from the cache", read, prompt)
	}
	if number(t, delta, "usage", "output_tokens") != 4 || dig(t, delta, "delta", "stop_reason") != "end_turn" {
		t.Errorf("delta %v", delta)
	}
	_, _, raw = post(t, c, e.URL()+pathCount, body)
	if got := number(t, decode(t, raw), "input_tokens"); got != prompt {
		t.Errorf("count_tokens says %d, usage %d", got, prompt)
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, OutputTokens: 4})
	c := client(t)
	body := map[string]any{"model": DefaultModel, "input": "what is it", "instructions": "be brief", "max_output_tokens": 3}
	_, _, raw := post(t, c, e.URL()+pathResponses, body)
	answer := decode(t, raw)
	if dig(t, answer, "status") != "incomplete" || number(t, answer, "usage", "output_tokens") != 3 ||
		dig(t, answer, "output", 0, "content", 0, "type") != "output_text" {
		t.Errorf("answer %s", raw)
	}
	body["stream"], body["max_output_tokens"] = true, 10
	_, _, raw = post(t, c, e.URL()+pathResponses, body)
	data, names, _ := sseEvents(t, raw)
	if names[0] != "response.created" || names[len(names)-1] != "response.completed" {
		t.Fatalf("events %v", names)
	}
	for i, event := range data {
		if number(t, event, "sequence_number") != i || event["type"] != names[i] {
			t.Errorf("event %d: %v named %s", i, event, names[i])
		}
	}
	if got := number(t, data[len(data)-1], "response", "usage", "input_tokens_details", "cached_tokens"); got != 16 {
		t.Errorf("cached %d tokens of a prompt seen before, want 16", got)
	}
}

func TestTheSamePromptByEveryAPI(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, Render: true, BlockSize: 4})
	c := client(t)
	text := Text(3, 100)
	post(t, c, e.URL()+pathChat, user(text))
	for path, body := range map[string]any{
		pathMessages:  user(text, "max_tokens", 1),
		pathResponses: map[string]any{"model": DefaultModel, "input": text, "max_output_tokens": 1},
	} {
		post(t, c, e.URL()+path, body)
	}
	for _, r := range e.Requests()[1:] {
		if r.PromptTokens != len(mustChat(t, text)) || r.CachedTokens != (r.PromptTokens-1)/4*4 {
			t.Errorf("%s: %d of %d tokens cached", r.Path, r.CachedTokens, r.PromptTokens)
		}
	}
	_, _, raw := post(t, c, e.URL()+"/tokenize", user(text))
	_, _, rendered := post(t, c, e.URL()+pathChat+"/render", user(text))
	tokens, ids := dig(t, decode(t, raw), "tokens").([]any), dig(t, decode(t, rendered), "token_ids").([]any)
	if len(tokens) != len(mustChat(t, text)) || !slices.Equal(tokens, ids) {
		t.Errorf("/tokenize gives %d ids, render %d", len(tokens), len(ids))
	}
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast})
	_, _, raw := post(t, client(t), e.URL()+pathEmbeddings, map[string]any{"model": DefaultModel, "input": []string{"a b", "c"}})
	answer := decode(t, raw)
	if len(dig(t, answer, "data", 1, "embedding").([]any)) == 0 || number(t, answer, "usage", "prompt_tokens") != 3 {
		t.Errorf("answer %s", raw)
	}
}

func TestPrefillAndDecodeApart(t *testing.T) {
	t.Parallel()
	prefill, decoder := New(t, Config{Name: "p", Speed: fast}), New(t, Config{Name: "d", Speed: fast})
	c := client(t)
	leg := user(Text(1, 312), "max_tokens", 1, "kv_transfer_params", map[string]any{
		"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": nil, "remote_block_ids": nil,
	})
	_, _, raw := post(t, c, prefill.URL()+pathChat, leg)
	params := dig(t, decode(t, raw), "kv_transfer_params")
	if dig(t, params, "do_remote_prefill") != true || len(dig(t, params, "remote_block_ids").([]any)) != 20 {
		t.Fatalf("prefill answers %s", raw)
	}
	_, _, raw = post(t, c, decoder.URL()+pathChat, user(Text(1, 312), "max_tokens", 5, "kv_transfer_params", params))
	if got := number(t, decode(t, raw), "usage", "prompt_tokens_details", "cached_tokens"); got != 319 {
		t.Errorf("the decoding engine reused %d of 320 tokens", got)
	}
	if p, d := prefill.Stats(), decoder.Stats(); p.PrefillTokens != 320 || d.PrefillTokens != 1 || d.HitTokens != 0 {
		t.Errorf("prefill engine %+v, decode engine %+v", p, d)
	}
	_, _, raw = post(t, c, decoder.URL()+pathChat, user(Text(2, 312), "max_tokens", 5))
	if v := decode(t, raw)["kv_transfer_params"]; v != nil {
		t.Errorf("an ordinary answer carries %v", v)
	}
}
