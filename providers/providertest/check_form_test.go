package providertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

// The forms of OpenAI's parameters, and what models that reason don't take.
func TestOpenAIForms(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{})
	const (
		chatTool      = `,"tools":[{"type":"function","function":{"name":"f"}}]`
		responsesTool = `,"tools":[{"type":"function","name":"f"}]`
		responses     = "/v1/responses"
	)
	body := func(model, more string) string { return `{"model":"` + model + `","messages":` + hello + more + `}` }
	input := func(model, more string) string { return `{"model":"` + model + `","input":"q"` + more + `}` }
	for _, c := range []struct {
		path, body string
		param      string // "": it is taken
		code       any
	}{
		{chat, body("gpt-4o", `,"response_format":7`), "response_format", "invalid_type"},
		{chat, body("gpt-4o", `,"response_format":{}`), "response_format.type", "missing_required_parameter"},
		{chat, body("gpt-4o", `,"response_format":{"type":"xml"}`), "response_format.type", "invalid_value"},
		{chat, body("gpt-4o", `,"response_format":{"type":"json_schema"}`), "response_format.json_schema", "missing_required_parameter"},
		{chat, body("gpt-4o", `,"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`), "response_format.json_schema.name", "missing_required_parameter"},
		{chat, body("gpt-4o", `,"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}}`), "response_format.json_schema.name", "invalid_value"},
		{chat, body("gpt-4o", `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":"{}"}}`), "response_format.json_schema.schema", "invalid_type"},
		{chat, body("gpt-4o", `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{}}}`), "", nil},
		{chat, body("gpt-4o", `,"response_format":{"type":"json_object"}`), "", nil},
		{chat, body("gpt-4o", `,"stop":9`), "stop", "invalid_type"},
		{chat, body("gpt-4o", `,"stop":["a",9]`), "stop", "invalid_type"},
		{chat, body("gpt-4o", `,"stop":["a"]`), "", nil},
		{"/v1/completions", `{"model":"gpt-4o","prompt":"q","stop":{}}`, "stop", "invalid_type"},
		{chat, body("gpt-5", `,"reasoning_effort":"banana"`), "reasoning_effort", "invalid_value"},
		{chat, body("gpt-5", `,"reasoning_effort":7`), "reasoning_effort", "invalid_value"},
		{chat, body("gpt-5", `,"reasoning_effort":"xhigh"`), "", nil},
		{chat, body("gpt-4o", `,"tool_choice":"auto"`), "tool_choice", nil},
		{chat, body("gpt-4o", `,"tool_choice":"none"`), "tool_choice", nil},
		{chat, body("gpt-4o", `,"tools":[],"parallel_tool_calls":false`), "parallel_tool_calls", nil},
		{chat, body("gpt-4o", chatTool+`,"parallel_tool_calls":"no"`), "parallel_tool_calls", "invalid_type"},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":"any"`), "tool_choice", "invalid_value"},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":7`), "tool_choice", "invalid_type"},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":{}`), "tool_choice.type", "missing_required_parameter"},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":{"type":"function","name":"f"}`), "tool_choice.function.name", "missing_required_parameter"},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":{"type":"function","function":{"name":"g"}}`), "tool_choice", nil},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":true`), "", nil},
		{chat, body("gpt-4o", chatTool+`,"tool_choice":"required"`), "", nil},
		{chat, body("o3", `,"stop":"x"`), "stop", "unsupported_parameter"},
		{chat, body("gpt-5.1", `,"stop":["x"]`), "stop", "unsupported_parameter"},
		{chat, body("o3", `,"top_p":0.9`), "top_p", "unsupported_parameter"},
		{chat, body("o3", `,"presence_penalty":1`), "presence_penalty", "unsupported_parameter"},
		{chat, body("o3", `,"frequency_penalty":1`), "frequency_penalty", "unsupported_parameter"},
		{chat, body("o3", `,"logprobs":true`), "logprobs", "unsupported_parameter"},
		{chat, body("o3", `,"temperature":0.5`), "temperature", "unsupported_value"},
		{chat, body("o3", `,"top_p":1.0,"presence_penalty":0,"frequency_penalty":0,"temperature":1,"logprobs":false,"stop":null`), "", nil},
		{responses, input("gpt-5", `,"reasoning":{"effort":"banana"}`), "reasoning.effort", "invalid_value"},
		{responses, input("gpt-5", `,"reasoning":7`), "reasoning", "invalid_type"},
		{responses, input("gpt-5", `,"text":"plain"`), "text", "invalid_type"},
		{responses, input("gpt-5", `,"text":{"format":7}`), "text.format", "invalid_type"},
		{responses, input("gpt-5", `,"text":{"format":{"type":"json_schema","name":"a b","schema":{}}}`), "text.format.name", "invalid_value"},
		{responses, input("gpt-5", `,"text":{"format":{"type":"json_schema","name":"a"}}`), "text.format.schema", "missing_required_parameter"},
		{responses, input("gpt-5", `,"text":{"format":{"type":"json_schema","name":"a","schema":{}}},"reasoning":{"effort":"low"}`), "", nil},
		{responses, input("gpt-4o", responsesTool+`,"tool_choice":{"type":"function","name":"g"}`), "tool_choice", nil},
		{responses, input("gpt-4o", responsesTool+`,"tool_choice":{"type":"function","name":"f"}`), "", nil},
		{responses, input("gpt-4o", `,"tool_choice":"required"`), "tool_choice", nil},
		{responses, input("gpt-4o", `,"tool_choice":"auto","parallel_tool_calls":true`), "", nil}, // as answers repeat them
		{responses, input("o3", `,"top_p":0.9`), "top_p", "unsupported_parameter"},
	} {
		status, _, answer := ask(t, s.URL()+c.path, c.body)
		if c.param == "" {
			require.Equal(t, 200, status, "%s: %s", c.body, answer)
			continue
		}
		o := parse(t, answer)
		require.Equal(t, []any{400, c.param, c.code}, []any{status, at(o, "error", "param"), at(o, "error", "code")}, "%s: %s", c.body, answer)
		require.NotEmpty(t, s.Last().Problem)
	}
}
