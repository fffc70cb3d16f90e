package requests

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// shapes.txt has what is put together here: a heading for each kind, then one JSON
// text a line. The functions of tools are fields without the braces.
//
//go:embed shapes.txt
var shapes string

// shapesOf are the lines below a heading of shapes.txt.
func shapesOf(kind string) []string {
	_, after, _ := strings.Cut(shapes, "# "+kind+"\n")
	lines, _, _ := strings.Cut(after, "\n\n")
	return strings.Split(lines, "\n")
}

// fieldsOf are the fields that may bear on a prompt, by API, and some of other APIs.
var fieldsOf = map[prompt.API]string{
	prompt.Chat: `tools tool_choice chat_template chat_template_kwargs documents reasoning_effort add_generation_prompt
		continue_final_message add_special_tokens truncate_prompt_tokens truncation_side max_tokens max_completion_tokens
		response_format include_reasoning kv_transfer_params mm_processor_kwargs media_io_kwargs functions function_call
		prompt input system instructions thinking parallel_tool_calls structured_outputs echo messages n`,
	prompt.Completions: `prompt suffix echo add_special_tokens truncate_prompt_tokens truncation_side max_tokens prompt_embeds n best_of
		messages kv_transfer_params response_format tools`,
	prompt.Messages: `system tools tool_choice thinking output_config chat_template_kwargs max_tokens metadata stop_sequences documents
		reasoning_effort add_generation_prompt continue_final_message truncate_prompt_tokens kv_transfer_params container
		mcp_servers messages`,
	prompt.Responses: `instructions input tools tool_choice reasoning truncation max_output_tokens previous_response_id conversation
		prompt text chat_template chat_template_kwargs include previous_input_messages background store mm_processor_kwargs
		documents reasoning_effort add_generation_prompt messages kv_transfer_params`,
}

// usual are requests of each API that leave out what needn't be there.
var usual = map[prompt.API]string{
	prompt.Chat:        `"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]`,
	prompt.Completions: `"prompt":"one two three four"`,
	prompt.Messages:    `"max_tokens":10,"messages":[{"role":"user","content":"hi"}]`,
	prompt.Responses:   `"input":"hi"`,
}

type shaper struct{ out []Request }

// add makes a request of fields.
func (s *shaper) add(api prompt.API, fields ...string) {
	s.out = append(s.out, Request{api, []byte(`{"model":"m",` + strings.Join(fields, ",") + "}")})
}

// Shapes are requests in which one thing at a time is unusual: each field with a value
// of each kind, each role with content of each form, each kind of part, block and item.
// Many are refused, by the engine or here.
func Shapes() []Request {
	var s shaper
	for _, api := range []prompt.API{prompt.Chat, prompt.Completions, prompt.Messages, prompt.Responses} {
		for name := range strings.FieldsSeq(fieldsOf[api]) {
			for _, v := range shapesOf("values") {
				s.add(api, usual[api], `"`+name+`":`+v)
			}
		}
	}
	s.chats()
	s.tools()
	s.blocks()
	s.items()
	return s.out
}

// contents are what a message's content may be.
func contents() []string {
	out := shapesOf("contents")
	for _, p := range shapesOf("parts") {
		out = append(out, `[`+p+`]`, `[{"type":"text","text":"q"},`+p+`]`)
	}
	return out
}

