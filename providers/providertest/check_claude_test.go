package providertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

// Generations of Claude differ in what they take. "" is taken.
func TestClaudeModels(t *testing.T) {
	const (
		enabled  = `,"thinking":{"type":"enabled","budget_tokens":1024}`
		adaptive = `,"thinking":{"type":"adaptive"}`
		disabled = `,"thinking":{"type":"disabled"}`
		between  = `,"thinking":{"type":"between_tools"}`
		forced   = declared + `,"tool_choice":{"type":"any"}`
		named    = declared + `,"tool_choice":{"type":"tool","name":"f"}`
		schema   = `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`
		begun    = `[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`
		unshown  = `[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]`
		shown = `[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
			{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]`
		over = `[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]},{"role":"assistant","content":"a"},{"role":"user","content":"q"}]`
	)
	s := start(t, providertest.Anthropic, providertest.Options{})
	for _, c := range []struct{ model, messages, more, want string }{
		// The beginning of an answer.
		{"claude-opus-4-6", begun, "", "does not support assistant message prefill"},
		{"claude-sonnet-5", begun, "", "does not support assistant message prefill"},
		{"claude-fable-5-1", begun, "", "does not support assistant message prefill"},
		{"anthropic/claude-4.6-sonnet", begun, "", "does not support assistant message prefill"},
		{"claude-sonnet-4-5-20250929", begun, "", ""},
		{"claude-opus-4-20250514", begun, "", ""},
		{"claude-3-7-sonnet-20250219", begun, "", ""},
		{"somebody-else", begun, "", ""},
		// Tools that must be called.
		{"claude-sonnet-5-5", hello, forced, "forcing the use of a tool is not supported"},
		{"claude-fable-5-1", hello, named, "forcing the use of a tool is not supported"},
		{"claude-mythos-5-1", hello, named, "forcing the use of a tool is not supported"},
		{"claude-opus-4-7", hello, forced, ""},
		{"claude-sonnet-4-5", hello, named, ""},
		{"claude-sonnet-4-5", hello, named + enabled, "Thinking may not be enabled when tool_choice forces tool use."},
		{"claude-opus-4-6", hello, forced + adaptive, "Thinking may not be enabled when tool_choice forces tool use."},
		{"claude-sonnet-5", hello, forced, "Thinking may not be enabled when tool_choice forces tool use."}, // it thinks by itself
		{"claude-sonnet-5", hello, forced + disabled, ""},
		{"claude-sonnet-5-5", hello, declared + `,"tool_choice":{"type":"auto"}`, ""},
		// Thinking.
		{"claude-opus-4-7", hello, enabled, "thinking.type.enabled"},
		{"claude-sonnet-5", hello, enabled, "thinking.type.enabled"},
		{"claude-opus-4-6", hello, enabled, ""},
		{"claude-3-5-sonnet-20241022", hello, enabled, "not supported on this model"},
		{"claude-3-5-sonnet-20241022", hello, adaptive, "adaptive thinking is not supported"},
		{"claude-sonnet-4-5", hello, adaptive, "adaptive thinking is not supported"},
		{"claude-opus-4-6", hello, adaptive, ""},
		{"claude-opus-4-7", hello, between, "between_tools"},
		{"claude-opus-5-5", hello, between, "between_tools"},
		{"claude-sonnet-5-5", hello, between, ""},
		{"claude-sonnet-5-5", hello, disabled, "thinking.type.disabled"},
		{"claude-fable-5", hello, disabled, "thinking.type.disabled"},
		{"claude-opus-5", hello, disabled, ""},
		{"c", hello, `,"thinking":{"type":"some"}`, "thinking: Input tag"},
		// How warm.
		{"claude-opus-4-7", hello, `,"temperature":0.5`, "`temperature` is deprecated"},
		{"claude-opus-4-7", hello, `,"top_p":0.5`, "`top_p` is deprecated"},
		{"claude-opus-4-7", hello, `,"top_k":5`, "`top_k` is deprecated"},
		{"claude-opus-4-7", hello, `,"temperature":1`, ""},
		{"claude-opus-4-7", hello, `,"top_p":1`, ""},
		{"claude-sonnet-4-5", hello, `,"temperature":0.5,"top_p":0.5`, "cannot both be specified"},
		{"claude-sonnet-4-5", hello, `,"temperature":0.5`, ""},
		{"claude-sonnet-4-20250514", hello, `,"temperature":0.5,"top_p":0.5`, ""},
		{"claude-opus-4-6", hello, `,"temperature":0.5` + adaptive, "may only be set to 1"},
		{"claude-sonnet-4-5", hello, `,"top_p":0.9` + enabled, "greater than or equal to 0.95"},
		{"claude-sonnet-4-5", hello, `,"top_p":0.95` + enabled, ""},
		{"claude-sonnet-4-5", hello, `,"top_k":5` + enabled, "`top_k` must be unset"},
		// A turn that goes on.
		{"claude-sonnet-4-5", unshown, declared + enabled, "messages.1.content.0.type: Expected `thinking`"},
		{"claude-sonnet-4-5", begun, enabled, "found `text`"},
		{"claude-sonnet-4-5", shown, declared + enabled, ""},
		{"claude-sonnet-4-5", over, declared + enabled, ""},
		{"claude-opus-4-6", unshown, declared + adaptive, ""},
		{"c", unshown, "", "must define tools"},
		{"c", unshown, `,"tools":[]`, "must define tools"},
		// The answer's form.
		{"claude-opus-4-7", hello, `,"output_config":7`, "output_config: Input should be a valid dictionary"},
		{"claude-opus-4-7", hello, `,"output_config":{"efort":"low"}`, "output_config.efort: Extra inputs"},
		{"claude-opus-4-7", hello, `,"output_config":{"effort":"banana"}`, "output_config.effort: Input should be"},
		{"claude-opus-4-7", hello, `,"output_config":{"effort":"xhigh"}`, ""},
		{"claude-opus-4-6", hello, `,"output_config":{"effort":"xhigh"}`, "effort level 'xhigh'"},
		{"claude-sonnet-4-5", hello, `,"output_config":{"effort":"low"}`, "does not support the effort parameter"},
		{"claude-opus-4-5", hello, `,"output_config":{"effort":"low"}`, ""},
		{"claude-sonnet-4-5", hello, `,"output_config":{"format":7}`, "output_config.format: Input should be a valid dictionary"},
		{"claude-sonnet-4-5", hello, `,"output_config":{"format":{}}`, "output_config.format.type: Field required"},
		{"claude-sonnet-4-5", hello, `,"output_config":{"format":{"type":"json_object"}}`, "Input should be 'json_schema'"},
		{"claude-sonnet-4-5", hello, `,"output_config":{"format":{"type":"json_schema"}}`, "output_config.format.schema: Field required"},
		{"claude-sonnet-4-5", hello, `,"output_config":{"format":{"type":"json_schema","schema":"{}"}}`, "valid dictionary"},
		{"claude-sonnet-4-5", hello, `,"output_config":{"format":{"type":"json_schema","schema":{},"strict":true}}`, "output_config.format.strict: Extra"},
		{"claude-sonnet-4-5", hello, schema, ""},
		{"claude-3-5-haiku-20241022", hello, schema, "does not support structured outputs"},
		// Stops.
		{"c", hello, `,"stop_sequences":[" \n"]`, "must contain non-whitespace"},
		{"c", hello, `,"stop_sequences":[7]`, "stop_sequences.0: Input should be a valid string"},
		{"c", hello, `,"stop_sequences":"x"`, "stop_sequences: Input should be a valid list"},
	} {
		body := `{"model":"` + c.model + `","max_tokens":2000,"messages":` + c.messages + c.more + `}`
		status, _, answer := ask(t, s.URL()+claude, body)
		if c.want == "" {
			require.Equal(t, 200, status, "%s: %s", body, answer)
			continue
		}
		require.Equal(t, 400, status, "%s: %s", body, answer)
		require.Contains(t, at(parse(t, answer), "error", "message"), c.want, body)
	}
}

