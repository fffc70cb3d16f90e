package classify

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// FuzzExtract checks against encoding/json that no message's text is missed,
// whatever else a body holds, and that what is taken is bounded.
func FuzzExtract(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"a\u0040b"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]}`,
		`{"prompt":[1,2],"input":["a",[1]]}`,
		`{"system":[{"text":"s"}],"tools":[{"a":1}],"input":[{"type":"message","content":"x"}]}`,
		`{"messages":[[[[[[[[[[1234567]]]]]]]]]]}`,
		`{"messages":[{"role":"x","role":"y","content":{"type":"q","\u0040":"z"}}]}`,
	} {
		f.Add([]byte(seed), uint8(1), 1000)
	}
	s := scanner(f, ScannerOptions{})
	f.Fuzz(func(t *testing.T, body []byte, api uint8, most int) {
		most = 1 + int(uint(most)%(1<<16))
		var in Input
		if err := Extract(&in, prompt.API(api%6), body, most); err != nil {
			require.False(t, json.Valid(body) && len(body) > 0 && body[0] == '{' && in.Gaps != GapBody)
			return
		}
		total := 0
		for i, p := range in.Parts {
			total += len(p.Text)
			require.NotEmpty(t, p.Text)
			if i > 0 {
				require.GreaterOrEqual(t, p.Message, in.Parts[i-1].Message)
			}
		}
		require.LessOrEqual(t, total, most)
		require.GreaterOrEqual(t, in.Bytes, total)
		var out Result
		require.NoError(t, s.Classify(t.Context(), &in, &out))

		var chat struct {
			Messages []struct{ Content string }
		}
		if in.Gaps != 0 || json.Unmarshal(body, &chat) != nil {
			return
		}
		for _, m := range chat.Messages {
			if m.Content == "" {
				continue
			}
			found := false
			for _, p := range in.Parts {
				found = found || string(p.Text) == m.Content
			}
			require.True(t, found || holdsNested(&in, m.Content), "%q", m.Content)
		}
	})
}

// holdsNested: encoding/json takes keys of any case, which Extract reads with what
// stands beside them.
func holdsNested(in *Input, text string) bool {
	want, err := json.Marshal(text)
	if err != nil {
		return false
	}
	for _, p := range in.Parts {
		if p.aside && len(p.Text) >= len(text) && (bytes.Contains(p.Text, []byte(text)) || bytes.Contains(p.Text, want)) {
			return true
		}
	}
	return false
}
