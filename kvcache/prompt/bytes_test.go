package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func bytesFor(t testing.TB, api API, body string) Encoding {
	t.Helper()
	return bytesOf(api, object(t, body))
}

// Spellings of one prompt have one encoding.
func TestBytesIgnoreSpelling(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		api  API
		a, b string
	}{
		"escapes and order": {
			Chat,
			`{"messages":[{"role":"user","content":"h\u00e9\n"}],"model":"a"}`,
			`{"temperature":1, "model":"b", "messages": [ {"content":"hé\n", "role":"user"} ] }`,
		},
		"string and part": {
			Chat,
			`{"messages":[{"role":"user","content":"ab"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"ab"}]}]}`,
		},
		"null content": {
			Chat,
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}]}`,
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"2","type":"function","function":{"arguments":"{}","name":"f"}}]}]}`,
		},
		"messages": {
			Messages,
			`{"system":"s","messages":[{"role":"user","content":"a"}]}`,
			`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}]}`,
		},
		"thinking is dropped": {
			Messages,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"tool_use","name":"f","input":{}}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]}`,
		},
		"responses": {
			Responses,
			`{"instructions":"s","input":"a"}`,
			`{"input":[{"type":"reasoning","summary":[]},{"role":"user","content":[{"type":"input_text","text":"a"}]}],"instructions":"s"}`,
		},
		"across APIs": {
			Chat,
			`{"messages":[{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"user","content":"a"}],"stream":true}`,
		},
		"one prompt": {Completions, `{"prompt":"ab"}`, `{"prompt":["ab"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := bytesFor(t, c.api, c.a), bytesFor(t, c.api, c.b)
			assert.Equal(t, SourceBytes, a.Source)
			assert.Equal(t, a, b)
		})
	}
}

// Different prompts have different encodings.
func TestBytesDiffer(t *testing.T) {
	t.Parallel()
	img := func(url string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}},{"type":"text","text":"a"}]}]}`
	}
	for name, c := range map[string]struct {
		api  API
		a, b string
	}{
		"role":      {Chat, `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"assistant","content":"a"}]}`},
		"boundary":  {Chat, `{"messages":[{"role":"user","content":"ab"}]}`, `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`},
		"images":    {Chat, img("data:image/png;base64,AAAA"), img("data:image/png;base64,AAAB")},
		"tools":     {Chat, `{"messages":[{"role":"user","content":"a"}],"tools":[{"a":1}]}`, `{"messages":[{"role":"user","content":"a"}]}`},
		"call":      {Chat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"1"}}]}]}`, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"2"}}]}]}`},
		"unknown":   {Chat, `{"messages":[{"role":"user","content":[{"type":"x","y":1}]}]}`, `{"messages":[{"role":"user","content":[{"type":"x","y":2}]}]}`},
		"result":    {Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"a"}]}]}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"b"}]}]}]}`},
		"source":    {Messages, `{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"a"}}]}]}`, `{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"b"}}]}]}`},
		"output":    {Responses, `{"input":[{"type":"function_call_output","output":"a"}]}`, `{"input":[{"type":"function_call_output","output":"b"}]}`},
		"item":      {Responses, `{"input":[{"type":"item_reference","id":"a"}]}`, `{"input":[{"type":"item_reference","id":"b"}]}`},
		"embeds":    {Completions, `{"prompt_embeds":"a"}`, `{"prompt_embeds":"b"}`},
		"refusal":   {Chat, `{"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"a"}]}]}`, `{"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"b"}]}]}`},
		"functions": {Chat, `{"messages":[{"role":"user","content":"a"}],"functions":[{"a":1}]}`, `{"messages":[{"role":"user","content":"a"}],"functions":[{"a":2}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := bytesFor(t, c.api, c.a), bytesFor(t, c.api, c.b)
			assert.NotEmpty(t, a.Bytes)
			assert.NotEmpty(t, b.Bytes)
			assert.NotEqual(t, a.Bytes, b.Bytes)
		})
	}
}

func TestBytesShareTheSystemPrompt(t *testing.T) {
	t.Parallel()
	a := bytesFor(t, Chat, `{"tools":[{"x":1}],"messages":[{"role":"system","content":"long system prompt"},{"role":"user","content":"a"}]}`)
	b := bytesFor(t, Chat, `{"messages":[{"role":"system","content":"long system prompt"},{"role":"user","content":"b"}]}`)
	at := bytes.Index(a.Bytes, []byte("prompt")) + len("prompt")
	assert.Equal(t, a.Bytes[:at], b.Bytes[:at])
	assert.Less(t, bytes.Index(a.Bytes, []byte(`{"x"`)), bytes.Index(a.Bytes, []byte("user")))
}

func TestBytesCount(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1, bytesFor(t, Completions, `{"prompt":"a"}`).Count)
	assert.Equal(t, 2, bytesFor(t, Completions, `{"prompt":"abcde"}`).Count)
	assert.Equal(t, 1+mediaTokens+6, bytesFor(t, Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}, {"type":"text","text":"abc"}]}]}`).Count)
	batch := bytesFor(t, Completions, `{"prompt":["abcd","efgh","ijkl"]}`)
	assert.Equal(t, "abcd", string(batch.Bytes))
	assert.Equal(t, 4, batch.Count, "all prompts of a batch are work")
	big := bytesFor(t, Completions, `{"prompt":"`+strings.Repeat("x", 1<<20)+`"}`)
	assert.Equal(t, 1<<18, big.Count)
}

