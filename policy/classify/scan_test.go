package classify

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

func scanner(tb testing.TB, opts ScannerOptions) *Scanner {
	tb.Helper()
	s, err := NewScanner(opts)
	require.NoError(tb, err)
	return s
}

// judged scans the parts of one message.
func judged(tb testing.TB, s *Scanner, parts ...string) *Result {
	tb.Helper()
	var in Input
	for _, p := range parts {
		in.Parts = append(in.Parts, Part{Role: "user", Text: []byte(p)})
	}
	var out Result
	require.NoError(tb, s.Classify(context.Background(), &in, &out))
	return &out
}

// Work is counted in bytes that finders look at. Whatever a text is made of, it is
// in proportion to the text.
func TestWorkIsLinear(t *testing.T) {
	t.Parallel()
	const most = 70 // steps for each byte, at the worst
	var s scan
	for name, text := range worst() {
		s.steps, s.hits = 0, s.hits[:0]
		s.run([]byte(text))
		require.LessOrEqual(t, s.steps, most*len(text), "%s: %.1f steps for each byte", name, float64(s.steps)/float64(len(text)))
		half := s.steps
		s.steps, s.hits = 0, s.hits[:0]
		s.run([]byte(text + text))
		require.LessOrEqual(t, s.steps, 2*half+half/4+4096, "%s: twice the text, more than twice the work", name)
	}
	for _, kind := range []string{"english", "code", "chinese", "table"} {
		s.steps = 0
		s.run([]byte(clean(kind)))
		require.LessOrEqual(t, s.steps, 2*benchBytes, kind)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("pools forget at random")
	}
	s := scanner(t, ScannerOptions{})
	for _, kind := range []string{"english", "code", "chinese", "table"} {
		messages := []Input{{Parts: []Part{{Text: []byte(clean(kind))}}}}
		out := make([]Result, 1)
		require.NoError(t, s.ClassifyMessages(t.Context(), messages, out))
		require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
			out[0].Reset()
			if err := s.ClassifyMessages(t.Context(), messages, out); err != nil {
				t.Fatal(err)
			}
		}), 0.0, kind)
		require.Empty(t, out[0].Findings, kind)
		require.Equal(t, policy.TagAbsent, out[0].State(TagPII), kind)
	}
}

func TestFindingsTellWhere(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	text := "é 4111 1111 1111 1111, then ５１０５１０５１０５１０５１００ and a\u200bb@c.example 4012888888881881 5555555555554444 378282246310005"
	out := judged(t, s, "nothing", text)
	require.Len(t, out.Findings, 2)
	f := out.Findings[0]
	require.Equal(t, KindCard, f.Kind)
	require.Equal(t, TagPII, f.Tag)
	require.Equal(t, 5, f.Count)
	require.Equal(t, []Place{
		{1, strings.Index(text, "4111")}, {1, strings.Index(text, "５")}, {1, strings.Index(text, "4012")}, {1, strings.Index(text, "5555")},
	}, f.First)
	require.Equal(t, Finding{Tag: TagPII, Kind: KindEmail, Count: 1, First: []Place{{1, strings.Index(text, "a\u200b")}}}, out.Findings[1])
	require.Equal(t, []policy.Tag{{Name: TagPII, State: policy.TagPresent}, {Name: TagSecrets, State: policy.TagAbsent}}, out.Tags)
}

func TestNothingHidesBetweenParts(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	long := strings.Repeat("word and word. ", 200)
	tests := []struct {
		name  string
		parts []string
		want  []Finding
	}{
		{"split", []string{"my card is 4111 1111 ", "1111 1111."}, []Finding{{TagPII, KindCard, 1, []Place{{0, 11}}}}},
		{"split in a group", []string{"41111", "11111", "111111"}, []Finding{{TagPII, KindCard, 1, []Place{{0, 0}}}}},
		{"single characters", strings.Split("bob@example.com", ""), []Finding{{TagPII, KindEmail, 1, []Place{{0, 0}}}}},
		{"spaces on both sides", []string{"4111 1111 ", " 1111 1111"}, []Finding{{TagPII, KindCard, 1, []Place{{0, 0}}}}},
		{"long parts", []string{long + "4111 1111", "1111 1111 " + long + "x@y.", "example" + long}, []Finding{
			{TagPII, KindCard, 1, []Place{{0, len(long)}}}, {TagPII, KindEmail, 1, []Place{{1, 10 + len(long)}}},
		}},
		{"a word before", []string{"Tel:", "07700 900123"}, []Finding{{TagPII, KindPhone, 1, []Place{{1, 0}}}}},
		{"not twice", []string{"a@b.example", "c"}, []Finding{{TagPII, KindEmail, 1, []Place{{0, 0}}}}},
		{"ends with a part", []string{"4111111111111111", "22 of them"}, []Finding{{TagPII, KindCard, 1, []Place{{0, 0}}}}},
		{"secret", []string{"gh" + "p_1234567890abcd", "efghijklmnopqrstuvwxyz"}, []Finding{{TagSecrets, KindGitHub, 1, []Place{{0, 0}}}}},
		{"nothing", []string{"4111 1111", "and", "1111 1111"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judged(t, s, tt.parts...).Findings)
		})
	}
}

