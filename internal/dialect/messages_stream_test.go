package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// events spells what a decoder makes of frames, one event a line.
func events(t *testing.T, frames ...string) []string {
	t.Helper()
	var list []string
	d := Messages().NewStreamDecoder()
	for _, f := range frames {
		require.NoError(t, d.Decode("", []byte(f), func(ev *Event) { list = append(list, spell(ev)) }), f)
	}
	return list
}

func spell(ev *Event) string {
	switch ev.Kind {
	case Begin:
		return fmt.Sprintf("begin %s %s in=%d", ev.ID, ev.Model, ev.Usage.Input)
	case PartBegin:
		names := [...]string{Text: "text", ToolCall: "call", Reasoning: "thought", Refusal: "refusal"}
		return strings.TrimSpace(fmt.Sprintf("[%s %s %s%s", names[ev.Part.Kind], ev.Part.ID, ev.Part.Name, ev.Part.Redacted))
	case Delta:
		if ev.Signature != "" {
			return "signature " + ev.Signature
		}
		return ev.Text
	case PartEnd:
		return "]"
	case Finish:
		return fmt.Sprintf("finish %d %q in=%d out=%d", ev.Stop, ev.StopText, ev.Usage.Input, ev.Usage.Output)
	case Tally:
		return fmt.Sprintf("tally in=%d out=%d", ev.Usage.Input, ev.Usage.Output)
	case Fail:
		return fmt.Sprintf("fail %d %s", ev.Failure.Kind, ev.Failure.Message)
	case Keep:
		return "keep"
	case End:
		return "end"
	}
	return "?"
}

const (
	frameStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}}}`
	frameStop  = `{"type":"message_stop"}`
)

func frameBlock(i int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block)
}

func frameDelta(i int, delta string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, delta)
}

func frameEnd(i int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i) }

func frameFinish(reason string, out int) string {
	return fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`, reason, out)
}

