package dialect

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Services that front Anthropic's models have what it signed in thinking_blocks: in pieces
// beside reasoning_content, or by themselves.
func TestChatReadsStreamedThinkingBlocks(t *testing.T) {
	signed := func(text, signature string) Part { return Part{Kind: Reasoning, Text: text, Signature: signature} }
	for name, c := range map[string]struct {
		deltas []string
		want   []Part
	}{
		"beside the text": {[]string{
			`{"reasoning_content":"Let ","thinking_blocks":[{"type":"thinking","thinking":"Let "}]}`,
			`{"reasoning_content":"me","thinking_blocks":[{"type":"thinking","thinking":"me","signature":""}]}`,
			`{"reasoning_content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"s1"}]}`,
			`{"reasoning_content":"see"}`,
			`{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"s2"}]}`,
			`{"content":"a"}`,
		}, []Part{signed("Let me", "s1"), signed("see", "s2"), {Text: "a"}}},
		"whole, after the text": {[]string{
			`{"reasoning_content":"Let "}`, `{"reasoning_content":"me"}`,
			`{"thinking_blocks":[{"type":"thinking","thinking":"Let me","signature":"s"}]}`,
			`{"content":"a"}`,
		}, []Part{signed("Let me", "s"), {Text: "a"}}},
		"by themselves": {[]string{
			`{"thinking_blocks":[{"type":"thinking","thinking":"Let "}]}`, `{"thinking_blocks":[{"type":"thinking","thinking":"me"}]}`,
			`{"thinking_blocks":[{"type":"thinking","signature":"s"},{"type":"redacted_thinking","data":"r1"},{"type":"redacted_thinking","data":"r2"}]}`,
			`{"content":"a"}`,
		}, []Part{signed("Let me", "s"), {Kind: Reasoning, Redacted: "r1"}, {Kind: Reasoning, Redacted: "r2"}, {Text: "a"}}},
		"a signature alone": {[]string{
			`{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"s"}]}`, `{"content":"a"}`,
		}, []Part{signed("", "s"), {Text: "a"}}},
		"too late": {[]string{
			`{"reasoning_content":"Let me"}`, `{"content":"a"}`,
			`{"thinking_blocks":[{"type":"thinking","thinking":"Let me","signature":"s"}]}`,
		}, []Part{{Kind: Reasoning, Text: "Let me"}, {Text: "a"}}},
		"behind a call that goes on": {[]string{
			`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}`,
			`{"reasoning_content":"hm"}`,
			`{"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"r"}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`,
		}, []Part{{Kind: ToolCall, ID: "c", Name: "f", Text: "{}"}, signed("hm", "s"), {Kind: Reasoning, Redacted: "r"}}},
		"of other types": {[]string{`{"thinking_blocks":7,"content":"a"}`, `{"thinking_blocks":[7,{"signature":7,"thinking":[]}]}`}, []Part{{Text: "a"}}},
	} {
		var in strings.Builder
		for _, d := range c.deltas {
			in.WriteString(chunk(d))
		}
		in.WriteString("data: [DONE]\n\n")
		a := assemble(Chat(), []byte(in.String()))
		require.NoError(t, a.bad, name)
		assert.Equal(t, c.want, a.Parts, name)
	}
}

// What the encoder writes the decoder reads.
func TestChatStreamsThoughtsThereAndBack(t *testing.T) {
	a := &Answer{ID: "1", Stop: StopTools, Parts: []Part{
		{Kind: Reasoning, Text: "one", Signature: "s1"},
		{Kind: Reasoning, Redacted: "r"},
		{Kind: Reasoning, Text: "two", Signature: "s2"},
		{Text: "a"},
		{Kind: ToolCall, ID: "c", Name: "f", Text: `{}`, Signature: "s3"},
	}}
	var out []byte
	e := Chat().NewStreamEncoder(&AnswerOptions{})
	open := Text
	a.Events(func(ev *Event) {
		out = e.Append(out, ev)
		if ev.Kind == PartBegin {
			open = ev.Part.Kind
		}
		assert.False(t, open == ToolCall && ev.Signature != "", "a call's signature is in its beginning")
	})
	got := assemble(Chat(), out)
	require.NoError(t, got.bad)
	assert.Equal(t, a.Parts, got.Parts)
}

// What waits of calls and of hidden reasoning counts: it comes from the service.
func TestStreamHoldsBackNamesWithinBounds(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, delta := range map[string]string{
		"redacted":   `{"thinking_blocks":[{"data":"` + long + `"}]}`,
		"signatures": `{"thinking_blocks":[{"signature":"` + long + `"}]}`,
		"names":      `{"tool_calls":[{"index":N,"id":"N","function":{"name":"` + long + `","arguments":"{}"}}]}`,
		"of calls":   `{"tool_calls":[{"index":N,"id":"N","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"` + long + `"}}}]}`,
	} {
		d := Chat().NewStreamDecoder()
		first := strings.TrimPrefix(strings.TrimSpace(chunk(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}`)), "data: ")
		require.NoError(t, d.Decode("", []byte(first), func(*Event) {}))
		frame := strings.TrimPrefix(strings.TrimSpace(chunk(delta)), "data: ")
		_, err := feed(d, 8, func(i int) string { return strings.ReplaceAll(frame, "N", strconv.Itoa(i+1)) })
		assert.Error(t, err, name)
	}
}

// Calls that are over are known by their ids still: those count, too.
func TestStreamKnowsABoundedAmountOfCalls(t *testing.T) {
	d := Chat().NewStreamDecoder()
	frame := strings.TrimPrefix(strings.TrimSpace(chunk(`{"tool_calls":[{"index":N,"id":"N`+strings.Repeat("x", 1<<20)+
		`","function":{"name":"f","arguments":"{}"}}]}`)), "data: ")
	_, err := feed(d, 8, func(i int) string { return strings.ReplaceAll(frame, "N", strconv.Itoa(i)) })
	var broken *BodyError
	require.ErrorAs(t, err, &broken)
	assert.Equal(t, "has too many calls", broken.Reason)
}