// FuzzEncodeBytes: every conversation's encoding is a prefix of that of its
// continuation, whatever the API, and does not depend on the JSON's spelling.
func FuzzEncodeBytes(f *testing.F) {
	f.Add("you are", "hello", "hi there", "and now?", true)
	f.Add("", "\x1e\x1f", "\x00\\\"", "é中😀", false)
	f.Fuzz(func(t *testing.T, system, u1, a1, u2 string, tools bool) {
		type m = map[string]any
		u1, u2 = strings.ToValidUTF8(u1, "?"), strings.ToValidUTF8(u2, "?")
		parts := func(s string) any {
			return []m{{"type": "text", "text": s}, {"type": "image_url", "image_url": m{"url": s}}}
		}
		turns := []m{
			{"role": "user", "content": u1},
			{"role": "assistant", "content": a1, "tool_calls": []m{{"id": "x", "type": "function", "function": m{"name": a1, "arguments": u1}}}},
			{"role": "tool", "tool_call_id": "x", "content": u2},
			{"role": "user", "content": parts(u2)},
			{"role": "assistant", "content": nil},
		}
		for _, api := range []API{Chat, Messages, Responses, Embeddings} {
			var before []byte
			for n := 1; n <= len(turns); n++ {
				body := m{"model": "x"}
				list := turns[:n]
				switch api {
				case Messages:
					body["system"], body["messages"] = system, list
				case Responses:
					body["instructions"], body["input"] = system, list
				default:
					body["messages"] = append([]m{{"role": "system", "content": system}}, list...)
				}
				if tools {
					body["tools"] = []m{{"type": "function"}}
				}
				plain, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				got := bytesFor(t, api, string(plain)).Bytes
				if !bytes.HasPrefix(got, before) {
					t.Fatalf("%v: %q is no prefix of %q", api, before, got)
				}
				if again := bytesFor(t, api, respell(plain)).Bytes; !bytes.Equal(again, got) {
					t.Fatalf("%v: spelling matters: %q, %q", api, got, again)
				}
				before = got
			}
		}
		if a, b := completion(t, u1), completion(t, u1+u2); !bytes.HasPrefix(b, a) {
			t.Fatalf("completions: %q is no prefix of %q", a, b)
		}
	})
}

func completion(t *testing.T, s string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]string{"prompt": s})
	if err != nil {
		t.Fatal(err)
	}
	return bytesFor(t, Completions, string(body)).Bytes
}

// respell writes characters beyond ASCII as escapes.
func respell(body []byte) string {
	var b strings.Builder
	for _, r := range string(body) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func BenchmarkBytes(b *testing.B) {
	body := `{"model":"m","messages":[{"role":"system","content":"` + strings.Repeat(`The quick brown fox.\n`, 3000) + `"},{"role":"user","content":"hi"}]}`
	o := object(b, body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		bytesOf(Chat, o)
	}
}
