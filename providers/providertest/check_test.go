package providertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

const (
	png     = "iVBORw0KGgo="
	calling = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},` +
		`{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	using = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"tool_use","id":"c2","name":"f","input":{}}]}`
)

// What OpenAI refuses is refused with the same status, code and parameter.
func TestOpenAIChecks(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{Models: []string{"gpt-4o", "o3"}})
	chatBody := func(messages, more string) string { return `{"model":"gpt-4o","messages":` + messages + more + `}` }
	user := `{"role":"user","content":"q"}`
	for name, c := range map[string]struct {
		path, body  string
		status      int
		param, code any
		text        string
	}{
		"no JSON":          {chat, `{`, 400, nil, nil, "could not be parsed"},
		"a list":           {chat, `[]`, 400, nil, nil, "could not be parsed"},
		"no model":         {chat, `{"messages":` + hello + `}`, 400, nil, nil, "provide a model"},
		"unknown model":    {chat, `{"model":"x","messages":` + hello + `}`, 404, nil, "model_not_found", "`x` does not exist"},
		"no messages":      {chat, `{"model":"gpt-4o"}`, 400, "messages", "missing_required_parameter", "Missing"},
		"empty messages":   {chat, chatBody(`[]`, ""), 400, "messages", "empty_array", "empty array"},
		"unknown argument": {chat, chatBody(hello, `,"top_k":1`), 400, nil, nil, "Unrecognized request argument supplied: top_k"},
		"unknown role":     {chat, chatBody(`[{"role":"human","content":"q"}]`, ""), 400, "messages[0].role", "invalid_value", "'human'"},
		"null content":     {chat, chatBody(`[{"role":"user","content":null}]`, ""), 400, "messages[0].content", nil, "got null"},
		"unknown key":      {chat, chatBody(`[{"role":"user","content":"q","cache_control":{}}]`, ""), 400, "messages[0].cache_control", "unknown_parameter", ""},
		"unknown part":     {chat, chatBody(`[{"role":"user","content":[{"type":"image"}]}]`, ""), 400, "messages[0].content[0].type", "invalid_value", "'image'"},
		"image of the system": {
			chat, chatBody(`[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://a"}}]}]`, ""),
			400, "messages[0].content[0].type", "invalid_value", "",
		},
		"image that is none": {
			chat, chatBody(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/plain;base64,aa"}}]}]`, ""),
			400, "messages[0].content[0].image_url.url", "invalid_image_format", "",
		},
		"hot":              {chat, chatBody(hello, `,"temperature":2.5`), 400, "temperature", "decimal_above_max_value", "2.5"},
		"no tokens":        {chat, chatBody(hello, `,"max_tokens":0`), 400, "max_tokens", "integer_below_min_value", ""},
		"half a token":     {chat, chatBody(hello, `,"max_tokens":1.5`), 400, "max_tokens", "invalid_type", ""},
		"two bounds":       {chat, chatBody(hello, `,"max_tokens":1,"max_completion_tokens":1`), 400, "max_tokens", "invalid_parameter_combination", ""},
		"stops":            {chat, chatBody(hello, `,"stop":["a","b","c","d","e"]`), 400, "stop", "array_above_max_length", ""},
		"stream options":   {chat, chatBody(hello, `,"stream_options":{"include_usage":true}`), 400, "stream_options", nil, ""},
		"max of reasoners": {chat, `{"model":"o3","max_tokens":5,"messages":` + hello + `}`, 400, "max_tokens", "unsupported_parameter", ""},
		"choice, no tools": {chat, chatBody(hello, `,"tool_choice":"required"`), 400, "tool_choice", nil, ""},
		"parallel, no tools": {
			chat, chatBody(hello, `,"parallel_tool_calls":true`), 400, "parallel_tool_calls", nil, "",
		},
		"tool's name": {
			chat, chatBody(hello, `,"tools":[{"type":"function","function":{"name":"a.b"}}]`), 400, "tools[0].function.name", "invalid_value", "",
		},
		"tool's schema": {
			chat, chatBody(hello, `,"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"string"}}}]`),
			400, "tools[0].function.parameters", "invalid_function_parameters", "",
		},
		"result of nothing": {
			chat, chatBody(`[`+user+`,{"role":"tool","tool_call_id":"c1","content":"r"}]`, ""), 400, "messages[1].role", nil, "preceding message",
		},
		"results are missing": {
			chat, chatBody(`[`+user+`,`+calling+`,{"role":"tool","tool_call_id":"c1","content":"r"},`+user+`]`, ""),
			400, "messages[3].role", nil, "did not have response messages: c2",
		},
		"results at the end are missing": {chat, chatBody(`[`+user+`,`+calling+`]`, ""), 400, "messages.role", nil, "c1, c2"},
		"arguments as JSON": {
			chat, chatBody(`[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]}]`, ""),
			400, "messages[0].tool_calls[0].function.arguments", "invalid_type", "",
		},
		"no prompt":        {"/v1/completions", `{"model":"gpt-4o"}`, 400, "prompt", "missing_required_parameter", ""},
		"nothing to embed": {"/v1/embeddings", `{"model":"gpt-4o"}`, 400, "input", "missing_required_parameter", ""},
		"no input":         {"/v1/responses", `{"model":"gpt-4o"}`, 400, "input", "missing_required_parameter", ""},
		"chat's bound":     {"/v1/responses", `{"model":"gpt-4o","input":"q","max_tokens":1}`, 400, "max_tokens", "unknown_parameter", ""},
		"chat's tool": {
			"/v1/responses", `{"model":"gpt-4o","input":"q","tools":[{"type":"function","function":{"name":"f"}}]}`,
			400, "tools[0].name", "missing_required_parameter", "",
		},
		"chat's part": {
			"/v1/responses", `{"model":"gpt-4o","input":[{"role":"user","content":[{"type":"text","text":"q"}]}]}`,
			400, "input[0].content[0].type", "invalid_value", "",
		},
		"output of nothing": {
			"/v1/responses", `{"model":"gpt-4o","input":[{"type":"function_call_output","call_id":"c","output":"r"}]}`, 400, "input", nil, "No tool call found",
		},
		"no such path": {"/v1/messages", `{}`, 404, nil, "unknown_url", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := ask(t, s.URL()+c.path, c.body)
			o := parse(t, body)
			require.Equal(t, c.status, status, body)
			require.Equal(t, []any{"invalid_request_error", c.param, c.code}, []any{at(o, "error", "type"), at(o, "error", "param"), at(o, "error", "code")}, body)
			require.Contains(t, at(o, "error", "message"), c.text)
		})
	}
	for name, body := range map[string]string{
		"plain": chatBody(hello, ""),
		"all": chatBody(`[{"role":"developer","content":"be short"},{"role":"user","name":"ann","content":[{"type":"text","text":"q"},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,`+png+`","detail":"low"}}]},`+calling+`,
			{"role":"tool","tool_call_id":"c2","content":"r"},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]},
			{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},`+user+`]`,
			`,"temperature":2,"max_completion_tokens":7,"stop":"x","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
			"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"reasoning_effort":"low"`),
	} {
		status, _, answer := ask(t, s.URL()+chat, body)
		require.Equal(t, 200, status, "%s: %s", name, answer)
		require.Empty(t, s.Last().Problem)
		if name == "all" {
			require.Equal(t, []any{1, int64(12)}, []any{s.Last().Images, s.Last().InputTokens}, "images and words")
		}
	}
}

