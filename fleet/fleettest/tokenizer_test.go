package fleettest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTokenize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one", []string{"one"}},
		{"one two", []string{"one", " two"}},
		{" one  two\n", []string{" one", " ", " two", "\n"}},
		{"   ", []string{" ", " ", " "}},
		{"abcdefghijklmnop", []string{"abcdefghijkl", "mnop"}},
		{" abcdefghijklmnop", []string{" abcdefghijkl", "mnop"}},
		{"abcdefghijké", []string{"abcdefghijk", "é"}},
		{"\xff\xfe", []string{"\xff\xfe"}},
		{strings.Repeat("\x80", 13), []string{strings.Repeat("\x80", 8), strings.Repeat("\x80", 5)}},
	} {
		if got := pieces(test.text); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
		if len(Tokenize(test.text)) != len(test.want) {
			t.Errorf("%q: %d ids", test.text, len(Tokenize(test.text)))
		}
	}
}

func TestTextHasTheLengthAskedFor(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7, 1000} {
		if got := len(Tokenize(Text(5, n))); got != n {
			t.Errorf("%d tokens, want %d", got, n)
		}
	}
	first := Text(1, 50)
	if again := Text(1, 50); again != first || Text(2, 50) == first {
		t.Error("a text is not determined by its seed alone")
	}
}

func TestAConversationIsAPrefixOfItsContinuation(t *testing.T) {
	t.Parallel()
	short := []message{
		{Role: "system", Content: json.RawMessage(`"be brief"`)},
		{Role: "user", Content: json.RawMessage(`[{"type":"text","text":"hello"},{"type":"text","text":"there"}]`)},
	}
	long := append(slices.Clone(short),
		message{Role: "assistant", Content: json.RawMessage(`null`), ToolCalls: json.RawMessage(`[{"id":"1"}]`)},
		message{Role: "tool", Content: json.RawMessage(`"42"`), ToolCallID: "1"})
	tools := json.RawMessage(`[{"type":"function"}]`)
	a, err := chat(short, nil, tools, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := chat(long, nil, tools, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.tokens) >= len(b.tokens) || !slices.Equal(a.tokens, b.tokens[:len(a.tokens)]) {
		t.Errorf("%d tokens are no prefix of %d", len(a.tokens), len(b.tokens))
	}
}

func FuzzTokenize(f *testing.F) {
	for _, seed := range []string{"", "one two", "  \n\t", "日本語のテキスト", "\xff\x80 é", strings.Repeat("a", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list := pieces(text)
		if strings.Join(list, "") != text {
			t.Fatalf("%q became %q", text, list)
		}
		for _, piece := range list {
			if piece == "" || len(piece) > maxPiece+1 || (utf8.ValidString(text) && !utf8.ValidString(piece)) {
				t.Fatalf("piece %q of %q", piece, text)
			}
		}
		for _, id := range Tokenize(text) {
			if id < firstWord || id >= VocabSize {
				t.Fatalf("id %d", id)
			}
		}
	})
}

// FuzzBody feeds arbitrary bodies to every API's parser and renderer.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}},{"type":"tool_result","content":"y"}]}]}`,
		`{"prompt":[[1,2],[3]]}`, `{"input":[{"type":"function_call","arguments":"{}"},{"role":"user","content":"x"}],"instructions":"y"}`,
		`{"messages":[{"role":"user","content":"\ud800"}],"max_tokens":-1}`, `{"prompt":[-1]}`, `[]`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseBody(raw)
		if err != nil {
			return
		}
		_, _ = b.limit()
		for _, path := range []string{pathChat, pathCompletions, pathMessages, pathResponses, pathEmbeddings} {
			prompts, err := b.prompts(path)
			if err != nil {
				continue
			}
			for _, p := range prompts {
				for _, im := range p.images {
					if im.offset+im.length > len(p.tokens) {
						t.Fatalf("image beyond the prompt")
					}
				}
			}
		}
	})
}