func TestMessagesReadsStreams(t *testing.T) {
	text := func(i int, s string) string { return frameDelta(i, `{"type":"text_delta","text":"`+s+`"}`) }
	args := func(i int, s string) string {
		return frameDelta(i, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%q}`, s))
	}
	const emptyText, callF, callG = `{"type":"text","text":""}`, `{"type":"tool_use","id":"t1","name":"f","input":{}}`, `{"type":"tool_use","id":"t2","name":"g","input":{}}`
	for name, c := range map[string]struct {
		frames []string
		want   string
	}{
		"text": {
			[]string{frameStart, frameBlock(0, emptyText), `{"type":"ping"}`, text(0, "He"), text(0, "llo"), frameEnd(0), frameFinish("end_turn", 7), frameStop},
			`begin msg_1 claude-x in=15|[text|keep|He|llo|]|finish 1 "" in=15 out=7|end`,
		},
		"tool first, in parallel": {
			[]string{frameStart, frameBlock(0, callF), args(0, ""), args(0, `{"a":`), args(0, `1}`), frameEnd(0), frameBlock(1, callG), frameEnd(1), frameFinish("tool_use", 7), frameStop},
			`begin msg_1 claude-x in=15|[call t1 f|keep|{"a":|1}|]|[call t2 g|{}|]|finish 4 "" in=15 out=7|end`,
		},
		"arguments at once": {
			[]string{frameStart, frameBlock(0, `{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}`), frameEnd(0), frameFinish("tool_use", 7), frameStop},
			`begin msg_1 claude-x in=15|[call t1 f|{"a":1}|]|finish 4 "" in=15 out=7|end`,
		},
		"blocks that overlap": {
			[]string{frameStart, frameBlock(0, callF), frameBlock(1, callG), args(1, `{"b":`), args(0, `{"a":`), args(1, `2}`), frameEnd(1), args(0, `1}`), frameBlock(2, emptyText), text(2, "x"), frameEnd(0), text(2, "y"), frameEnd(2), frameFinish("tool_use", 7), frameStop},
			`begin msg_1 claude-x in=15|[call t1 f|keep|{"a":|keep|1}|keep|]|[call t2 g|{"b":2}|]|[text|x|y|]|finish 4 "" in=15 out=7|end`,
		},
		"thinking": {
			[]string{frameStart, frameBlock(0, `{"type":"thinking","thinking":"","signature":""}`), frameDelta(0, `{"type":"thinking_delta","thinking":"hm"}`), frameDelta(0, `{"type":"signature_delta","signature":"s"}`), frameEnd(0), frameBlock(1, `{"type":"redacted_thinking","data":"d"}`), frameEnd(1), frameFinish("end_turn", 7), frameStop},
			`begin msg_1 claude-x in=15|[thought|hm|signature s|]|[thought  d|]|finish 1 "" in=15 out=7|end`,
		},
		"a first word in the block's beginning": {
			[]string{frameStart, frameBlock(0, `{"type":"text","text":"He"}`), text(0, "llo"), frameEnd(0), frameFinish("max_tokens", 7), frameStop},
			`begin msg_1 claude-x in=15|[text|He|llo|]|finish 2 "" in=15 out=7|end`,
		},
		"what is new is passed over": {
			[]string{frameStart, `{"type":"new_event"}`, frameBlock(0, `{"type":"server_tool_use","id":"x","name":"y","input":{}}`), args(0, "{}"), frameEnd(0), frameBlock(1, emptyText), frameDelta(1, `{"type":"citations_delta","citation":{}}`), text(1, "a"), frameEnd(1), frameFinish("end_turn", 7), frameStop},
			`begin msg_1 claude-x in=15|keep|keep|keep|[text|keep|a|]|finish 1 "" in=15 out=7|end`,
		},
		"usage grows, and comes late": {
			[]string{frameStart, `{"type":"message_delta","delta":{},"usage":{"output_tokens":3}}`, `{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"},"usage":{"input_tokens":20,"cache_read_input_tokens":0,"output_tokens":9}}`, `{"type":"message_delta","delta":{},"usage":{"output_tokens":11}}`, frameStop},
			`begin msg_1 claude-x in=15|keep|finish 3 "END" in=20 out=9|tally in=20 out=11|end`,
		},
		"a refusal": {
			[]string{frameStart, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"Not this."}},"usage":{"output_tokens":1}}`, frameStop},
			`begin msg_1 claude-x in=15|[refusal|Not this.|]|finish 6 "" in=15 out=1|end`,
		},
		"an error": {
			[]string{frameStart, frameBlock(0, emptyText), text(0, "a"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, text(0, "b"), frameStop},
			`begin msg_1 claude-x in=15|[text|a|fail 9 Overloaded`,
		},
		"an error of a new type": {
			[]string{`{"type":"error","error":{"type":"new_error","message":"m"}}`}, `fail 10 m`,
		},
		"no reason, no ends": {
			[]string{frameStart, frameBlock(0, callF), frameBlock(1, emptyText), text(1, "a"), frameStop, frameStop},
			`begin msg_1 claude-x in=15|[call t1 f|keep|{}|]|[text|a|]|finish 0 "" in=15 out=1|end`,
		},
		"no beginning": {
			[]string{frameBlock(0, emptyText), text(0, "a"), frameEnd(0), frameEnd(0), frameFinish("end_turn", 2), "[DONE]", frameStop},
			`begin   in=0|[text|a|]|keep|finish 1 "" in=0 out=2|keep|end`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, strings.Join(events(t, c.frames...), "|"))
		})
	}
}

func TestMessagesBrokenStreams(t *testing.T) {
	for _, frame := range []string{`{"type":`, `nonsense`, frameDelta(3, `{"type":"text_delta","text":"a"}`)} {
		d := Messages().NewStreamDecoder()
		none := func(*Event) {}
		require.NoError(t, d.Decode("message_start", []byte(frameStart), none))
		var b *BodyError
		assert.ErrorAs(t, d.Decode("", []byte(frame), none), &b, frame)
	}
}

func TestMessagesHoldsBackABoundedAmount(t *testing.T) {
	d := Messages().NewStreamDecoder()
	none := func(*Event) {}
	for _, f := range []string{frameStart, frameBlock(0, `{"type":"text","text":""}`), frameBlock(1, `{"type":"text","text":""}`)} {
		require.NoError(t, d.Decode("", []byte(f), none))
	}
	piece := []byte(frameDelta(1, `{"type":"text_delta","text":"`+strings.Repeat("a", 1<<20)+`"}`))
	var err error
	for range messagesHeld>>20 + 2 {
		if err = d.Decode("", piece, none); err != nil {
			break
		}
	}
	var b *BodyError
	assert.ErrorAs(t, err, &b)
}

// written is what the encoder makes of events, without the frames' names.
func written(t *testing.T, o *AnswerOptions, evs ...Event) []string {
	t.Helper()
	var out []byte
	e := Messages().NewStreamEncoder(o)
	for i := range evs {
		out = e.Append(out, &evs[i])
	}
	var frames []string
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n\n"), "\n\n") {
		if frame == "" {
			continue
		}
		name, data, ok := strings.Cut(frame, "\ndata: ")
		require.True(t, ok, frame)
		name, ok = strings.CutPrefix(name, "event: ")
		require.True(t, ok, frame)
		require.Contains(t, data, `{"type":"`+name+`"`, "name and type are the same")
		frames = append(frames, data)
	}
	return frames
}

func TestMessagesWritesStreams(t *testing.T) {
	o := &AnswerOptions{Model: "asked", ID: "own"}
	begin := Event{Kind: Begin, ID: "chatcmpl-1", Model: "gpt"}
	const start = `{"type":"message_start","message":{"id":"msg_chatcmpl-1","type":"message","role":"assistant","model":"asked","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}`
	const stop = `{"type":"message_stop"}`
	end := func(reason, usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":` + usage + `}`
	}
	const none = `{"input_tokens":0,"output_tokens":0}`
	part := func(p Part) Event { return Event{Kind: PartBegin, Part: p} }
	say := func(s string) Event { return Event{Kind: Delta, Text: s} }
	for name, c := range map[string]struct {
		events []Event
		want   []string
	}{
		"text, and usage after the end": {
			[]Event{begin, part(Part{}), say("He"), say(""), say("l\"lo"), {Kind: PartEnd}, {Kind: Finish, Stop: StopEnd}, {Kind: Tally, Usage: Usage{Known: true, Input: 10, CacheRead: 4, CachedKnown: true, Output: 2}}, {Kind: End}},
			[]string{
				start, frameBlock(0, `{"type":"text","text":""}`), frameDelta(0, `{"type":"text_delta","text":"He"}`), frameDelta(0, `{"type":"text_delta","text":"l\"lo"}`), frameEnd(0),
				end("end_turn", `{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":2}`), stop,
			},
		},
		"tool first, in parallel, with a finish that says stop": {
			[]Event{begin, part(Part{Kind: ToolCall, ID: "c1", Name: "f"}), say(`{"a":1}`), {Kind: PartEnd}, part(Part{Kind: ToolCall, ID: "c2", Name: "g"}), {Kind: PartEnd}, {Kind: Finish, Stop: StopEnd}, {Kind: End}},
			[]string{
				start, frameBlock(0, `{"type":"tool_use","id":"c1","name":"f","input":{}}`), frameDelta(0, `{"type":"input_json_delta","partial_json":"{\"a\":1}"}`), frameEnd(0),
				frameBlock(1, `{"type":"tool_use","id":"c2","name":"g","input":{}}`), frameEnd(1), end("tool_use", none), stop,
			},
		},
		"thoughts, empty parts in between": {
			[]Event{begin, part(Part{}), {Kind: PartEnd}, part(Part{Kind: Reasoning}), say("hm"), {Kind: Delta, Signature: "s"}, {Kind: PartEnd}, part(Part{Kind: Reasoning, Redacted: "d"}), {Kind: PartEnd}, part(Part{}), say("a"), {Kind: PartEnd}, {Kind: Finish, Stop: StopLength}, {Kind: End}},
			[]string{
				start, frameBlock(0, `{"type":"thinking","thinking":"","signature":""}`), frameDelta(0, `{"type":"thinking_delta","thinking":"hm"}`), frameDelta(0, `{"type":"signature_delta","signature":"s"}`), frameEnd(0),
				frameBlock(1, `{"type":"redacted_thinking","data":"d"}`), frameEnd(1),
				frameBlock(2, `{"type":"text","text":""}`), frameDelta(2, `{"type":"text_delta","text":"a"}`), frameEnd(2), end("max_tokens", none), stop,
			},
		},
		"a refusal": {
			[]Event{begin, part(Part{Kind: Refusal}), say("No."), {Kind: PartEnd}, {Kind: Finish, Stop: StopEnd}, {Kind: End}},
			[]string{start, frameBlock(0, `{"type":"text","text":""}`), frameDelta(0, `{"type":"text_delta","text":"No."}`), frameEnd(0), end("refusal", none), stop},
		},
		"parts that don't end": {
			[]Event{begin, part(Part{}), say("a"), part(Part{Kind: ToolCall, ID: "c1", Name: "f"}), {Kind: End}},
			[]string{
				start, frameBlock(0, `{"type":"text","text":""}`), frameDelta(0, `{"type":"text_delta","text":"a"}`), frameEnd(0),
				frameBlock(1, `{"type":"tool_use","id":"c1","name":"f","input":{}}`), frameEnd(1), end("tool_use", none), stop,
			},
		},
		"signs of life count once something is answered": {
			[]Event{{Kind: Keep}, begin, {Kind: Keep}},
			[]string{start, `{"type":"ping"}`},
		},
		"a stream that breaks off has no end": {
			[]Event{begin, part(Part{}), say("a"), {Kind: PartEnd}, {Kind: Finish, Stop: StopEnd}},
			[]string{start, frameBlock(0, `{"type":"text","text":""}`), frameDelta(0, `{"type":"text_delta","text":"a"}`), frameEnd(0)},
		},
		"nothing after an error": {
			[]Event{begin, {Kind: Fail, Failure: &Failure{Kind: FailOverloaded}}, say("a"), {Kind: Finish}, {Kind: End}},
			[]string{start, `{"type":"error","error":{"type":"overloaded_error","message":"overloaded"}}`},
		},
		"nothing but an error": {
			[]Event{{Kind: Fail, Failure: &Failure{Kind: FailOverloaded, Message: "slow"}}},
			[]string{`{"type":"error","error":{"type":"overloaded_error","message":"slow"}}`},
		},
		"nothing at all": {
			[]Event{{Kind: End}, {Kind: End}},
			[]string{strings.Replace(start, "chatcmpl-1", "own", 1), end("end_turn", none), stop},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, written(t, o, c.events...))
		})
	}
}

// What the encoder writes is what the decoder reads.
func TestMessagesStreamsRoundTrip(t *testing.T) {
	in := []Event{
		{Kind: Begin, ID: "msg_1", Model: "m", Usage: Usage{Known: true, Input: 7}},
		{Kind: PartBegin, Part: Part{Kind: Reasoning}},
		{Kind: Delta, Text: "hm"},
		{Kind: Delta, Signature: "s"},
		{Kind: PartEnd},
		{Kind: PartBegin},
		{Kind: Delta, Text: "é\n"},
		{Kind: Delta, Text: "🙂"},
		{Kind: PartEnd},
		{Kind: PartBegin, Part: Part{Kind: ToolCall, ID: "a", Name: "f"}},
		{Kind: Delta, Text: `{"x":"\\"`},
		{Kind: Delta, Text: "}"},
		{Kind: PartEnd},
		{Kind: Finish, Stop: StopTools, Usage: Usage{Known: true, Input: 7, Output: 9}},
		{Kind: End},
	}
	var want []string
	for i := range in {
		want = append(want, spell(&in[i]))
	}
	assert.Equal(t, want, events(t, written(t, &AnswerOptions{}, in...)...))
}