// What Anthropic refuses is refused in its words.
func TestAnthropicChecks(t *testing.T) {
	for name, c := range map[string]struct {
		body, text string
		alternate  bool
	}{
		"no model":           {`{"max_tokens":1,"messages":` + hello + `}`, "model: Field required", false},
		"no max_tokens":      {`{"model":"c","messages":` + hello + `}`, "max_tokens: Field required", false},
		"null max_tokens":    {`{"model":"c","max_tokens":null,"messages":` + hello + `}`, "max_tokens: Field required", false},
		"max_tokens of 0":    {`{"model":"c","max_tokens":0,"messages":` + hello + `}`, "max_tokens: Input should be greater", false},
		"max_tokens of text": {`{"model":"c","max_tokens":"9","messages":` + hello + `}`, "max_tokens: Input should be a valid integer", false},
		"no messages":        {`{"model":"c","max_tokens":1}`, "messages: Field required", false},
		"empty messages":     {`{"model":"c","max_tokens":1,"messages":[]}`, "at least one message", false},
		"chat's parameter":   {claudeBody(hello, `,"seed":1`), "seed: Extra inputs are not permitted", false},
		"too warm":           {claudeBody(hello, `,"temperature":1.5`), "temperature: range: 0..1", false},
		"system role":        {claudeBody(`[{"role":"system","content":"s"}]`, ""), `Unexpected role "system"`, false},
		"tool role":          {claudeBody(`[{"role":"tool","content":"s"}]`, ""), "messages.0.role: Input should be 'user' or 'assistant'", false},
		"a name":             {claudeBody(`[{"role":"user","name":"n","content":"s"}]`, ""), "messages.0.name: Extra inputs", false},
		"empty content":      {claudeBody(`[{"role":"user","content":""}]`, ""), "messages.0: all messages must have non-empty content", false},
		"null content":       {claudeBody(`[{"role":"user","content":null}]`, ""), "messages.0.content: Field required", false},
		"empty text":         {claudeBody(`[{"role":"user","content":[{"type":"text","text":""}]}]`, ""), "text content blocks must be non-empty", false},
		"blank text":         {claudeBody(`[{"role":"user","content":[{"type":"text","text":" \n"}]}]`, ""), "must contain non-whitespace text", false},
		"trailing blank":     {claudeBody(`[{"role":"user","content":"q"},{"role":"assistant","content":"a "}]`, ""), "trailing whitespace", false},
		"not alternating":    {claudeBody(`[{"role":"user","content":"q"},{"role":"user","content":"q"}]`, ""), "roles must alternate", true},
		"assistant first":    {claudeBody(`[{"role":"assistant","content":"q"}]`, ""), `must use the "user" role`, true},
		"chat's part":        {claudeBody(`[{"role":"user","content":[{"type":"image_url"}]}]`, ""), "messages.0.content.0: Input tag 'image_url'", false},
		"image's type": {
			claudeBody(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"`+png+`"}}]}]`, ""),
			"messages.0.content.0.image.source.base64.media_type", false,
		},
		"image's data": {
			claudeBody(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"data:%%"}}]}]`, ""),
			"Invalid base64 data", false,
		},
		"results are missing": {
			claudeBody(`[{"role":"user","content":"q"},`+using+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, ""),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c2.", false,
		},
		"results after text": {
			claudeBody(`[{"role":"user","content":"q"},`+using+`,{"role":"user","content":[{"type":"text","text":"t"},
				{"type":"tool_result","tool_use_id":"c1"},{"type":"tool_result","tool_use_id":"c2"}]}]`, ""),
			"messages.1: `tool_use` ids were found without", false,
		},
		"results of nothing": {
			claudeBody(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c9"}]}]`, ""),
			"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c9.", false,
		},
		"arguments as text": {
			claudeBody(`[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"{}"}]}]`, ""), "input: Input should be a valid dictionary", false,
		},
		"call's id": {
			claudeBody(`[{"role":"assistant","content":[{"type":"tool_use","id":"a.b","name":"f","input":{}}]}]`, ""), "String should match pattern", false,
		},
		"calls by the user": {
			claudeBody(`[{"role":"user","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}]`, ""), "can only be in `assistant`", false,
		},
		"unsigned thinking": {
			claudeBody(`[{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}]`, ""), "thinking.signature: Field required", false,
		},
		"little thinking":   {claudeBody(hello, `,"thinking":{"type":"enabled","budget_tokens":5}`), "greater than or equal to 1024", false},
		"too much thinking": {claudeBody(hello, `,"thinking":{"type":"enabled","budget_tokens":1024}`), "`max_tokens` must be greater", false},
		"cold thinking": {
			`{"model":"c","max_tokens":2000,"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":1024},"messages":` + hello + `}`,
			"`temperature` may only be set to 1", false,
		},
		"tool without schema": {claudeBody(hello, `,"tools":[{"name":"f"}]`), "tools.0.custom.input_schema: Field required", false},
		"chat's tool":         {claudeBody(hello, `,"tools":[{"type":"custom","function":{"name":"f"}}]`), "tools.0.custom.name: Field required", false},
		"tools of one name": {
			claudeBody(hello, `,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`),
			"Tool names must be unique", false,
		},
		"choice, no tools": {claudeBody(hello, `,"tool_choice":{"type":"any"}`), "only be specified while providing tools", false},
		"choice of none": {
			claudeBody(hello, `,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"g"}`), "Tool 'g' not found", false,
		},
		"chat's choice": {
			claudeBody(hello, `,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":"auto"`), "tool_choice: Input should be", false,
		},
		"system of an image": {claudeBody(hello, `,"system":[{"type":"image"}]`), "system.0.type: Input should be 'text'", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, providertest.Anthropic, providertest.Options{Alternate: c.alternate})
			status, h, body := ask(t, s.URL()+claude, c.body)
			o := parse(t, body)
			require.Equal(t, []any{400, "error", "invalid_request_error"}, []any{status, o["type"], at(o, "error", "type")}, body)
			require.Contains(t, at(o, "error", "message"), c.text)
			require.Equal(t, h.Get("Request-Id"), o["request_id"])
			require.Contains(t, s.Last().Problem, c.text)
			require.Equal(t, 400, s.Last().Status)
		})
	}
}

