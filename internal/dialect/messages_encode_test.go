package dialect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sent encodes a request and returns its members and the warnings' fields.
func sent(t *testing.T, r *Request, o *RequestOptions) (map[string]json.RawMessage, []string) {
	t.Helper()
	var fields []string
	body, err := Messages().EncodeRequest(r, o, func(w Warning) {
		assert.NotEmpty(t, w.Reason)
		fields = append(fields, w.Field)
	})
	require.NoError(t, err)
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &members), string(body))
	return members, fields
}

// asked is a request with one turn.
func asked(change func(*Request)) *Request {
	r := &Request{Model: "claude-sonnet-4-5", Messages: []Message{says(User, Part{Text: "Hi"})}}
	change(r)
	return r
}

func says(role Role, parts ...Part) Message { return Message{Role: role, Parts: parts} }

func TestMessagesWritesTurns(t *testing.T) {
	call := func(id string) Part { return Part{Kind: ToolCall, ID: id, Name: "f", Text: `{"a":1}`} }
	result := func(id string) Part {
		return Part{Kind: ToolResult, ID: id, Parts: []Part{{Text: "r" + id}}}
	}
	for name, c := range map[string]struct {
		system   []Part
		turns    []Message
		want     string
		warnings []string
	}{
		"one text": {nil, []Message{says(User, Part{Text: "Hi"})}, `[{"role":"user","content":"Hi"}]`, nil},
		"neighbours of one role become one turn": {
			nil,
			[]Message{says(User, Part{Text: "a"}), says(User, Part{Text: "b"}), says(Assistant, Part{Text: "c"}), says(Assistant, call("1")), says(User, result("1"))},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` +
				`{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"tool_use","id":"1","name":"f","input":{"a":1}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r1"}]}]`,
			[]string{"tools"},
		},
		"results come first": {
			nil,
			[]Message{says(User, Part{Text: "a"}), says(Assistant, call("1"), call("2")), says(User, Part{Text: "so?"}), says(User, result("1")), says(User, result("2"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1}},{"type":"tool_use","id":"2","name":"f","input":{"a":1}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r1"},{"type":"tool_result","tool_use_id":"2","content":"r2"},{"type":"text","text":"so?"}]}]`,
			[]string{"tools"},
		},
		"empty texts go, and turns of nothing else": {
			nil,
			[]Message{says(User, Part{Text: "a"}), says(Assistant, Part{Text: " \n"}), says(User, Part{Text: ""}, Part{Text: "b"})},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, nil,
		},
		"the assistant first": {
			nil,
			[]Message{says(Assistant, Part{Text: "Hello!"}), says(User, Part{Text: "Hi"})},
			`[{"role":"user","content":"."},{"role":"assistant","content":"Hello!"},{"role":"user","content":"Hi"}]`,
			[]string{"messages"},
		},
		"instructions only": {[]Part{{Text: "Say hi."}}, nil, `[{"role":"user","content":"Say hi."}]`, []string{"messages"}},
		"nothing at all":    {nil, nil, `[{"role":"user","content":"."}]`, []string{"messages"}},
		"a begun answer loses the space at its end": {
			nil,
			[]Message{says(User, Part{Text: "a"}), says(Assistant, Part{Text: "It is \n"})},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"It is"}]`, nil,
		},
		"refusals are texts": {
			nil,
			[]Message{says(User, Part{Text: "a"}), says(Assistant, Part{Kind: Refusal, Text: "No."}), says(User, Part{Text: "b"})},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"No."},{"role":"user","content":"b"}]`, nil,
		},
		"only its own reasoning goes back": {
			nil,
			[]Message{
				says(User, Part{Text: "a"}),
				says(Assistant, Part{Kind: Reasoning, Text: "x"}, Part{Kind: Reasoning, Text: "hm", Signature: "s"}, Part{Kind: Reasoning, Redacted: "d"}, Part{Text: "b"}),
				says(User, Part{Text: "c"}),
			},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`,
			[]string{"messages[]"},
		},
		"a failed call, an empty result, foreign ids": {
			nil,
			[]Message{
				says(User, Part{Text: "a"}), says(Assistant, Part{Kind: ToolCall, ID: "functions.f:0", Name: "f"}),
				says(User, Part{Kind: ToolResult, ID: "functions.f:0", Failed: true, Parts: []Part{{Text: ""}}}),
			},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"functions_f_0_465b9878","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions_f_0_465b9878","is_error":true}]}]`,
			[]string{"tools"},
		},
		"names": {
			nil,
			[]Message{{Name: "ann", Parts: []Part{{Text: "a"}}}, {Name: "bob", Parts: []Part{{Text: "b"}}}},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			[]string{"messages[].name"},
		},
		"images": {
			nil,
			[]Message{says(User,
				Part{Kind: Image, Media: Media{Type: "image/jpg", Data: "QQ==", Detail: "high"}},
				Part{Kind: Image, Media: Media{URL: "https://a/b", Detail: "auto"}, Cache: json.RawMessage(`{"type":"ephemeral"}`)})},
			`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"QQ=="}},` +
				`{"type":"image","source":{"type":"url","url":"https://a/b"},"cache_control":{"type":"ephemeral"}}]}]`,
			[]string{"messages"},
		},
		"documents": {
			nil,
			[]Message{says(User,
				Part{Kind: Document, Name: "T", Media: Media{Type: "application/pdf", Data: "QQ=="}},
				Part{Kind: Document, Media: Media{Type: "text/markdown", Data: "w6k="}},
				Part{Kind: Document, Media: Media{URL: "http://a/b.pdf"}})},
			`[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="},"title":"T"},` +
				`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"é"}},` +
				`{"type":"document","source":{"type":"url","url":"http://a/b.pdf"}}]}]`,
			nil,
		},
		"arguments that are no object": {
			nil,
			[]Message{says(User, Part{Text: "a"}), says(Assistant, Part{Kind: ToolCall, ID: "1", Name: "f", Text: `{"a":`}), says(User, result("1"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"invalid_arguments":"{\"a\":"}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r1"}]}]`,
			[]string{"messages", "tools"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := sent(t, &Request{Model: "claude-sonnet-4-5", System: c.system, Messages: c.turns}, nil)
			assert.JSONEq(t, c.want, string(got["messages"]))
			assert.ElementsMatch(t, c.warnings, warnings)
		})
	}
}

func TestMessagesWritesInstructions(t *testing.T) {
	got, warnings := sent(t, asked(func(r *Request) { r.System = []Part{{Text: "Be kind."}} }), nil)
	assert.JSONEq(t, `"Be kind."`, string(got["system"]))
	assert.Empty(t, warnings)

	got, warnings = sent(t, asked(func(r *Request) {
		r.System = []Part{{Text: "Be kind."}, {Text: " "}}
		r.Messages = append(r.Messages, says(System, Part{Text: "Be brief."}), says(User, Part{Text: "So?"}))
	}), nil)
	assert.JSONEq(t, `[{"type":"text","text":"Be kind."},{"type":"text","text":"Be brief."}]`, string(got["system"]))
	assert.JSONEq(t, `[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"text","text":"So?"}]}]`, string(got["messages"]))
	assert.Equal(t, []string{"messages[].role"}, warnings)
}

func TestMessagesWritesTools(t *testing.T) {
	yes, no := true, false
	schema := json.RawMessage(`{"type":"object","properties":{"a":{}}}`)
	got, _ := sent(t, asked(func(r *Request) {
		r.Tools = []Tool{
			{Name: "f", Description: "d", Schema: schema, Strict: &yes, Cache: json.RawMessage(`{"type":"ephemeral"}`)},
			{Name: "g", Strict: &no},
			{Name: "h", Schema: json.RawMessage(`{"properties":{}}`)},
		}
	}), nil)
	assert.JSONEq(t, `[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{}}},"strict":true,"cache_control":{"type":"ephemeral"}},`+
		`{"name":"g","input_schema":{"type":"object"}},{"name":"h","input_schema":{"properties":{},"type":"object"}}]`, string(got["tools"]))
	assert.NotContains(t, got, "tool_choice")

	tool := []Tool{{Name: "f"}}
	for _, c := range []struct {
		choice   *ToolChoice
		parallel *bool
		tools    []Tool
		want     string
	}{
		{&ToolChoice{Kind: ChoiceAuto}, nil, tool, `{"type":"auto"}`},
		{&ToolChoice{Kind: ChoiceNone}, &no, tool, `{"type":"none"}`},
		{&ToolChoice{Kind: ChoiceAny}, &no, tool, `{"type":"any","disable_parallel_tool_use":true}`},
		{&ToolChoice{Kind: ChoiceTool, Name: "f"}, &yes, tool, `{"type":"tool","name":"f"}`},
		{nil, &no, tool, `{"type":"auto","disable_parallel_tool_use":true}`},
		{nil, &yes, tool, ""},
		{&ToolChoice{Kind: ChoiceAuto}, &no, nil, ""},
	} {
		got, _ := sent(t, asked(func(r *Request) { r.Tools, r.Choice, r.Parallel = c.tools, c.choice, c.parallel }), nil)
		if c.want == "" {
			assert.NotContains(t, got, "tool_choice")
			continue
		}
		assert.JSONEq(t, c.want, string(got["tool_choice"]))
	}
}

func TestMessagesDeclaresToolsThatWereCalled(t *testing.T) {
	got, warnings := sent(t, &Request{Model: "claude-opus-4-7", Messages: []Message{
		says(User, Part{Text: "a"}),
		says(Assistant, Part{Kind: ToolCall, ID: "1", Name: "f"}, Part{Kind: ToolCall, ID: "2", Name: "f"}),
		says(User, Part{Kind: ToolResult, ID: "1"}, Part{Kind: ToolResult, ID: "2"}),
	}}, nil)
	assert.JSONEq(t, `[{"name":"f","input_schema":{"type":"object"}}]`, string(got["tools"]))
	assert.JSONEq(t, `{"type":"none"}`, string(got["tool_choice"]))
	assert.Equal(t, []string{"tools"}, warnings)
}

func TestMessagesAlwaysSaysHowLong(t *testing.T) {
	limit := func(most int64, o *RequestOptions) string {
		got, _ := sent(t, asked(func(r *Request) { r.MaxTokens = most }), o)
		return string(got["max_tokens"])
	}
	assert.Equal(t, "4096", limit(0, nil))
	assert.Equal(t, "4096", limit(0, &RequestOptions{}))
	assert.Equal(t, "100", limit(0, &RequestOptions{MaxTokens: 100}))
	assert.Equal(t, "7", limit(7, &RequestOptions{MaxTokens: 100}))
}

func TestMessagesWritesTheRest(t *testing.T) {
	got, warnings := sent(t, asked(func(r *Request) {
		r.Stop, r.Stream, r.User = []string{"END", "é"}, true, "u\"1"
		r.Rest = []Member{
			{Name: "service_tier", From: "messages", Raw: json.RawMessage(`"standard_only"`)},
			{Name: "seed", From: "chat", Raw: json.RawMessage(`7`)},
		}
	}), nil)
	assert.JSONEq(t, `["END","é"]`, string(got["stop_sequences"]))
	assert.JSONEq(t, `true`, string(got["stream"]))
	assert.JSONEq(t, `{"user_id":"u\"1"}`, string(got["metadata"]))
	assert.JSONEq(t, `"standard_only"`, string(got["service_tier"]))
	assert.NotContains(t, got, "seed")
	assert.Equal(t, []string{"seed"}, warnings)
}

func TestMessagesCannotBeTold(t *testing.T) {
	for field, change := range map[string]func(*Request){
		"stop":            func(r *Request) { r.Stop = []string{"\n\n"} },
		"response_format": func(r *Request) { r.Format = &Format{} },
		"messages":        func(r *Request) { r.Messages[0].Parts = []Part{{Kind: Audio, Media: Media{Type: "audio/wav"}}} },
		"messages ": func(r *Request) {
			r.Messages[0].Parts = []Part{{Kind: Image, Media: Media{Type: "image/tiff", Data: "QQ=="}}}
		},
		"messages  ": func(r *Request) { r.Messages[0].Parts = []Part{{Kind: Image, Media: Media{URL: "s3://a/b"}}} },
		"messages   ": func(r *Request) {
			r.Messages[0].Parts = []Part{{Kind: Document, Media: Media{Type: "application/zip", Data: "QQ=="}}}
		},
	} {
		_, err := Messages().EncodeRequest(asked(change), nil, func(Warning) {})
		var u *UnsupportedError
		if assert.ErrorAs(t, err, &u, field) {
			assert.Contains(t, field, u.Field)
			assert.Equal(t, "messages", u.Service)
		}
	}
}