// What stands beside a message's text does not come between its pieces.
func TestPartsAsideAreNoPieces(t *testing.T) {
	t.Parallel()
	in := extract(t, prompt.Messages, `{"messages":[{"role":"user","content":[
		{"type":"text","text":"4111 1111 ","cache_control":{"type":"ephemeral"}},{"type":"text","text":"1111 1111"}]}]}`)
	var out Result
	require.NoError(t, scanner(t, ScannerOptions{}).Classify(t.Context(), in, &out))
	require.Equal(t, []Finding{{TagPII, KindCard, 1, []Place{{0, 0}}}}, out.Findings)
}

// What a body hides by JSON's escapes, also within quoted JSON, is found.
func TestEscapesHideNothing(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	for name, body := range map[string]string{
		"escaped":            `{"messages":[{"role":"user","content":"bob\u0040example.com"}]}`,
		"escaped digits":     `{"messages":[{"role":"user","content":"\u0034111\u00201111 1111 1111"}]}`,
		"escaped key":        `{"mess\u0061ges":[{"role":"user","content":"bob@example.com"}]}`,
		"arguments":          `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"to\":\"bob\\u0040example.com\"}"}}]}]}`,
		"arguments, twice":   `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"to\":\"{\\\"x\\\":\\\"bob\\\\u0040example.com\\\"}\"}"}}]}]}`,
		"tool result":        `{"messages":[{"role":"tool","content":"{\"to\":\"bob\\u0040example.com\"}"}]}`,
		"quoted line breaks": `{"messages":[{"role":"user","content":"x\\n4111111111111111\\ny"}]}`,
		"a key":              `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"bob@example.com":1}}]}]}`,
		"a number":           `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"n":4111111111111111}}]}]}`,
		"a number as a part": `{"messages":[{"role":"user","content":[{"type":"text","text":4111111111111111}]}]}`,
		"metadata":           `{"messages":[],"metadata":{"user":"bob@example.com"}}`,
		"user":               `{"messages":[],"user":"bob@example.com"}`,
		"first of two":       `{"messages":[{"role":"user","content":"bob@example.com"}],"messages":[]}`,
		"tools":              `{"messages":[],"tools":[{"function":{"description":"mail bob@example.com"}}]}`,
		"data of text":       `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"bob@example.com"}}]}]}`,
	} {
		in := extract(t, prompt.Chat, body)
		var out Result
		require.NoError(t, s.Classify(t.Context(), in, &out))
		require.Equal(t, policy.TagPresent, out.State(TagPII), name)
	}
}

func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	t.Parallel()
	state := func(s *Scanner, in *Input) policy.TagState {
		var out Result
		require.NoError(t, s.Classify(t.Context(), in, &out))
		return out.State(TagPII)
	}
	all := scanner(t, ScannerOptions{})
	image := `{"messages":[{"role":"user","content":[{"type":"text","text":"%"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`
	clean := extract(t, prompt.Chat, strings.Replace(image, "%", "what is this?", 1))
	require.Equal(t, policy.TagUnknown, state(all, clean))
	require.Equal(t, policy.TagAbsent, state(scanner(t, ScannerOptions{Ignore: GapMedia}), clean))
	require.Equal(t, policy.TagUnknown, state(scanner(t, ScannerOptions{Ignore: GapAudio}), clean))
	require.Equal(t, policy.TagPresent, state(all, extract(t, prompt.Chat, strings.Replace(image, "%", "a@b.example", 1))))

	var cut Input
	require.NoError(t, Extract(&cut, prompt.Completions, []byte(`{"prompt":"0123456789"}`), 5))
	require.Equal(t, policy.TagUnknown, state(all, &cut))
}

