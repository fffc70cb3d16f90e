package prompt

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func TestAPIForPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]API{
		"/v1/chat/completions": Chat, "/v1/completions": Completions, "/v1/messages": Messages,
		"/v1/responses": Responses, "/v1/embeddings": Embeddings, "/openai/v1/chat/completions": Chat,
		"/v1/messages/count_tokens": 0, "/v1/models": 0, "/v1/chat/completions/": 0, "": 0, "/": 0,
		"/chat/completions": 0, "/v1/responses/resp_1": 0, "/V1/completions": 0,
	} {
		got, ok := APIForPath(path)
		assert.Equal(t, want, got, path)
		assert.Equal(t, want != 0, ok, path)
	}
	names := map[string]bool{}
	for a := API(0); int(a) < numAPIs; a++ {
		names[a.String()] = true
		if a > 0 {
			back, ok := APIForPath(a.Path())
			assert.True(t, ok)
			assert.Equal(t, a, back)
		}
	}
	assert.Len(t, names, numAPIs)
	assert.Empty(t, API(0).Path())
}

func TestSourceKind(t *testing.T) {
	t.Parallel()
	want := []string{"none", "caller", "local", "render", "tokenize", "prefix", "bytes", "none"}
	for k, name := range want {
		assert.Equal(t, name, SourceKind(k).String())
	}
	assert.True(t, SourceRender.Exact())
	assert.False(t, SourcePrefix.Exact())
	assert.False(t, SourceBytes.Exact())
	assert.False(t, SourceNone.Exact())
}

func TestSalt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`: "", `{"cache_salt":""}`: "", `{"cache_salt":null}`: "", `{"cache_salt":7}`: "",
		`{"cache_salt":"a"}`: "a", `{"cache_salt":"a","cache_salt":"b\u0000"}`: "b\x00",
	} {
		assert.Equal(t, want, Salt(object(t, body)), body)
	}
	assert.Empty(t, Salt(jsonscan.Object{}))
}

func TestCallerIDs(t *testing.T) {
	t.Parallel()
	e := newEncoder(t, Options{})
	for name, c := range map[string]struct {
		api    API
		body   string
		tokens []uint32
		count  int
		reason ReasonError // when the caller's ids are not taken
	}{
		"completions":      {Completions, `{"prompt":[1,2,4294967295]}`, []uint32{1, 2, 4294967295}, 3, ""},
		"embeddings":       {Embeddings, `{"input":[1,2]}`, []uint32{1, 2}, 2, ""},
		"batch of one":     {Completions, `{"prompt":[[1,2]]}`, []uint32{1, 2}, 2, ""},
		"batch":            {Completions, `{"prompt":[[1,2],[3],[4,5,6]]}`, []uint32{1, 2}, 6, ""},
		"cut on the left":  {Completions, `{"prompt":[1,2,3],"truncate_prompt_tokens":2}`, []uint32{2, 3}, 2, ""},
		"cut on the right": {Completions, `{"prompt":[1,2,3],"truncate_prompt_tokens":2,"truncation_side":"right"}`, []uint32{1, 2}, 2, ""},
		"cut to more":      {Completions, `{"prompt":[1,2,3],"truncate_prompt_tokens":9}`, []uint32{1, 2, 3}, 3, ""},
		"cut to the model": {Completions, `{"prompt":[1,2,3],"truncate_prompt_tokens":-1}`, nil, 2, errTruncation},
		"negative":         {Completions, `{"prompt":[1,-2]}`, nil, 2, errNotIDs},
		"beyond 32 bits":   {Completions, `{"prompt":[4294967296]}`, nil, 3, errNotIDs},
		"mixed":            {Completions, `{"prompt":[1,"a"]}`, nil, 2, errNotIDs},
		"fraction":         {Completions, `{"prompt":[1.5]}`, nil, 2, errNotIDs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enc := encode(t, e, c.api, c.body, "")
			assert.Equal(t, c.tokens, enc.Tokens)
			assert.Equal(t, c.count, enc.Count)
			if c.reason == "" {
				assert.Equal(t, SourceCaller, enc.Source)
				assert.Empty(t, enc.Degraded)
				return
			}
			assert.Equal(t, SourceBytes, enc.Source)
			assert.Equal(t, Degradation{SourceCaller, string(c.reason)}, enc.Degraded[0])
		})
	}
}

func TestCallerGivesIDs(t *testing.T) {
	t.Parallel()
	e := newEncoder(t, Options{})
	enc, err := e.Encode(context.Background(), &Request{API: Chat, Body: []byte("no JSON"), TokenIDs: []uint32{7}})
	require.NoError(t, err)
	assert.Equal(t, Encoding{Source: SourceCaller, Tokens: []uint32{7}, Count: 1}, enc)
	enc, err = e.Encode(context.Background(), &Request{API: Chat, TokenIDs: []uint32{}})
	require.NoError(t, err)
	assert.Equal(t, Encoding{}, enc)
}

func TestNoPrompt(t *testing.T) {
	t.Parallel()
	e := newEncoder(t, Options{})
	for _, c := range []struct {
		api  API
		body string
	}{
		{Chat, ``},
		{Chat, `{}`},
		{Chat, `{"messages":null}`},
		{Chat, `{"messages":[]}`},
		{Completions, `{"prompt":null}`},
		{Completions, `{"prompt":[]}`},
		{Embeddings, `{}`},
		{Responses, `{}`},
		{Messages, `{"system":"a"}`},
		{0, `{"prompt":"a"}`},
		{Completions, `{"prompt":""}`},
	} {
		assert.Equal(t, Encoding{}, encode(t, e, c.api, c.body, ""), "%v %s", c.api, c.body)
	}
}

func TestBadBody(t *testing.T) {
	t.Parallel()
	e := newEncoder(t, Options{})
	for body, offset := range map[string]int{`{"messages":`: 12, `[1]`: 0, "{\"a\":\"canary\xff\"}": 12, "{\"canary\x00\":1}": 8} {
		_, err := e.Encode(context.Background(), &Request{API: Chat, Body: []byte(body)})
		var be *BodyError
		require.ErrorAs(t, err, &be, body)
		assert.Equal(t, offset, be.Offset, body)
		assert.NotContains(t, err.Error(), "canary")
	}
}

// Bodies of the wrong types are the engine's to refuse; here they must not panic.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	e := newEncoder(t, Options{})
	values := []string{
		`7`, `"a"`, `true`, `{}`, `[]`, `[1]`, `["a"]`, `[null]`, `[{}]`, `[[]]`, `[[[1]]]`, `{"role":1}`,
		`[{"role":1,"content":2,"tool_calls":3}]`, `[{"content":[1,null,{"type":"image_url","image_url":7}]}]`,
		`[{"tool_calls":[1,{"function":7},{"function":{"name":1,"arguments":{}}}]}]`,
	}
	for api := API(0); int(api) <= numAPIs; api++ {
		for _, v := range values {
			for _, key := range []string{"messages", "prompt", "input", "system", "tools", "instructions", "tool_choice", "prompt_embeds"} {
				body := `{"messages":[{"role":"user","content":"a"}],"input":"a","prompt":"a","` + key + `":` + v + `}`
				require.True(t, json.Valid([]byte(body)))
				enc := encode(t, e, api, body, "")
				assert.False(t, enc.Source.Exact() && enc.Source != SourceCaller)
			}
		}
	}
}
