package local_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

func TestMain(m *testing.M) { leak.Main(m) }

const models = "testdata/models"

// smallModels are the models whose files are here.
func smallModels(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(models)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.NotEmpty(t, names)
	return names
}

func open(t testing.TB, o local.Options) *local.Source {
	t.Helper()
	if o.Reload == 0 {
		o.Reload = -1
	}
	s, err := local.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// one opens a Source for one of the small models, under the name m.
func one(t testing.TB, name string, change func(*local.Model)) *local.Source {
	t.Helper()
	m := local.Model{Dir: filepath.Join(models, name), MaxModelLen: 32768}
	if change != nil {
		change(&m)
	}
	return open(t, local.Options{Models: map[string]local.Model{"m": m}})
}

func request(t testing.TB, api prompt.API, body []byte) *prompt.Request {
	t.Helper()
	o, err := jsonscan.Parse(body, 0)
	require.NoError(t, err, "%s", body)
	return &prompt.Request{API: api, Model: "m", Body: body, Object: o}
}

func encode(t testing.TB, s prompt.Source, api prompt.API, body string) (prompt.Encoding, error) {
	t.Helper()
	return s.Encode(t.Context(), request(t, api, []byte(body)))
}

// record is a request and the ids that a real vLLM made of it.
type record struct {
	API  string          `json:"api"`
	Body json.RawMessage `json:"body"`
	IDs  []uint32        `json:"ids"`
}

func records(t testing.TB, model string) []record {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "golden", model+".jsonl.gz"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	text, err := gzip.NewReader(file)
	require.NoError(t, err)
	var out []record
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		out = append(out, r)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, out)
	return out
}

// What vLLM made of these requests is what is made of them here, to the last id.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, model := range smallModels(t) {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			s := one(t, model, nil)
			equal, passed := 0, 0
			for _, r := range records(t, model) {
				api, known := prompt.APIForPath(r.API)
				require.True(t, known)
				enc, err := encode(t, s, api, string(r.Body))
				if err != nil {
					var why prompt.ReasonError
					require.ErrorAs(t, err, &why, "%s", r.Body)
					if r.IDs != nil {
						passed++
					}
					continue
				}
				if r.IDs == nil {
					continue // the engine refuses; nothing depends on the ids
				}
				require.Equal(t, r.IDs, enc.Tokens, "%s %s", r.API, r.Body)
				assert.Equal(t, prompt.SourceLocal, enc.Source)
				assert.NotEmpty(t, enc.Assets)
				assert.GreaterOrEqual(t, enc.Count, len(enc.Tokens))
				equal++
			}
			// Those passed on are among the ones written by hand for it.
			assert.Less(t, passed, 10, "what is passed on although the engine takes it")
			assert.Greater(t, equal, 120)
		})
	}
}

func TestUnknownModelIsNotApplicable(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", nil)
	_, err := s.Encode(t.Context(), &prompt.Request{API: prompt.Chat, Model: "other", Body: []byte(`{"messages":[]}`)})
	require.ErrorIs(t, err, prompt.ErrNotApplicable)
}

func TestBodyIsParsedWhenNobodyDid(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", nil)
	enc, err := s.Encode(t.Context(), &prompt.Request{API: prompt.Completions, Model: "m", Body: []byte(`{"prompt":"a b"}`)})
	require.NoError(t, err)
	assert.NotEmpty(t, enc.Tokens)
	_, err = s.Encode(t.Context(), &prompt.Request{API: prompt.Completions, Model: "m", Body: []byte(`{`)})
	require.Error(t, err)
}

func TestCompletionsCountAllPrompts(t *testing.T) {
	t.Parallel()
	s := one(t, "fast", nil)
	a, err := encode(t, s, prompt.Completions, `{"prompt":"the router"}`)
	require.NoError(t, err)
	b, err := encode(t, s, prompt.Completions, `{"prompt":"the cache of blocks"}`)
	require.NoError(t, err)
	both, err := encode(t, s, prompt.Completions, `{"prompt":["the router","the cache of blocks"]}`)
	require.NoError(t, err)
	assert.Equal(t, a.Tokens, both.Tokens)
	assert.Equal(t, a.Count+b.Count, both.Count)
	bare, err := encode(t, s, prompt.Completions, `{"prompt":"the router","add_special_tokens":false}`)
	require.NoError(t, err)
	assert.Equal(t, a.Tokens[1:], bare.Tokens, "the tokenizer adds one token in front")
}