func TestLongBlobsAreUnknown(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	run := func(unit string, n int) string { return strings.Repeat(unit, n/len(unit)+1)[:n] }
	base64 := run("TWFuIGlzIGRpc3Rpbmd1aXNoZWQ4", 600)
	var wrapped strings.Builder
	for i := 0; i < len(base64); i += 76 {
		wrapped.WriteString("    " + base64[i:min(i+76, len(base64))] + "\r\n")
	}
	tests := []struct {
		name string
		text string
		want policy.TagState
	}{
		{"base64", "see " + base64 + " there", policy.TagUnknown},
		{"base64 to the end", base64, policy.TagUnknown},
		{"wrapped base64", wrapped.String(), policy.TagUnknown},
		{"hex", run("4f70656e20736573616d6521", 512), policy.TagUnknown},
		{"with an address", base64 + " a@b.example", policy.TagPresent},
		{"digest", base64[:88], policy.TagAbsent},
		{"digests on lines", strings.Repeat(run("9f86d081884c7d65", 64)+"\n", 10), policy.TagAbsent},
		{"digits", run("1234567890", 600), policy.TagAbsent},
		{"letters", run("lorem", 600), policy.TagAbsent},
		{"prose", strings.Repeat("word 12 and another, ", 50), policy.TagAbsent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judged(t, s, tt.text).State(TagPII))
		})
	}
	require.Equal(t, policy.TagUnknown, judged(t, s, base64[:200], base64[200:400]).State(TagPII), "in two parts")
}

func TestKindsCanBeChosen(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{Kinds: []Kind{KindCard}, PIITag: "cards"})
	require.Equal(t, []string{"cards"}, s.Tags())
	out := judged(t, s, "a@b.example and 4111111111111111")
	require.Equal(t, []Finding{{"cards", KindCard, 1, []Place{{0, 16}}}}, out.Findings)
	require.Equal(t, policy.TagAbsent, judged(t, s, "a@b.example").State("cards"))
	_, err := NewScanner(ScannerOptions{Kinds: []Kind{"dna"}})
	require.ErrorIs(t, err, ErrKind)
}

func TestRolesCanBeIgnored(t *testing.T) {
	t.Parallel()
	in := extract(t, prompt.Messages, `{"system":"We are help@shop.example.","messages":[{"role":"user","content":[
		{"type":"tool_result","content":"from help@shop.example"},{"type":"text","text":"I am bob@example.com"}]}]}`)
	for _, tt := range []struct {
		roles []string
		want  []Place
	}{
		{nil, []Place{{0, 7}, {1, 5}, {2, 5}}},
		{[]string{"system", "tools"}, []Place{{1, 5}, {2, 5}}},
		{[]string{"system", "tool"}, []Place{{2, 5}}},
	} {
		var out Result
		require.NoError(t, scanner(t, ScannerOptions{IgnoreRoles: tt.roles}).Classify(t.Context(), in, &out))
		require.Equal(t, []Finding{{TagPII, KindEmail, len(tt.want), tt.want}}, out.Findings)
	}
	var out Result
	require.NoError(t, scanner(t, ScannerOptions{IgnoreRoles: []string{"system", "tool", "user"}}).Classify(t.Context(), in, &out))
	require.Equal(t, policy.TagAbsent, out.State(TagPII))
}

func TestScanHeedsItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var in Input
	in.AddText("user", "x")
	var out Result
	require.ErrorIs(t, scanner(t, ScannerOptions{}).Classify(ctx, &in, &out), context.Canceled)
	require.Equal(t, policy.TagUnknown, out.State(TagPII))
}

// FuzzScan splits a text into two parts at any byte: findings lie within the parts
// and work is linear.
func FuzzScan(f *testing.F) {
	for name, text := range worst() {
		f.Add([]byte(text[:min(len(text), 200)]), len(name))
	}
	for _, seed := range []string{
		"card 4111 1111 1111 1111 exp 12/26", "DE89 3704 0044 0532 0130 00", "11010519491231002X", "２３４１ 2341 2346", "529.982.247-25", "+1 (415) 555-0123",
		"https://a:b@c.example/", "eyJhbGciOiJIUzI1NiJ9.eyJ4IjoxfQ.AAAA", "-----BEGIN PRIVATE KEY-----", "x%40y.example", "\u200b4\u00ad1", "电话 13800138000",
	} {
		f.Add([]byte(seed), len(seed)/2)
	}
	s := scanner(f, ScannerOptions{})
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var w scan
		w.run(text)
		require.LessOrEqual(t, w.steps, 100*len(text)+1000)
		for _, h := range w.hits {
			require.GreaterOrEqual(t, h.start, 0)
			require.Less(t, h.start, h.end)
			require.LessOrEqual(t, h.end, len(text))
		}
		cut = int(uint(cut) % uint(len(text)+1))
		var out Result
		in := Input{Parts: []Part{{Text: text[:cut]}, {Text: text[cut:]}}}
		require.NoError(t, s.Classify(t.Context(), &in, &out))
		for _, found := range out.Findings {
			for _, p := range found.First {
				require.Less(t, p.Offset, max(1, len(in.Parts[p.Part].Text)))
			}
		}
		for _, tag := range s.Tags() {
			require.True(t, out.has(tag))
		}
	})
}