// Documents have one of five sources.
func TestDocuments(t *testing.T) {
	s := start(t, providertest.Anthropic, providertest.Options{})
	for source, want := range map[string]string{
		`{"type":"base64","media_type":"application/pdf","data":"JVBERg=="}`: "",
		`{"type":"base64","media_type":"text/plain","data":"JVBERg=="}`:      "base64.media_type: Input should be 'application/pdf'",
		`{"type":"base64","media_type":"application/pdf","data":"%"}`:        "Invalid base64 data",
		`{"type":"text","media_type":"text/plain","data":"d"}`:               "",
		`{"type":"text","media_type":"text/html","data":"d"}`:                "text.media_type",
		`{"type":"text","media_type":"text/plain"}`:                          "text.data: Field required",
		`{"type":"content","content":"d"}`:                                   "",
		`{"type":"content","content":[{"type":"text","text":"d"}]}`:          "",
		`{"type":"content","content":[{"type":"text","text":""}]}`:           "must be non-empty",
		`{"type":"content"}`:                                          "content.content: Field required",
		`{"type":"url","url":"https://a.test/b.pdf"}`:                 "",
		`{"type":"url","url":"data:application/pdf;base64,JVBERg=="}`: "Only HTTPS URLs",
		`{"type":"file","file_id":"f"}`:                               "",
		`{"type":"file"}`:                                             "file.file_id: Field required",
		`{"type":"path"}`:                                             "does not match any of the expected tags",
		`7`:                                                           "does not match any of the expected tags",
		`{"type":"url","url":"https://a.test/b.pdf"},"name":"b"`:                       "document.name: Extra inputs",
		`{"type":"url","url":"https://a.test/b.pdf"},"title":"b","context":"c"`:        "",
		`{"type":"url","url":"https://a.test/b.pdf"},"citations":{"enabled":true}`:     "",
		`{"type":"text","media_type":"text/plain","data":"d"},"cache_control":{"a":1}`: "",
	} {
		body := claudeBody(`[{"role":"user","content":[{"type":"document","source":`+source+`}]}]`, "")
		status, _, answer := ask(t, s.URL()+claude, body)
		if want == "" {
			require.Equal(t, 200, status, "%s: %s", source, answer)
			continue
		}
		require.Equal(t, 400, status, "%s: %s", source, answer)
		require.Contains(t, at(parse(t, answer), "error", "message"), want, source)
	}
}