// chats have messages of each role with content of each form, and with each of the
// fields that some roles have.
func (s *shaper) chats() {
	var messages []string
	for _, role := range []string{"user", "assistant", "system", "developer", "tool", "function", "observer", ""} {
		head := `{"role":"` + role + `"`
		for _, c := range contents() {
			messages = append(messages, head+`,"content":`+c+`}`)
		}
		messages = append(messages, head+`}`)
		for name := range strings.FieldsSeq("name tool_calls tool_call_id reasoning reasoning_content function_call refusal audio task tools x") {
			for _, v := range shapesOf("values") {
				messages = append(messages, head+`,"content":"c","`+name+`":`+v+`}`)
			}
		}
	}
	for _, a := range shapesOf("arguments") {
		messages = append(messages,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":`+a+`}}]}`,
			`{"role":"assistant","tool_calls":[{"type":"function","function":{"arguments":`+a+`,"name":"f"},"id":"1","index":0}]}`)
	}
	const hi = `{"role":"user","content":"hi"},`
	for _, m := range messages {
		s.add(prompt.Chat, `"messages":[`+m+`]`)
		s.add(prompt.Chat, `"messages":[`+hi+m+`]`)
		s.add(prompt.Chat, `"messages":[`+hi+m+`]`, `"continue_final_message":true`, `"add_generation_prompt":false`)
	}
}

// tools are defined in the forms of all APIs.
func (s *shaper) tools() {
	all := shapesOf("tools")
	for _, f := range shapesOf("functions") {
		all = append(all, `{"type":"function","function":{`+f+`}}`, `{"function":{`+f+`}}`, `{"type":"function",`+f+`}`,
			`{`+f+`}`, `{"type":"custom",`+f+`}`)
	}
	for _, tool := range all {
		tools := `"tools":[` + tool + `]`
		s.add(prompt.Chat, usual[prompt.Chat], tools, `"tool_choice":"none"`)
		for _, api := range []prompt.API{prompt.Chat, prompt.Messages, prompt.Responses} {
			s.add(api, usual[api], tools)
		}
	}
}

// blocks of the messages API stand wherever blocks may.
func (s *shaper) blocks() {
	for _, b := range shapesOf("blocks") {
		s.add(prompt.Messages, usual[prompt.Messages], `"system":[`+b+`]`)
		for _, m := range []string{
			`{"role":"user","content":[` + b + `]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[` + b + `]}]}`,
			`{"role":"user","content":"hi"},{"role":"assistant","content":[` + b + `,{"type":"text","text":"t"}]},{"role":"user","content":"go"}`,
		} {
			s.add(prompt.Messages, `"max_tokens":10`, `"messages":[`+m+`]`)
		}
	}
}

// items of the responses API stand alone, last and in the middle.
func (s *shaper) items() {
	all := shapesOf("items")
	for _, role := range []string{"user", "assistant", "system", "developer", "tool"} {
		for _, c := range contents() {
			all = append(all, `{"role":"`+role+`","content":`+c+`}`, `{"type":"message","role":"`+role+`","content":`+c+`}`)
		}
	}
	values := shapesOf("values")
	for name := range strings.FieldsSeq("id status type phase name tools task annotations") {
		for _, v := range slices.Concat([]string{`"completed"`, `"in_progress"`, `"incomplete"`, `"message"`}, values) {
			field := `"` + name + `":` + v + `}`
			all = append(all,
				`{"role":"user","content":[{"type":"input_text","text":"a"}],`+field,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}],`+field,
				`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}],`+field,
				`{"type":"function_call","call_id":"1","name":"f","arguments":"{}",`+field,
				`{"type":"function_call_output","call_id":"1","output":"r",`+field)
		}
	}
	for _, v := range values {
		all = append(all,
			`{"type":"function_call_output","call_id":"1","output":`+v+`}`,
			`{"type":"function_call","call_id":"1","name":"f","arguments":`+v+`}`,
			`{"type":"reasoning","summary":`+v+`}`,
			`{"type":"reasoning","summary":[],"content":`+v+`}`,
			`{"type":"reasoning","summary":[],"encrypted_content":`+v+`}`)
	}
	const hi = `{"role":"user","content":"hi"},`
	for _, item := range all {
		s.add(prompt.Responses, `"input":[`+item+`]`)
		s.add(prompt.Responses, `"input":[`+hi+item+`]`)
		s.add(prompt.Responses, `"input":[`+hi+item+`,{"role":"user","content":"go"}]`, `"instructions":"i"`)
	}
}
