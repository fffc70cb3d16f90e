package requests

import (
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// anything is a value of each kind that JSON has, and of each size that matters.
var anything = [...]string{
	`null`, `true`, `false`, `0`, `1`, `-1`, `2.5`, `1e400`, `"x"`, `""`, `"auto"`, `"none"`, `"low"`, `[]`, `["x"]`, `[{}]`, `{}`, `{"type":"text"}`,
	`{"type":"none"}`, `{"a":{"b":[1.0,null]}}`,
}

// fieldsOf are the fields that may bear on a prompt, by API, and some of other APIs.
var fieldsOf = map[prompt.API]string{
	prompt.Chat: `tools tool_choice chat_template chat_template_kwargs documents reasoning_effort add_generation_prompt continue_final_message
		add_special_tokens truncate_prompt_tokens truncation_side max_tokens max_completion_tokens response_format include_reasoning
		kv_transfer_params mm_processor_kwargs media_io_kwargs functions function_call prompt input system instructions thinking
		parallel_tool_calls structured_outputs echo messages n`,
	prompt.Completions: `prompt suffix echo add_special_tokens truncate_prompt_tokens truncation_side max_tokens prompt_embeds n best_of messages
		kv_transfer_params response_format tools`,
	prompt.Messages: `system tools tool_choice thinking output_config chat_template_kwargs max_tokens metadata stop_sequences documents
		reasoning_effort add_generation_prompt continue_final_message truncate_prompt_tokens kv_transfer_params container mcp_servers messages`,
	prompt.Responses: `instructions input tools tool_choice reasoning truncation max_output_tokens previous_response_id conversation prompt text
		chat_template chat_template_kwargs include previous_input_messages background store mm_processor_kwargs documents reasoning_effort
		add_generation_prompt messages kv_transfer_params`,
}

// bases are requests of each API without the rest.
var bases = map[prompt.API]string{
	prompt.Chat:        `"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]`,
	prompt.Completions: `"model":"m","prompt":"one two three four"`,
	prompt.Messages:    `"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}]`,
	prompt.Responses:   `"model":"m","input":"hi"`,
}

// Shapes are requests in which one thing at a time is unusual: each field with a value
// of each kind, each role with content of each form, each kind of part, block and item.
// Most are refused, by the engine or here.
func Shapes() []Request {
	var out []Request
	add := func(api prompt.API, body string) { out = append(out, Request{api, []byte("{" + body + "}")}) }
	for _, api := range []prompt.API{prompt.Chat, prompt.Completions, prompt.Messages, prompt.Responses} {
		for name := range strings.FieldsSeq(fieldsOf[api]) {
			for _, v := range anything {
				add(api, bases[api]+`,"`+name+`":`+v)
			}
		}
	}
	for _, m := range chatMessages() {
		add(prompt.Chat, `"model":"m","messages":[`+m+`]`)
		add(prompt.Chat, `"model":"m","messages":[{"role":"user","content":"hi"},`+m+`]`)
		add(prompt.Chat, `"model":"m","messages":[{"role":"user","content":"hi"},`+m+`],"continue_final_message":true,"add_generation_prompt":false`)
	}
	for _, tool := range chatTools() {
		add(prompt.Chat, bases[prompt.Chat]+`,"tools":[`+tool+`]`)
		add(prompt.Chat, bases[prompt.Chat]+`,"tools":[`+tool+`],"tool_choice":"none"`)
		add(prompt.Responses, bases[prompt.Responses]+`,"tools":[`+tool+`]`)
		add(prompt.Messages, bases[prompt.Messages]+`,"tools":[`+tool+`]`)
	}
	for _, block := range messageBlocks() {
		add(prompt.Messages, `"model":"m","max_tokens":10,"messages":[{"role":"user","content":[`+block+`]}]`)
		add(prompt.Messages, `"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[`+block+`,{"type":"text","text":"t"}]},{"role":"user","content":"go"}]`)
		add(prompt.Messages, `"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}],"system":[`+block+`]`)
		add(prompt.Messages, `"model":"m","max_tokens":10,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[`+block+`]}]}]`)
	}
	for _, item := range responseItems() {
		add(prompt.Responses, `"model":"m","input":[`+item+`]`)
		add(prompt.Responses, `"model":"m","input":[{"role":"user","content":"hi"},`+item+`]`)
		add(prompt.Responses, `"model":"m","input":[{"role":"user","content":"hi"},`+item+`,{"role":"user","content":"go"}],"instructions":"i"`)
	}
	return out
}

// contents are what a message's content may be.
func contents() []string {
	out := []string{`"hi"`, `""`, `" x "`, `null`, `5`, `[]`, `[""]`, `["a","b"]`, `{}`, `[null]`, `[[]]`, `"x-anthropic-billing-header: a\nb"`, `"x-anthropic-billing-header"`}
	for _, p := range []string{
		`{"type":"text","text":"a"}`, `{"text":"a","type":"text","x":1}`, `{"type":"text","text":""}`, `{"type":"text"}`, `{"type":"text","text":null}`,
		`{"text":"a"}`, `{"type":null,"text":"a"}`, `{"type":"refusal","refusal":"r"}`, `{"type":"refusal","text":"r"}`, `{"type":"thinking","thinking":"t"}`,
		`{"type":"thinking","thinking":"t","closed":true}`, `{"type":"input_text","text":"a"}`, `{"type":"output_text","text":"a"}`,
		`{"type":"output_text","text":"a","annotations":[]}`, `{"type":"tool_reference","name":"f"}`, `{"type":"other","text":"a"}`,
		`{"type":"text","text":"a","name":"n"}`, `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`,
		`{"type":"text","text":"a","prompt_cache_breakpoint":{}}`, `{"type":"text","text":"x-anthropic-billing-header: a\nb"}`,
	} {
		out = append(out, `[`+p+`]`, `[{"type":"text","text":"q"},`+p+`]`)
	}
	return out
}

// chatMessages are messages of each role with content of each form, and with each of
// the fields that some roles have.
func chatMessages() []string {
	var out []string
	for _, role := range []string{"user", "assistant", "system", "developer", "tool", "function", "observer", ""} {
		for _, c := range contents() {
			out = append(out, `{"role":"`+role+`","content":`+c+`}`)
		}
		out = append(out, `{"role":"`+role+`"}`)
		for name := range strings.FieldsSeq("name tool_calls tool_call_id reasoning reasoning_content function_call refusal audio task tools x") {
			for _, v := range anything {
				out = append(out, `{"role":"`+role+`","content":"c","`+name+`":`+v+`}`)
			}
		}
	}
	for _, a := range []string{
		`"{}"`, `""`, `"{\"b\":1.0,\"a\":{\"z\":null,\"y\":[1e22,-0.0,12345678901234567890]}}"`, `"{bad"`, `"[1]"`, `"null"`, `"\"text\""`, `"{\"a\":1,\"a\":2}"`,
		`"{\"u\":\"\\ud83d\\ude00\\u00e9\"}"`, `"{\"u\":\"\\ud83d\"}"`, `"{\"a\":NaN}"`, `" { } "`, `{}`, `null`, `"{}x"`,
	} {
		out = append(out,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":`+a+`}}]}`,
			`{"role":"assistant","tool_calls":[{"type":"function","function":{"arguments":`+a+`,"name":"f"},"id":"1","index":0}]}`)
	}
	return out
}

// chatTools are definitions of tools, in the forms of all APIs.
func chatTools() []string {
	out := []string{`null`, `{}`, `{"type":"web_search_preview"}`, `{"type":"custom","name":"f"}`, `{"type":"namespace","name":"f"}`, `{"type":"web_search_20250305","name":"w"}`}
	for _, f := range []string{
		`"name":"f"`, `"name":"f","description":null`, `"name":"f","description":"d","parameters":{"b":1.0,"a":{"z":null}}`, `"name":"f","parameters":null`,
		`"parameters":{},"name":"f","strict":true`, `"name":"f","strict":null,"x":1`, `"name":5`, `"name":"f","input_schema":{"type":"object"}`,
		`"name":"f","input_schema":{}`, `"name":"f","input_schema":null`, `"name":"f","parameters":{},"defer_loading":true`, `"name":"","parameters":{}`,
		`"name":"f","parameters":{"properties":{"a":{"enum":[1,1.0,"1"]}}},"strict":false`,
	} {
		out = append(out, `{"type":"function","function":{`+f+`}}`, `{"function":{`+f+`}}`, `{"type":"function",`+f+`}`, `{`+f+`}`, `{"type":"custom",`+f+`}`)
	}
	return out
}

// messageBlocks are blocks of the messages API.
func messageBlocks() []string {
	return []string{
		`{"type":"text","text":"a"}`, `{"type":"text","text":""}`, `{"type":"text"}`, `{"type":"text","text":null}`, `{"text":"a"}`, `"a"`, `null`,
		`{"type":"text","text":"a","cache_control":{"type":"ephemeral"},"citations":null}`, `{"type":"text","text":"x-anthropic-billing-header: a\nb"}`,
		`{"type":"thinking","thinking":"t","signature":"s"}`, `{"type":"thinking","thinking":""}`, `{"type":"thinking"}`, `{"type":"redacted_thinking","data":"d"}`,
		`{"type":"tool_use","id":"1","name":"f","input":{"b":1.0,"a":null}}`, `{"type":"tool_use","id":"1","name":"f"}`, `{"type":"tool_use","name":"f","input":{}}`,
		`{"type":"tool_use","id":"1","name":"f","input":null}`, `{"type":"tool_use","id":"1","name":"f","input":{"a":1,"a":2,"u":"\ud83d\ude00é","f":1e22}}`,
		`{"type":"tool_result","tool_use_id":"1","content":"r"}`, `{"type":"tool_result","tool_use_id":"1"}`, `{"type":"tool_result","content":"r"}`,
		`{"type":"tool_result","tool_use_id":"1","content":[]}`, `{"type":"tool_result","tool_use_id":"1","content":null,"is_error":true}`,
		`{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"},{"type":"text","text":"q"}]}`,
		`{"type":"tool_result","tool_use_id":"1","content":[{"type":"tool_reference","tool_name":"f"}]}`, `{"type":"tool_reference","tool_name":"f"}`,
		`{"type":"server_tool_use","id":"1","name":"w","input":{}}`, `{"type":"document","source":{"type":"text","data":"d","media_type":"text/plain"}}`,
		`{"type":"search_result","title":"x","source":"y","content":[]}`, `{"type":"other"}`,
	}
}

// responseItems are items of the responses API.
func responseItems() []string {
	var out []string
	for _, role := range []string{"user", "assistant", "system", "developer", "tool"} {
		for _, c := range contents() {
			out = append(out, `{"role":"`+role+`","content":`+c+`}`, `{"type":"message","role":"`+role+`","content":`+c+`}`)
		}
	}
	for name := range strings.FieldsSeq("id status type phase name tools task annotations") {
		for _, v := range append([]string{`"completed"`, `"in_progress"`, `"incomplete"`, `"message"`}, anything[:]...) {
			out = append(out,
				`{"role":"user","content":[{"type":"input_text","text":"a"}],"`+name+`":`+v+`}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}],"`+name+`":`+v+`}`,
				`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}],"`+name+`":`+v+`}`,
				`{"type":"function_call","call_id":"1","name":"f","arguments":"{}","`+name+`":`+v+`}`,
				`{"type":"function_call_output","call_id":"1","output":"r","`+name+`":`+v+`}`)
		}
	}
	for _, v := range anything {
		out = append(out,
			`{"type":"function_call_output","call_id":"1","output":`+v+`}`, `{"type":"function_call","call_id":"1","name":"f","arguments":`+v+`}`,
			`{"type":"reasoning","summary":`+v+`}`, `{"type":"reasoning","summary":[],"content":`+v+`}`, `{"type":"reasoning","summary":[],"encrypted_content":`+v+`}`)
	}
	return append(out, `{"type":"item_reference","id":"x"}`, `{"type":"web_search_call","id":"x","status":"completed"}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"n"}],"id":"1","status":"completed"}`,
		`{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"q"}]}`, `5`, `null`, `"x"`, `[]`)
}
