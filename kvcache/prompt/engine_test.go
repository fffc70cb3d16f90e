package prompt

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

const (
	chatBody   = `{"model":"alias","n":9007199254740993, "messages":[{"role":"user","content":"hi"}],"stream":true}`
	ids123     = `{"count":3,"max_model_len":4096,"tokens":[1,2,3],"token_strs":null}`
	rendered12 = `{"request_id":"x","token_ids":[1,2],"sampling_params":{},"model":"m"}`
)

// Every way in which the engine serves.
func TestEngineServes(t *testing.T) {
	t.Parallel()
	image := func(features string) string {
		return `{"token_ids":[1,9,9,2,9,3],"features":` + features + `}`
	}
	for name, c := range map[string]struct {
		api      API
		body     string
		path     string
		reply    string
		source   SourceKind
		tokens   []uint32
		count    int
		items    []kvcache.Item
		sent     string // what the engine was asked; "" is not compared
		noRender bool
	}{
		"render chat": {
			api: Chat, body: chatBody, path: "/v1/chat/completions/render", reply: rendered12, source: SourceRender, tokens: []uint32{1, 2},
			sent: `{"model":"served","n":9007199254740993, "messages":[{"role":"user","content":"hi"}],"stream":true,"return_mm_kwargs":false}`,
		},
		"render completions, a list": {
			api: Completions, body: `{"prompt":["a","b"]}`, path: "/v1/completions/render",
			reply: `[` + rendered12 + `,{"token_ids":[7,8,9]}]`, source: SourceRender, tokens: []uint32{1, 2}, count: 5,
		},
		"render, older": {
			api: Chat, body: chatBody, path: "/v1/chat/completions/render",
			reply: `[[{"role":"user","content":"hi"}],[{"prompt_token_ids":[4,5]}]]`, source: SourceRender, tokens: []uint32{4, 5},
		},
		"render responses": {api: Responses, body: `{"input":"a"}`, path: "/v1/responses/render", reply: rendered12, source: SourceRender, tokens: []uint32{1, 2}},
		"render messages":  {api: Messages, body: `{"messages":[{"role":"user","content":"a"}]}`, path: "/v1/messages/render", reply: rendered12, source: SourceRender, tokens: []uint32{1, 2}},
		"render images": {
			api: Chat, body: chatBody, path: "/v1/chat/completions/render",
			reply:  image(`{"mm_hashes":{"image":["h1","h2"],"audio":["h3"]},"mm_placeholders":{"image":[{"offset":4,"length":1},{"offset":1,"length":2}],"audio":[{"offset":0,"length":0}]}}`),
			source: SourceRender, tokens: []uint32{1, 9, 9, 2, 9, 3}, items: []kvcache.Item{{ID: "h3"}, {ID: "h2", Offset: 1, Length: 2}, {ID: "h1", Offset: 4, Length: 1}},
		},
		"render, no features": {api: Chat, body: chatBody, path: "/v1/chat/completions/render", reply: image(`null`), source: SourceRender, tokens: []uint32{1, 9, 9, 2, 9, 3}},
		"tokenize chat": {
			api: Chat, noRender: true, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3},
			body: `{"chat_template_kwargs":{"a":1.0},"tools":[{"b":2}],"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"tool_choice":"auto","add_generation_prompt":false,"continue_final_message":true,"temperature":0,"reasoning_effort":null,"documents":[]}`,
			sent: `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"tools":[{"b":2}],"add_generation_prompt":false,"continue_final_message":true,"chat_template_kwargs":{"a":1.0},"model":"served"}`,
		},
		"tokenize text": {
			api: Completions, noRender: true, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3},
			body: `{"prompt":"a\u0000b","max_tokens":1}`, sent: `{"prompt":"a\u0000b","add_special_tokens":true,"model":"served"}`,
		},
		"tokenize text, plain": {
			api: Completions, noRender: true, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3},
			body: `{"prompt":["a"],"add_special_tokens":false}`, sent: `{"prompt":"a","add_special_tokens":false,"model":"served"}`,
		},
		"tokenize a batch": {
			api: Completions, noRender: true, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3}, count: 3 + 2,
			body: `{"prompt":["a","bcdef"]}`,
		},
		"tokenize embeddings": {
			api: Embeddings, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3},
			body: `{"input":"a"}`, sent: `{"prompt":"a","add_special_tokens":true,"model":"served"}`,
		},
		"tokenize embeddings of a chat": {
			api: Embeddings, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3},
			body: `{"messages":[{"role":"user","content":"x"}]}`, sent: `{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false,"model":"served"}`,
		},
		"tokenize, SGLang": {api: Completions, noRender: true, path: "/tokenize", reply: `{"tokens":[5],"count":1,"max_model_len":9}`, source: SourceTokenize, tokens: []uint32{5}, body: `{"prompt":"a"}`},
		"cut to more":      {api: Completions, noRender: true, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3}, body: `{"prompt":"a","truncate_prompt_tokens":3}`},
		"cut to the model": {api: Completions, noRender: true, path: "/tokenize", reply: ids123, source: SourceTokenize, tokens: []uint32{1, 2, 3}, body: `{"prompt":"a","truncate_prompt_tokens":-1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := newEngine(t, map[string]http.HandlerFunc{c.path: reply(http.StatusOK, c.reply)})
			e := newEncoder(t, Options{NoRender: c.noRender})
			enc := encode(t, e, c.api, c.body, eng.URL)
			count := c.count
			if count == 0 {
				count = len(c.tokens)
			}
			assert.Equal(t, Encoding{Source: c.source, Tokens: c.tokens, Items: c.items, Count: count}, enc)
			require.Equal(t, []string{c.path}, eng.paths())
			assert.Equal(t, "application/json", eng.last().header.Get("Content-Type"))
			if c.sent != "" {
				assert.Equal(t, c.sent, eng.last().raw)
			}
		})
	}
}

// Every reason for which it does not, and what comes next.
func TestEngineDegrades(t *testing.T) {
	t.Parallel()
	const render, plain = "/v1/chat/completions/render", `{"messages":[{"role":"user","content":"hi"}]}`
	with := func(field string) string { return plain[:len(plain)-1] + "," + field + "}" }
	for name, c := range map[string]struct {
		api      API
		body     string
		answers  map[string]http.HandlerFunc
		render   ReasonError
		tokenize ReasonError // "" if it served
	}{
		"no endpoints":      {Chat, plain, nil, errAbsent, errAbsent},
		"no render":         {Chat, plain, map[string]http.HandlerFunc{"/tokenize": reply(200, ids123)}, errAbsent, ""},
		"405":               {Chat, plain, map[string]http.HandlerFunc{render: reply(405, ""), "/tokenize": reply(501, "")}, errAbsent, errAbsent},
		"unauthorised":      {Chat, plain, map[string]http.HandlerFunc{render: reply(401, ""), "/tokenize": reply(403, "")}, errAbsent, errAbsent},
		"vLLM's own 404":    {Chat, plain, map[string]http.HandlerFunc{render: reply(404, `{"error":{"message":"Not Found","type":"Not Found","code":404}}`)}, errAbsent, errAbsent},
		"unknown model":     {Chat, plain, map[string]http.HandlerFunc{render: reply(404, `{"error":{"message":"The model does not exist.","type":"NotFoundError","code":404}}`), "/tokenize": reply(404, `{"object":"error","type":"NotFoundError"}`)}, errRefused, errRefused},
		"refused":           {Chat, plain, map[string]http.HandlerFunc{render: reply(400, `{}`), "/tokenize": reply(422, `{}`)}, errRefused, errRefused},
		"failed":            {Chat, plain, map[string]http.HandlerFunc{render: reply(500, ``), "/tokenize": reply(503, ``)}, errEngineFailed, errEngineFailed},
		"moved":             {Chat, plain, map[string]http.HandlerFunc{render: moved, "/tokenize": moved, "/elsewhere": reply(200, ids123)}, errEngineFailed, errEngineFailed},
		"limited, 3xx":      {Chat, plain, map[string]http.HandlerFunc{render: reply(429, ``), "/tokenize": reply(302, ``)}, errEngineFailed, errEngineFailed},
		"nonsense":          {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `<html>`), "/tokenize": reply(200, ``)}, errReply, errReply},
		"no ids":            {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `{"token_ids":[]}`), "/tokenize": reply(200, `{"tokens":null}`)}, errReply, errReply},
		"strange ids":       {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `{"token_ids":[-1]}`), "/tokenize": reply(200, `{"tokens":["a"]}`)}, errReply, errReply},
		"wrong count":       {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `[]`), "/tokenize": reply(200, `{"count":2,"tokens":[1]}`)}, errReply, errReply},
		"hung up":           {Chat, plain, map[string]http.HandlerFunc{render: hangUp, "/tokenize": hangUp}, errUnreachable, errUnreachable},
		"reply cut short":   {Chat, plain, map[string]http.HandlerFunc{render: cutShort, "/tokenize": cutShort}, errUnreachable, errUnreachable},
		"too large":         {Chat, plain, map[string]http.HandlerFunc{render: huge, "/tokenize": huge}, errReplySize, errReplySize},
		"images, no hashes": {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `{"token_ids":[1,2],"features":{"mm_hashes":{"image":[]},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}}`)}, errMedia, errAbsent},
		"null hash":         {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `{"token_ids":[1,2],"features":{"mm_hashes":{"image":[null]},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}}`)}, errMedia, errAbsent},
		"image outside":     {Chat, plain, map[string]http.HandlerFunc{render: reply(200, `{"token_ids":[1,2],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}}}`)}, errReply, errAbsent},

		"reasoning_effort": {Chat, with(`"reasoning_effort":"low"`), nil, errAbsent, errField + "reasoning_effort"},
		"documents":        {Chat, with(`"documents":[{}]`), nil, errAbsent, errField + "documents"},
		"tool_choice":      {Chat, with(`"tools":[{}],"tool_choice":"none"`), nil, errAbsent, errField + "tool_choice"},
		"named tool":       {Chat, with(`"tools":[{}],"tool_choice":{"type":"function"}`), nil, errAbsent, errField + "tool_choice"},
		"response_format":  {Chat, with(`"response_format":{"type":"json_object"}`), nil, errAbsent, errField + "response_format"},
		"plain response":   {Chat, with(`"response_format":{"type":"text"}`), map[string]http.HandlerFunc{"/tokenize": reply(200, ids123)}, errAbsent, ""},
		"transferred ids":  {Chat, with(`"kv_transfer_params":{"prompt_token_ids":[1]}`), nil, errAbsent, errField + "kv_transfer_params"},
		"images":           {Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}]}`, nil, errAbsent, errMedia},
		"truncated":        {Chat, with(`"truncate_prompt_tokens":2`), map[string]http.HandlerFunc{"/tokenize": reply(200, ids123)}, errAbsent, errTruncation},
		"beyond the model": {Chat, with(`"truncate_prompt_tokens":-1`), map[string]http.HandlerFunc{"/tokenize": reply(200, `{"tokens":[1,2,3],"max_model_len":2}`)}, errAbsent, errTruncation},
		"messages":         {Messages, plain, nil, errAbsent, errNoForm},
		"responses":        {Responses, `{"input":"a"}`, nil, errAbsent, errNoForm},
		"stateful":         {Responses, `{"input":"a","previous_response_id":"x"}`, nil, errStateful, errNoForm},
		"embeds":           {Completions, `{"prompt":"a","prompt_embeds":"x"}`, nil, errAbsent, errEmbeds},
		"strange prompt":   {Completions, `{"prompt":{"a":1}}`, nil, errAbsent, errUnknownPrompt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := newEngine(t, c.answers)
			e := newEncoder(t, Options{MaxReply: 1 << 10, Client: newClient()})
			enc := encode(t, e, c.api, c.body, eng.URL)
			want := []Degradation{{SourceRender, string(c.render)}}
			if c.tokenize == "" {
				assert.Equal(t, SourceTokenize, enc.Source)
			} else {
				want = append(want, Degradation{SourceTokenize, string(c.tokenize)})
				assert.Equal(t, SourceBytes, enc.Source)
				assert.NotEmpty(t, enc.Bytes)
				assert.Positive(t, enc.Count)
				assert.Zero(t, e.Stats().Entries, "only exact encodings are cached")
			}
			assert.Equal(t, want, enc.Degraded)
		})
	}
}

