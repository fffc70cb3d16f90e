package usage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUsageShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chunks []string
		want   Usage
		none   bool
	}{
		"chat": {
			chunks: []string{`{"usage":{"prompt_tokens":640,"completion_tokens":9,"total_tokens":649,"prompt_tokens_details":{"cached_tokens":624},"completion_tokens_details":{"reasoning_tokens":4}}}`},
			want:   Usage{Uncached: 16, CacheRead: 624, Output: 9, Reasoning: 4, CachedKnown: true},
		},
		"details null":         {chunks: []string{`{"usage":{"prompt_tokens":640,"completion_tokens":9,"prompt_tokens_details":null}}`}, want: Usage{Uncached: 640, Output: 9}},
		"details absent":       {chunks: []string{`{"usage":{"prompt_tokens":640,"completion_tokens":9}}`}, want: Usage{Uncached: 640, Output: 9}},
		"cached null":          {chunks: []string{`{"usage":{"prompt_tokens":6,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":null}}}`}, want: Usage{Uncached: 6, Output: 9}},
		"cached zero is known": {chunks: []string{`{"usage":{"prompt_tokens":6,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}`}, want: Usage{Uncached: 6, Output: 9, CachedKnown: true}},
		"cached beyond prompt": {chunks: []string{`{"usage":{"prompt_tokens":6,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":99}}}`}, want: Usage{CacheRead: 6, Output: 9, CachedKnown: true}},
		"embeddings":           {chunks: []string{`{"object":"list","data":[],"usage":{"prompt_tokens":6,"total_tokens":6}}`}, want: Usage{Uncached: 6}},
		"every chunk, the last counts once": {chunks: []string{
			`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":6,"completion_tokens":1}}`,
			`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":6,"completion_tokens":2}}`,
			`{"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`,
		}, want: Usage{Uncached: 2, CacheRead: 4, Output: 3, CachedKnown: true}},
		"null afterwards": {chunks: []string{`{"usage":{"prompt_tokens":6,"completion_tokens":3}}`, `{"usage":null}`}, want: Usage{Uncached: 6, Output: 3}},
		"responses": {chunks: []string{
			`{"type":"response.created","response":{"usage":null}}`,
			`{"type":"response.completed","response":{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":10},"total_tokens":130}}}`,
		}, want: Usage{Uncached: 40, CacheRead: 60, Output: 30, Reasoning: 10, CachedKnown: true}},
		"responses body": {chunks: []string{`{"object":"response","output":[{"type":"message"}],"usage":{"input_tokens":100,"output_tokens":30}}`}, want: Usage{Uncached: 100, Output: 30}},
		"messages": {chunks: []string{
			`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}`,
		}, want: Usage{Uncached: 25, CacheRead: 100, CacheWrite: 10, Output: 15, CachedKnown: true}},
		"messages, late": {chunks: []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":25,"output_tokens":15,"cache_read_input_tokens":null}}`,
		}, want: Usage{Uncached: 25, Output: 15}},
		"messages, zero afterwards": {chunks: []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":7,"output_tokens":1}}}`,
			`{"type":"message_delta","usage":{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":15}}`,
		}, want: Usage{Uncached: 25, CacheRead: 7, Output: 15, CachedKnown: true}},
		"messages, cached at the end": {chunks: []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":19,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":2,"cache_read_input_tokens":16,"cache_creation_input_tokens":1,"output_tokens":15}}`,
		}, want: Usage{Uncached: 2, CacheRead: 16, CacheWrite: 1, Output: 15, CachedKnown: true}},
		"messages, all cached": {chunks: []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":16,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":0,"cache_read_input_tokens":16,"output_tokens":15}}`,
		}, want: Usage{CacheRead: 16, Output: 15, CachedKnown: true}},
		"created":         {chunks: []string{`{"usage":{"prompt_tokens":20,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16,"created_cache_tokens":3}}}`}, want: Usage{Uncached: 1, CacheRead: 16, CacheWrite: 3, Output: 1, CachedKnown: true}},
		"messages body":   {chunks: []string{`{"type":"message","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":25,"output_tokens":15}}`}, want: Usage{Uncached: 25, Output: 15}},
		"sglang":          {chunks: []string{`{"text":"a","meta_info":{"id":"x","prompt_tokens":20,"completion_tokens":2,"cached_tokens":16}}`}, want: Usage{Uncached: 4, CacheRead: 16, Output: 2, CachedKnown: true}},
		"translated":      {chunks: []string{`{"usage":{"prompt_tokens":135,"completion_tokens":15,"cache_read_input_tokens":100,"cache_creation_input_tokens":10,"prompt_tokens_details":{"cached_tokens":100}}}`}, want: Usage{Uncached: 25, CacheRead: 100, CacheWrite: 10, Output: 15, CachedKnown: true}},
		"floats":          {chunks: []string{`{"usage":{"prompt_tokens":6.0,"completion_tokens":3.0}}`}, want: Usage{Uncached: 6, Output: 3}},
		"insane":          {chunks: []string{`{"usage":{"prompt_tokens":-6,"completion_tokens":1e12,"prompt_tokens_details":[1]}}`}, want: Usage{Output: math.MaxInt32}},
		"reasoning > out": {chunks: []string{`{"usage":{"prompt_tokens":1,"completion_tokens":3,"reasoning_tokens":5}}`}, want: Usage{Uncached: 1, Output: 3, Reasoning: 3}},
		"messages, thought": {chunks: []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15,"output_tokens_details":{"thinking_tokens":9}}}`,
		}, want: Usage{Uncached: 25, Output: 15, Reasoning: 9}},
		"messages body, thought": {
			chunks: []string{`{"type":"message","content":[],"usage":{"input_tokens":25,"output_tokens":15,"output_tokens_details":{"thinking_tokens":9}}}`},
			want:   Usage{Uncached: 25, Output: 15, Reasoning: 9},
		},
		// As Gemini's endpoint counts.
		"thoughts in the total only": {
			chunks: []string{`{"choices":[],"usage":{"completion_tokens":1,"prompt_tokens":9,"total_tokens":103}}`},
			want:   Usage{Uncached: 9, Output: 94, Reasoning: 93},
		},
		// As xAI's does.
		"thoughts beside the answer": {
			chunks: []string{`{"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":113,"completion_tokens_details":{"reasoning_tokens":100}}}`},
			want:   Usage{Uncached: 9, Output: 104, Reasoning: 100},
		},
		"thoughts in the total, cached": {
			chunks: []string{`{"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":113,"prompt_tokens_details":{"cached_tokens":8}}}`},
			want:   Usage{Uncached: 1, CacheRead: 8, Output: 104, Reasoning: 100, CachedKnown: true},
		},
		"a total of earlier": {chunks: []string{
			`{"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":113}}`,
			`{"usage":{"prompt_tokens":9,"completion_tokens":5}}`,
		}, want: Usage{Uncached: 9, Output: 5}},
		"a total of prompts":   {chunks: []string{`{"object":"list","data":[],"usage":{"prompt_tokens":6,"total_tokens":8}}`}, want: Usage{Uncached: 6}},
		"a total of less":      {chunks: []string{`{"usage":{"prompt_tokens":6,"completion_tokens":3,"total_tokens":1}}`}, want: Usage{Uncached: 6, Output: 3}},
		"a total, input apart": {chunks: []string{`{"type":"message","usage":{"input_tokens":6,"cache_read_input_tokens":90,"output_tokens":3,"total_tokens":99}}`}, want: Usage{Uncached: 6, CacheRead: 90, Output: 3, CachedKnown: true}},
		"none":                 {chunks: []string{`{"choices":[]}`, `[DONE]`, ``, `[1]`, `{"usage":[]}`, `{"usage":{}}`, `{"usage":"x"}`, `{"usage":{"prompt_tokens":"7"}}`, `{`}, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Reader
			for _, chunk := range c.chunks {
				r.Read([]byte(chunk))
			}
			got, ok := r.Usage()
			assert.Equal(t, !c.none, ok)
			assert.Equal(t, c.want, got)
			assert.GreaterOrEqual(t, got.Uncached, 0)
		})
	}
}

func TestChunk(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Chunk{
		// OpenAI chat
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`:    0,
		`{"choices":[{"delta":{"role":"assistant","content":null}}]}`:                                 0,
		`{"choices":[{"delta":{"content":"a"}}]}`:                                                     Content,
		`{"choices":[{"delta":{"content":" "}}]}`:                                                     Content,
		`{"choices":[{"delta":{}},{"delta":{"content":"a"}}]}`:                                        Content,
		`{"choices":[{"delta":{"reasoning_content":"a","content":null}}]}`:                            Content,
		`{"choices":[{"delta":{"reasoning":"a"}}]}`:                                                   Content,
		`{"choices":[{"delta":{"refusal":"no"}}]}`:                                                    Content,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`: Content,
		`{"choices":[{"delta":{"tool_calls":[]}}]}`:                                                   0,
		`{"choices":[{"delta":{"content":""},"token_ids":[7]}]}`:                                      Content,
		`{"choices":[{"delta":{},"finish_reason":"stop"}]}`:                                           0,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`:               HasUsage,
		`{"choices":[],"usage":{"prompt_tokens":1}}`:                                                  HasUsage | UsageOnly,
		`{"choices":null,"usage":{"prompt_tokens":1}}`:                                                HasUsage | UsageOnly,
		`{"object":"chat.completion.chunk","usage":{"prompt_tokens":1}}`:                              HasUsage | UsageOnly,
		`{"choices":[],"usage":null}`:                                                                 0,
		`{"choices":[],"prompt_filter_results":[]}`:                                                   0,
		`{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}`:                     Content | HasUsage,
		`{"choices":[{"message":{"role":"assistant","content":"a"}}],"usage":{"prompt_tokens":1}}`:    Content | HasUsage,
		`{"object":"list","data":[{"embedding":[1]}],"usage":{"prompt_tokens":1}}`:                    HasUsage,
		`{"error":{"message":"x","code":500}}`:                                                        Failed,
		`{"object":"error","message":"x"}`:                                                            Failed,
		`{"error":null,"choices":[{"delta":{"content":"a"}}]}`:                                        Content,
		`{"choices":"x"}`: 0, `{"choices":[1,null]}`: 0, `[DONE]`: 0, `not json {`: 0, `[{"text":"a"}]`: 0,
		// completions
		`{"choices":[{"text":""}]}`:                             0,
		`{"choices":[{"text":"a"}]}`:                            Content,
		`{"object":"text_completion","choices":[{"text":"a"}]}`: Content,
		// SGLang
		`{"text":"a","meta_info":{"prompt_tokens":1}}`: Content | HasUsage,
		// Anthropic
		`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":3}}}`: HasUsage,
		`{"type":"ping"}`: 0,
		`{"type":"content_block_start","content_block":{"type":"text","text":""}}`:                          0,
		`{"type":"content_block_start","content_block":{"type":"tool_use","id":"x","name":"f","input":{}}}`: Content,
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`:                           Content,
		`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}`:                   Content,
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}`:             Content,
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}`:              0,
		`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"a"}}`:                 0,
		`{"type":"content_block_stop"}`: 0,
		`{"type":"message_delta","delta":{"stop_reason":"x"},"usage":{"output_tokens":3}}`:     HasUsage,
		`{"type":"error","error":{"type":"overloaded_error"}}`:                                 Failed,
		`{"type":"message","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":3}}`: Content | HasUsage,
		// responses
		`{"type":"response.created","response":{"usage":null}}`:                            0,
		`{"type":"response.output_item.added","item":{"type":"message"}}`:                  0,
		`{"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}`: Content,
		`{"type":"response.output_text.delta","delta":"a"}`:                                Content,
		`{"type":"response.output_text.delta","delta":""}`:                                 0,
		`{"type":"response.reasoning_text.delta","delta":"a"}`:                             Content,
		`{"type":"response.function_call_arguments.delta","delta":"{"}`:                    Content,
		`{"type":"response.output_item.done","item":{}}`:                                   Content,
		`{"type":"response.output_text.done","text":"a"}`:                                  Content,
		`{"type":"response.completed","response":{"usage":{"input_tokens":3}}}`:            HasUsage,
		`{"type":"response.failed","response":{"error":{}}}`:                               Failed,
		`{"object":"response","output":[{}],"usage":{"input_tokens":3}}`:                   Content | HasUsage,
	} {
		var r Reader
		assert.Equal(t, want, r.Read([]byte(in)), in)
		n := 0
		if want.Has(Content) {
			n = 1
		}
		assert.Equal(t, n, r.ContentChunks(), in)
	}
}