// A different template, tools left out, default arguments: what the engine's
// options change.
func TestModelOptions(t *testing.T) {
	t.Parallel()
	const chat = `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"}`
	const bare = `{"messages":[{"role":"user","content":"hi"}]}`
	ids := func(change func(*local.Model), body string) []uint32 {
		enc, err := encode(t, one(t, "qwen", change), prompt.Chat, body)
		require.NoError(t, err)
		return enc.Tokens
	}
	with, without := ids(nil, chat), ids(nil, bare)
	assert.NotEqual(t, with, without)
	assert.Equal(t, without, ids(func(m *local.Model) { m.ExcludeToolsWhenNone = true }, chat))
	thinking := ids(nil, `{"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"enable_thinking":false}}`)
	assert.NotEqual(t, without, thinking)
	off := func(m *local.Model) { m.TemplateKwargs = `{"enable_thinking":false}` }
	assert.Equal(t, thinking, ids(off, bare))
	assert.Equal(t, without, ids(off, `{"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"enable_thinking":true}}`))
	assert.Equal(t, thinking, ids(off, `{"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"enable_thinking":null}}`), "null is as good as absent")
	text := ids(func(m *local.Model) { m.ChatTemplate = "{{ messages[0].content }}" }, bare)
	plain, err := encode(t, one(t, "qwen", nil), prompt.Completions, `{"prompt":"hi"}`)
	require.NoError(t, err)
	assert.Equal(t, plain.Tokens, text)
	parts := ids(func(m *local.Model) {
		m.ChatTemplate, m.ContentFormat = "{{ messages[0].content[0].text }}", "openai"
	}, bare)
	assert.Equal(t, plain.Tokens, parts)
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", nil)
	whole, err := encode(t, s, prompt.Completions, `{"prompt":"the router sends a prompt to the worker"}`)
	require.NoError(t, err)
	n := len(whole.Tokens)
	require.Greater(t, n, 4)
	for field, want := range map[string][]uint32{
		`"truncate_prompt_tokens":3`:                             whole.Tokens[n-3:],
		`"truncate_prompt_tokens":3,"truncation_side":"right"`:   whole.Tokens[:3],
		`"truncate_prompt_tokens":3,"truncation_side":"left"`:    whole.Tokens[n-3:],
		`"truncate_prompt_tokens":500`:                           whole.Tokens,
		`"truncate_prompt_tokens":-1,"max_tokens":5`:             whole.Tokens,
		`"truncate_prompt_tokens":null,"truncation_side":"left"`: whole.Tokens,
	} {
		enc, encErr := encode(t, s, prompt.Completions, `{"prompt":"the router sends a prompt to the worker",`+field+`}`)
		require.NoError(t, encErr, field)
		assert.Equal(t, want, enc.Tokens, field)
	}
	// A tokenizer that adds special tokens adds them after the cut.
	fast := one(t, "fast", nil)
	marked, err := encode(t, fast, prompt.Completions, `{"prompt":"the router sends a prompt to the worker"}`)
	require.NoError(t, err)
	cut, err := encode(t, fast, prompt.Completions, `{"prompt":"the router sends a prompt to the worker","truncate_prompt_tokens":3}`)
	require.NoError(t, err)
	n = len(marked.Tokens)
	assert.Equal(t, []uint32{marked.Tokens[0], marked.Tokens[n-2], marked.Tokens[n-1]}, cut.Tokens)
	_, err = encode(t, fast, prompt.Completions, `{"prompt":"the router sends a prompt to the worker","truncate_prompt_tokens":1}`)
	require.EqualError(t, err, "truncated prompt")
	n = len(whole.Tokens)
	short := one(t, "qwen", func(m *local.Model) { m.MaxModelLen = 4 })
	enc, err := encode(t, short, prompt.Completions, `{"prompt":"the router sends a prompt to the worker","truncate_prompt_tokens":-1}`)
	require.NoError(t, err)
	assert.Equal(t, whole.Tokens[n-3:], enc.Tokens, "one is held back for output")
}

// Reasons hold nothing of the request.
func TestReasonsAreFixed(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	s := one(t, "fast", nil)
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"canary"},{"role":"system","content":"canary"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"canary"}]}]}`,
		`{"messages":[{"role":"canary","content":5}]}`,
		`{"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"messages":"canary"}}`,
	} {
		_, err := encode(t, s, prompt.Chat, body)
		var why prompt.ReasonError
		require.ErrorAs(t, err, &why, "%s", body)
		assert.NotContains(t, err.Error(), canary)
	}
}