// declared are the tools of a conversation with calls.
const declared = `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`

func claudeBody(messages, more string) string {
	return `{"model":"c","max_tokens":100,"messages":` + messages + more + `}`
}

func TestAnthropicTakes(t *testing.T) {
	s := start(t, providertest.Anthropic, providertest.Options{Models: []string{"c"}})
	for name, body := range map[string]string{
		"plain":              claudeBody(hello, ""),
		"neighbours":         claudeBody(`[{"role":"user","content":"q"},{"role":"user","content":"q"}]`, ""),
		"the answer's begin": claudeBody(`[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`, ""),
		"nothing in the end": claudeBody(`[{"role":"user","content":"q"},{"role":"assistant","content":""}]`, ""),
		"results in two turns": claudeBody(`[`+using+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"r"}]},{"type":"text","text":"t"}]}]`, declared),
		"all": claudeBody(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+png+`"}},
			{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a"}]},{"role":"user","content":"q"}]`,
			`,"system":[{"type":"text","text":"s"}],"temperature":1,"top_k":5,"stop_sequences":["x"],"metadata":{"user_id":"u"},
			"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
			"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`),
	} {
		status, _, answer := ask(t, s.URL()+claude, body)
		require.Equal(t, 200, status, "%s: %s", name, answer)
	}
	status, _, answer := ask(t, s.URL()+claude+"/count_tokens", `{"model":"c","system":"be short","messages":`+hello+`}`)
	require.Equal(t, []any{200, 5.0}, []any{status, parse(t, answer)["input_tokens"]})
	status, _, _ = ask(t, s.URL()+claude+"/count_tokens", claudeBody(hello, ""))
	require.Equal(t, 400, status, "max_tokens is not for counting")
	status, _, answer = ask(t, s.URL()+claude, `{"model":"d","max_tokens":1,"messages":`+hello+`}`)
	require.Equal(t, []any{404, "not_found_error"}, []any{status, at(parse(t, answer), "error", "type")})
	status, _, answer = ask(t, s.URL()+claude, claudeBody(hello, ""), "Anthropic-Version", "")
	require.Equal(t, 400, status)
	require.Contains(t, answer, "anthropic-version: header is required")
}
