package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/cputime"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// realModel is the Qwen3 tokenizer and template, if they were fetched.
func realModel(tb testing.TB) prompt.Source {
	tb.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(tb, err)
	from := filepath.Join(cache, "kvsteer", "tokenizers", "qwen3")
	if _, err = os.Stat(filepath.Join(from, "tokenizer.json")); err != nil {
		tb.Skip("no Qwen3 tokenizer: run scripts/tokenizer-files.sh")
	}
	dir := tb.TempDir()
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		text, readErr := os.ReadFile(filepath.Join(from, name))
		require.NoError(tb, readErr)
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"qwen3"}`), 0o600))
	return open(tb, local.Options{Models: map[string]local.Model{"m": {Dir: dir}}})
}

const turn = "The router sends a prompt to the worker that already holds most of its prefix, so that little is computed twice. " +
	"A cache keeps blocks of tokens, and each block is known by a hash of its tokens and of the block before it.\n"

// conversation has about so many tokens (Qwen3), in messages of 1,500, and ends
// with a question that is new each time.
func longChat(tb testing.TB, tokens, nth int) []byte {
	tb.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	const perTurn, perMessage = 44, 1500
	msgs := []message{{"system", "You are a router.\n" + strings.Repeat(turn, 20)}}
	for i := range tokens / perMessage {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		text := strings.Repeat(turn, perMessage/perTurn)
		msgs = append(msgs, message{role, string(rune('a'+i%26)) + text + strings.Repeat("z", i)})
	}
	msgs = append(msgs, message{"user", "And the question number " + strings.Repeat("x", nth%97) + "?"})
	body, err := json.Marshal(map[string]any{"model": "m", "messages": msgs, "stream": true})
	require.NoError(tb, err)
	return body
}

// BenchmarkNewTurn60k is a conversation of 60,000 tokens with one new turn, from the
// body's bytes to the ids.
func BenchmarkNewTurn60k(b *testing.B) {
	s := realModel(b)
	const different = 16
	var bodies [different][]byte
	for i := range bodies {
		bodies[i] = longChat(b, 60_000, i)
	}
	run := func(body []byte) prompt.Encoding {
		o, err := jsonscan.Parse(body, 0)
		if err != nil {
			b.Fatal(err)
		}
		enc, err := s.Encode(b.Context(), &prompt.Request{API: prompt.Chat, Model: "m", Body: body, Object: o})
		if err != nil {
			b.Fatal(err)
		}
		return enc
	}
	n := len(run(bodies[0]).Tokens)
	b.ReportAllocs()
	b.SetBytes(int64(len(bodies[0])))
	i, began := 0, cputime.Process()
	for b.Loop() {
		i++
		run(bodies[i%different])
	}
	b.ReportMetric(float64(cputime.Process()-began)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(n), "tokens")
}

// BenchmarkParse60k is what parsing JSON takes of it.
func BenchmarkParse60k(b *testing.B) {
	body := longChat(b, 60_000, 0)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := jsonscan.Parse(body, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncoder is a short chat through the whole chain.
func BenchmarkEncoder(b *testing.B) {
	e := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{realModel(b)}, Deadline: time.Minute})
	defer func() { _ = e.Close() }()
	r := request(b, prompt.Chat, []byte(`{"model":"m","messages":[{"role":"system","content":"You are a router."},{"role":"user","content":"Where does this prompt go?"}]}`))
	b.ReportAllocs()
	for b.Loop() {
		enc, err := e.Encode(b.Context(), r)
		if err != nil || enc.Source != prompt.SourceLocal {
			b.Fatal(enc, err)
		}
	}
}

// agent is a conversation of 50 messages with 20 tools, as coding agents have.
func agent(tb testing.TB) []byte {
	tb.Helper()
	const tools, rounds = 20, 12
	var b strings.Builder
	b.WriteString(`{"model":"m","tools":[`)
	for i := range tools {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"function","function":{"name":"tool_` + strconv.Itoa(i) + `","description":"Does what a tool of that kind does, and says so at some length, as descriptions do.",` +
			`"parameters":{"type":"object","properties":{"path":{"type":"string","description":"A path."},"lines":{"type":"integer"},` +
			`"mode":{"type":"string","enum":["read","write","append"]}},"required":["path"],"additionalProperties":false}}}`)
	}
	b.WriteString(`],"messages":[{"role":"system","content":"You are an agent."}`)
	for i := range rounds {
		n := strconv.Itoa(i)
		b.WriteString(`,{"role":"user","content":"Look at file number ` + n + `, please."},` +
			`{"role":"assistant","content":"I will.","tool_calls":[{"id":"call_` + n + `","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"/src/` + n + `.go\",\"lines\":100}"}}]},` +
			`{"role":"tool","tool_call_id":"call_` + n + `","content":"package p\n\nfunc f` + n + `() int { return ` + n + ` }\n"},` +
			`{"role":"assistant","content":"It has one function."}`)
	}
	b.WriteString(`,{"role":"user","content":"And now?"}]}`)
	return []byte(b.String())
}

// BenchmarkAgent is 50 messages with 20 tools, from the body to the ids.
func BenchmarkAgent(b *testing.B) {
	s := realModel(b)
	body := agent(b)
	b.ReportAllocs()
	began := cputime.Process()
	for b.Loop() {
		o, err := jsonscan.Parse(body, 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err = s.Encode(b.Context(), &prompt.Request{API: prompt.Chat, Model: "m", Body: body, Object: o}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cputime.Process()-began)/float64(b.N), "cpu-ns/op")
}

// cached is a local source in a place where it goes through the cache.
type cached struct{ prompt.Source }

func (cached) Kind() prompt.SourceKind { return prompt.SourceRender }

// BenchmarkChain compares a local source called directly with the same behind the
// cache of the Encoder, for conversations that are new each time.
func BenchmarkChain(b *testing.B) {
	s := realModel(b)
	const different = 64
	var bodies [different][]byte
	for i := range bodies {
		bodies[i] = longChat(b, 60_000, i)
	}
	for name, source := range map[string]prompt.Source{"direct": s, "cached": cached{s}} {
		b.Run(name, func(b *testing.B) {
			e := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{source}, Deadline: time.Minute, CacheBytes: 1 << 20})
			defer func() { _ = e.Close() }()
			i, began := 0, cputime.Process()
			for b.Loop() {
				i++
				enc, err := e.Encode(b.Context(), &prompt.Request{API: prompt.Chat, Model: "m", Body: bodies[i%different]})
				if err != nil || len(enc.Tokens) == 0 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cputime.Process()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
