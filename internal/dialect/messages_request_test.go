package dialect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// messagesBody is a request with these members and one turn.
func messagesBody(members string) string {
	if members != "" {
		members += ","
	}
	return `{"model":"m","max_tokens":9,` + members + `"messages":[{"role":"user","content":"Hi"}]}`
}

// messagesTurn is a request with one turn of these blocks.
func messagesTurn(role, blocks string) string {
	return `{"model":"m","max_tokens":9,"messages":[{"role":"` + role + `","content":[` + blocks + `]}]}`
}

func TestMessagesReadsRequests(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		body string
		want func(*Request)
	}{
		"the least": {messagesBody(""), func(*Request) {}},
		"numbers as they are spelled": {
			messagesBody(`"temperature":0.70,"top_p":1e-1,"top_k":40,"stream":true`),
			func(r *Request) { r.Temperature, r.TopP, r.TopK, r.Stream = "0.70", "1e-1", "40", true },
		},
		"system as a string": {
			messagesBody(`"system":"Be kind."`),
			func(r *Request) { r.System = []Part{{Text: "Be kind."}} },
		},
		"system in blocks": {
			messagesBody(`"system":[{"type":"text","text":"A"},{"type":"text","text":"B","cache_control":{"type":"ephemeral"}}]`),
			func(r *Request) {
				r.System = []Part{{Text: "A"}, {Text: "B", Cache: json.RawMessage(`{"type":"ephemeral"}`)}}
			},
		},
		"null is absent": {messagesBody(`"system":null,"temperature":null,"tools":null`), func(*Request) {}},
		"stops":          {messagesBody(`"stop_sequences":["a","\u00e9"]`), func(r *Request) { r.Stop = []string{"a", "é"} }},
		"user":           {messagesBody(`"metadata":{"user_id":"u1"}`), func(r *Request) { r.User = "u1" }},
		"tools": {
			messagesBody(`"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true},` +
				`{"type":"custom","name":"g","input_schema":{},"allowed_callers":["direct"],"defer_loading":false}]`),
			func(r *Request) {
				r.Tools = []Tool{
					{Name: "f", Description: "d", Schema: json.RawMessage(`{"type":"object"}`), Strict: &yes},
					{Name: "g", Schema: json.RawMessage(`{}`)},
				}
			},
		},
		"one tool, alone": {
			messagesBody(`"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`),
			func(r *Request) { r.Choice, r.Parallel = &ToolChoice{Kind: ChoiceTool, Name: "f"}, &no },
		},
		"any tool, in parallel": {
			messagesBody(`"tool_choice":{"type":"any","disable_parallel_tool_use":false}`),
			func(r *Request) { r.Choice, r.Parallel = &ToolChoice{Kind: ChoiceAny}, &yes },
		},
		"thinking within a budget": {
			messagesBody(`"thinking":{"type":"enabled","budget_tokens":2048}`),
			func(r *Request) { r.Thinking = &Thinking{Budget: 2048} },
		},
		"thinking off": {
			messagesBody(`"output_config":{"effort":"high"},"thinking":{"type":"disabled"}`),
			func(r *Request) { r.Thinking = &Thinking{Off: true} },
		},
		"an effort, said first": {
			messagesBody(`"output_config":{"effort":"medium"},"thinking":{"type":"adaptive"}`),
			func(r *Request) { r.Thinking = &Thinking{Effort: "medium"} },
		},
		"an effort, said last": {
			messagesBody(`"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}`),
			func(r *Request) { r.Thinking = &Thinking{Effort: "xhigh"} },
		},
		"a schema": {
			messagesBody(`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`),
			func(r *Request) {
				r.Format = &Format{Schema: json.RawMessage(`{"type":"object"}`), Name: "answer", Strict: &yes}
			},
		},
		"leftovers keep their order": {
			messagesBody(`"service_tier":"auto","new":{"a":1.0}`),
			func(r *Request) {
				r.Rest = []Member{
					{Name: "service_tier", From: "messages", Raw: json.RawMessage(`"auto"`)},
					{Name: "new", From: "messages", Raw: json.RawMessage(`{"a":1.0}`)},
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := &Request{
				Model: "m", MaxTokens: 9, IncludeUsage: true,
				Messages: []Message{{Role: User, Parts: []Part{{Text: "Hi"}}}},
			}
			c.want(want)
			got, err := Messages().DecodeRequest([]byte(c.body))
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestMessagesReadsBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		role, block string
		want        []Part
	}{
		"text":       {"user", `{"type":"text","text":"a\nb","cache_control":{"type":"ephemeral","ttl":"1h"}}`, []Part{{Text: "a\nb", Cache: json.RawMessage(`{"type":"ephemeral","ttl":"1h"}`)}}},
		"image":      {"user", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}`, []Part{{Kind: Image, Media: Media{Type: "image/png", Data: "QQ=="}}}},
		"image, URL": {"user", `{"type":"image","source":{"type":"url","url":"https://a/b.png"}}`, []Part{{Kind: Image, Media: Media{URL: "https://a/b.png"}}}},
		"PDF": {
			"user", `{"type":"document","title":"T","context":"C","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}}`,
			[]Part{{Text: "C"}, {Kind: Document, Name: "T", Media: Media{Type: "application/pdf", Data: "QQ=="}}},
		},
		"PDF, URL":                {"user", `{"type":"document","source":{"type":"url","url":"https://a/b.pdf"}}`, []Part{{Kind: Document, Media: Media{Type: "application/pdf", URL: "https://a/b.pdf"}}}},
		"plain document":          {"user", `{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}}`, []Part{{Text: "T\nD"}}},
		"document of blocks":      {"user", `{"type":"document","title":"T","source":{"type":"content","content":[{"type":"text","text":"D"},{"type":"image","source":{"type":"url","url":"https://a/b"}}]}}`, []Part{{Text: "T"}, {Text: "D"}, {Kind: Image, Media: Media{URL: "https://a/b"}}}},
		"document of a string":    {"user", `{"type":"document","source":{"type":"content","content":"D"}}`, []Part{{Text: "D"}}},
		"search result":           {"user", `{"type":"search_result","title":"T","source":"https://a","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"citations":{"enabled":false}}`, []Part{{Text: "T\nhttps://a\nx\ny"}}},
		"call":                    {"assistant", `{"type":"tool_use","id":"t1","name":"f","input":{"n":9007199254740993}}`, []Part{{Kind: ToolCall, ID: "t1", Name: "f", Text: `{"n":9007199254740993}`}}},
		"call without arguments":  {"assistant", `{"type":"tool_use","id":"t1","name":"f","input":{},"caller":{"type":"direct"}}`, []Part{{Kind: ToolCall, ID: "t1", Name: "f", Text: "{}"}}},
		"thinking":                {"assistant", `{"type":"thinking","thinking":"hm","signature":"s"}`, []Part{{Kind: Reasoning, Text: "hm", Signature: "s"}}},
		"redacted thinking":       {"assistant", `{"type":"redacted_thinking","data":"x"}`, []Part{{Kind: Reasoning, Redacted: "x"}}},
		"result as a string":      {"user", `{"type":"tool_result","tool_use_id":"t1","content":"ok","is_error":true}`, []Part{{Kind: ToolResult, ID: "t1", Failed: true, Parts: []Part{{Text: "ok"}}}}},
		"result of nothing":       {"user", `{"type":"tool_result","tool_use_id":"t1"}`, []Part{{Kind: ToolResult, ID: "t1"}}},
		"result of nothing, said": {"user", `{"type":"tool_result","tool_use_id":"t1","content":[]}`, []Part{{Kind: ToolResult, ID: "t1"}}},
		"result in blocks": {
			"user", `{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}},{"type":"tool_reference","tool_name":"g"}]}`,
			[]Part{{Kind: ToolResult, ID: "t1", Parts: []Part{{Text: "a"}, {Kind: Image, Media: Media{Type: "image/png", Data: "QQ=="}}, {Text: "Tool available: g"}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Messages().DecodeRequest([]byte(messagesTurn(c.role, c.block)))
			require.NoError(t, err)
			require.Len(t, got.Messages, 1)
			assert.Equal(t, c.want, got.Messages[0].Parts)
		})
	}
}

func TestMessagesKeepsInstructionsInTheirPlace(t *testing.T) {
	r, err := Messages().DecodeRequest([]byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},` +
		`{"role":"system","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"c"}]}`))
	require.NoError(t, err)
	require.Len(t, r.Messages, 3)
	assert.Equal(t, System, r.Messages[1].Role)
	assert.Equal(t, "b", r.Messages[1].Parts[0].Text)
}

func TestMessagesRefusesWhatNobodyElseHas(t *testing.T) {
	for body, field := range map[string]string{
		messagesBody(`"container":"c1"`):                                                                                             "container",
		messagesBody(`"mcp_servers":[{"type":"url"}]`):                                                                               "mcp_servers",
		messagesBody(`"compaction":{"type":"x"}`):                                                                                    "compaction",
		messagesBody(`"tools":[{"name":"f"},{"type":"web_search_20250305"}]`):                                                        "tools[1]",
		messagesBody(`"tools":[{"type":"bash_20250124","name":"bash"}]`):                                                             "tools[0]",
		messagesBody(`"tools":[{"name":"f","allowed_callers":["code_execution_20250825"]}]`):                                         "tools[0].allowed_callers",
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"}]}`:                                                    "max_tokens",
		messagesTurn("user", `{"type":"image","source":{"type":"file","file_id":"f"}}`):                                              "messages[0].content[0].source",
		messagesTurn("user", `{"type":"text","text":"a"},{"type":"container_upload"}`):                                               "messages[0].content[1]",
		messagesTurn("user", `{"type":"document","citations":{"enabled":true},"source":{"type":"text","data":"a"}}`):                 "messages[0].content[0].citations",
		messagesTurn("assistant", `{"type":"server_tool_use","id":"a","name":"web_search","input":{}}`):                              "messages[0].content[0]",
		messagesTurn("assistant", `{"type":"web_search_tool_result"}`):                                                               "messages[0].content[0]",
		messagesTurn("assistant", `{"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"code_execution_20250825"}}`):  "messages[0].content[0].caller",
		messagesTurn("user", `{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"new_thing"}]}`): "messages[0].content[0].content[1]",
	} {
		_, err := Messages().DecodeRequest([]byte(body))
		var u *UnsupportedError
		if assert.ErrorAs(t, err, &u, body) {
			assert.Equal(t, field, u.Field)
			assert.NotEmpty(t, u.Reason)
		}
	}
}

func TestMessagesNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ body, field string }{
		{`[1]`, ""},
		{`{`, ""},
		{`{"max_tokens":1,"messages":[]}`, "model"},
		{`{"model":"m","max_tokens":1}`, "messages"},
		{`{"model":"m","messages":[]}`, "max_tokens"},
		{messagesBody(`"temperature":"hot"`), "temperature"},
		{messagesBody(`"max_tokens":1.5`), "max_tokens"},
		{messagesBody(`"system":7`), "system"},
		{messagesBody(`"system":[{"type":"image"}]`), "system[0].type"},
		{messagesBody(`"stop_sequences":"x"`), "stop_sequences"},
		{messagesBody(`"thinking":{"type":"sometimes"}`), "thinking.type"},
		{messagesBody(`"tool_choice":{"type":"x"}`), "tool_choice.type"},
		{messagesTurn("robot", ``), "messages[0].role"},
		{messagesTurn("user", `{"text":"a"}`), "messages[0].content[0].type"},
		{messagesTurn("user", `{"type":"tool_use","id":"a","name":"f"}`), "messages[0].content[0].type"},
		{messagesTurn("assistant", `{"type":"tool_result","tool_use_id":"a"}`), "messages[0].content[0].type"},
		{messagesTurn("assistant", `{"type":"tool_use","id":"a","name":"f","input":"x"}`), "messages[0].content[0].input"},
		{messagesTurn("user", `{"type":"image","source":{"type":"telepathy"}}`), "messages[0].content[0].source.type"},
		{`{"model":"m","max_tokens":1,"messages":[{"role":"user"}]}`, "messages[0].content"},
	} {
		_, err := Messages().DecodeRequest([]byte(c.body))
		var b *BodyError
		if assert.ErrorAs(t, err, &b, c.body) {
			assert.Equal(t, c.field, b.Field, c.body)
			assert.NotEmpty(t, b.Reason)
		}
	}
}

func TestMessagesWarnsOfWhatItLeavesOut(t *testing.T) {
	for body, field := range map[string]string{
		messagesBody(`"metadata":{"user_id":"u","team":"x"}`):                                          "metadata",
		messagesBody(`"thinking":{"type":"adaptive","display":"omitted"}`):                             "thinking.display",
		messagesBody(`"thinking":{"type":"between_tools"}`):                                            "thinking.type",
		messagesBody(`"output_config":{"task_budget":{"type":"tokens"}}`):                              "output_config",
		messagesBody(`"tools":[{"name":"f","input_schema":{},"input_examples":[{}]}]`):                 "tools[0].input_examples",
		messagesBody(`"tools":[{"name":"f","defer_loading":true}]`):                                    "tools[0].defer_loading",
		messagesBody(`"tools":[{"name":"f","allowed_callers":["direct","code_execution_x"]}]`):         "tools[0].allowed_callers",
		messagesTurn("assistant", `{"type":"text","text":"a","citations":[{"type":"char_location"}]}`): "messages[0].content[0].citations",
	} {
		r, err := Messages().DecodeRequest([]byte(body))
		require.NoError(t, err, body)
		if assert.Len(t, r.Warnings, 1, body) {
			assert.Equal(t, field, r.Warnings[0].Field)
		}
	}
}

func TestMessagesErrorsQuoteNothing(t *testing.T) {
	const secret = "CANARY"
	for _, body := range []string{
		messagesTurn("user", `{"type":"`+secret+`"}`),
		messagesTurn(secret, ``),
		messagesBody(`"metadata":{"` + secret + `":1}`),
		messagesBody(`"thinking":{"type":"` + secret + `"}`),
		messagesBody(`"output_config":{"` + secret + `":1}`),
		messagesBody(`"tools":[{"name":"f","` + secret + `":1,"type":"` + secret + `"}]`),
		messagesTurn("user", `{"type":"image","source":{"type":"`+secret+`"}}`),
	} {
		r, err := Messages().DecodeRequest([]byte(body))
		said := fmt.Sprint(err)
		if r != nil {
			said += fmt.Sprint(r.Warnings)
		}
		assert.NotContains(t, said, secret)
	}
}

func TestCountTokensNeedsNoMaxTokens(t *testing.T) {
	r, err := CountTokens([]byte(`{"model":"m","system":"s","messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","input_schema":{}}]}`))
	require.NoError(t, err)
	assert.Equal(t, "m", r.Model)
	assert.Len(t, r.Tools, 1)
	assert.Zero(t, r.MaxTokens)

	_, err = CountTokens([]byte(`{"messages":[]}`))
	assert.Error(t, err)
}

func TestMessagesWarningsAreBounded(t *testing.T) {
	block := `{"type":"text","text":"a","citations":[{}]}`
	r, err := Messages().DecodeRequest([]byte(messagesTurn("assistant", strings.Repeat(block+",", 10_000)+block)))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(r.Warnings), maxWarnings)
	assert.Len(t, r.Messages[0].Parts, 10_001)
}