func moved(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func cutShort(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = w.Write([]byte(`{"tokens":[1`))
	panic(http.ErrAbortHandler)
}

func huge(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"tokens":[1` + strings.Repeat(",1", 1<<10) + `]}`))
}

func TestNoEngine(t *testing.T) {
	t.Parallel()
	e := newEncoder(t, Options{})
	enc := encode(t, e, Chat, chatBody, "")
	assert.Equal(t, SourceBytes, enc.Source)
	assert.Equal(t, []Degradation{{SourceRender, "no engine to ask"}, {SourceTokenize, "no engine to ask"}}, enc.Degraded)
	enc = encode(t, e, Chat, chatBody, "http://127.0.0.1:1")
	assert.Equal(t, []Degradation{{SourceRender, "engine unreachable"}, {SourceTokenize, "engine unreachable"}}, enc.Degraded)
	enc = encode(t, e, Chat, chatBody, "::no url")
	assert.Equal(t, SourceBytes, enc.Source)
}

func TestEngineHeader(t *testing.T) {
	t.Parallel()
	eng := newEngine(t, map[string]http.HandlerFunc{"/prefix/tokenize": reply(200, ids123)})
	e := newEncoder(t, Options{NoRender: true})
	head := http.Header{"Authorization": {"Bearer k"}}
	_, err := e.Encode(context.Background(), &Request{API: Completions, Body: []byte(`{"prompt":"a"}`), Engine: Engine{BaseURL: eng.URL + "/prefix", Header: head}})
	require.NoError(t, err)
	assert.Equal(t, "Bearer k", eng.last().header.Get("Authorization"))
	assert.Equal(t, map[string]any{"prompt": "a", "add_special_tokens": true}, eng.last().body, "no model to name")
	assert.Len(t, head, 1)
}

// A megabyte without a space, NULs and all planes of Unicode pass as they are.
func TestStrangeText(t *testing.T) {
	t.Parallel()
	eng := newEngine(t, map[string]http.HandlerFunc{"/tokenize": reply(200, ids123)})
	e := newEncoder(t, Options{NoRender: true})
	for _, text := range []string{strings.Repeat("x", 1<<20), `\u0000\u0001\ud83d\ude00\ud800`, "中文\u2028😀"} {
		enc := encode(t, e, Completions, `{"prompt":"`+text+`"}`, eng.URL)
		assert.Equal(t, SourceTokenize, enc.Source)
		assert.Contains(t, eng.last().raw, text)
	}
}

// A prompt goes to the engine's address only, wherever the engine sends it.
func TestRedirectsTakeNoPromptElsewhere(t *testing.T) {
	t.Parallel()
	other := newEngine(t, nil)
	away := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", other.URL+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	eng := newEngine(t, map[string]http.HandlerFunc{"/tokenize": away, "/v1/chat/completions/render": away})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	e := newEncoder(t, Options{Client: &http.Client{Transport: transport}})
	require.Equal(t, SourceBytes, encode(t, e, Chat, chatBody, eng.URL).Source)
	require.NotEmpty(t, eng.paths())
	require.Empty(t, other.paths())

	follows := newEncoder(t, Options{Client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}})
	encode(t, follows, Chat, chatBody, eng.URL)
	require.NotEmpty(t, other.paths(), "whose own choice it is")
}