func TestPromptIDs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]uint32{
		`{"prompt_token_ids":[1,2,4294967295],"choices":[]}`:                {1, 2, 4294967295},
		`{"choices":[{"prompt_token_ids":[3,4]},{"prompt_token_ids":[5]}]}`: {3, 4},
		`{"prompt_token_ids":null,"choices":[{"prompt_token_ids":null}]}`:   nil,
		`{"prompt_token_ids":[1,-2]}`:                                       nil, `{"prompt_token_ids":[1,4294967296]}`: nil, `{"prompt_token_ids":["1"]}`: nil, `{}`: nil,
	} {
		r := Reader{WantIDs: true}
		r.Read([]byte(in))
		r.Read([]byte(`{"prompt_token_ids":null}`))
		assert.Equal(t, want, r.PromptIDs(), in)
		var unasked Reader
		unasked.Read([]byte(in))
		assert.Nil(t, unasked.PromptIDs())
	}
}

func TestReadAllocs(t *testing.T) {
	chunks := [][]byte{
		[]byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3","choices":[{"index":0,"delta":{"content":"hello"},"logprobs":null,"finish_reason":null}]}`),
		[]byte(`{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":640,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":624}}}`),
		[]byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`),
		[]byte(`{"type":"response.output_text.delta","delta":"a"}`),
	}
	var r Reader
	if n := testing.AllocsPerRun(100, func() {
		for _, c := range chunks {
			r.Read(c)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRead: no input panics, and no count is ever negative.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":6,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":9}}}`), []byte(`{"type":"message_delta","usage":{"input_tokens":-1}}`))
	f.Add([]byte(`{"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":103}}`), []byte(`{"usage":{"output_tokens_details":{"thinking_tokens":9},"total_tokens":1}}`))
	f.Add([]byte(`{"prompt_token_ids":[1],"meta_info":{"cached_tokens":1}}`), []byte(`{"type":"response.x.delta","delta":[]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		r := Reader{WantIDs: true}
		r.Read(a)
		r.Read(b)
		u, ok := r.Usage()
		if u.Uncached < 0 || u.CacheRead < 0 || u.CacheWrite < 0 || u.Output < 0 || u.Reasoning > u.Output {
			t.Fatalf("insane: %+v", u)
		}
		if !ok && u != (Usage{}) {
			t.Fatalf("unreported, yet %+v", u)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	chunk := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3","choices":[{"index":0,"delta":{"content":"hello"},"logprobs":null,"finish_reason":null}]}`)
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	var r Reader
	for b.Loop() {
		r.Read(chunk)
	}
}
