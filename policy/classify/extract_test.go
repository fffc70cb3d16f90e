package classify

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func extract(t *testing.T, api prompt.API, body string) *Input {
	t.Helper()
	var in Input
	require.NoError(t, Extract(&in, api, []byte(body), 0))
	return &in
}

// shown writes parts as "message role text", a * before what stands beside the text.
func shown(in *Input) []string {
	var out []string
	for _, p := range in.Parts {
		mark := ""
		if p.aside {
			mark = "*"
		}
		out = append(out, fmt.Sprintf("%d %s%s %s", p.Message, mark, p.Role, p.Text))
	}
	return out
}

func TestExtract(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		api  prompt.API
		body string
		want []string
		gaps Gap
	}{
		{"chat", prompt.Chat, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","name":"bo","content":"u"}]}`, []string{
			"0 system s", "1 *user bo", "1 user u",
		}, 0},
		{"chat parts", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},"c"]}]}`, []string{
			"0 user a", "0 user b", "0 user c",
		}, 0},
		{"chat escapes", prompt.Chat, `{"messages":[{"role":"user","content":"a\u0040b\n\ud83d\ude00 \/ \ud800"}]}`, []string{
			"0 user a@b\n😀 / \ufffd",
		}, 0},
		{"escapes within", prompt.Chat, `{"messages":[{"role":"tool","tool_call_id":"t1","content":"{\"mail\":\"a\\u0040b\"}"}]}`, []string{
			"0 *tool t1", `0 tool {"mail":"a\u0040b"}`, `0 *tool {"mail":"a@b"}`,
		}, 0},
		{"tool calls", prompt.Chat, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"q\":\"x\"}"}}]}]}`, []string{
			`0 *assistant [{"id":"c","function":{"name":"f","arguments":"{"q":"x"}"}}]`,
		}, 0},
		{"tools", prompt.Chat, `{"messages":[],"tools":[{"type":"function","function":{"name":"f","description":"d"}}]}`, []string{
			`0 *tools {"type":"function","function":{"name":"f","description":"d"}}`,
		}, 0},
		{"reasoning", prompt.Chat, `{"messages":[{"role":"assistant","reasoning_content":"r","refusal":"n","content":"x"}]}`, []string{
			"0 *assistant r", "0 assistant n", "0 assistant x",
		}, 0},
		{"image", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"text","text":"x"}]}]}`, []string{
			"0 *user low", "0 user x",
		}, GapImage},
		{"image by URL", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/a?u=me"}}]}]}`, []string{
			"0 *user https://x.example/a?u=me",
		}, GapImage},
		{"audio", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`, []string{
			"0 *user wav",
		}, GapAudio},
		{"audio of before", prompt.Chat, `{"messages":[{"role":"assistant","audio":{"id":"a1"}}]}`, []string{"0 *assistant a1"}, GapAudio},
		{"audio wished for", prompt.Chat, `{"messages":[],"audio":{"voice":"v"}}`, []string{`0 *request {"voice":"v"}`}, 0},
		{"video", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"http://v"}}]}]}`, []string{"0 *user http://v"}, GapVideo},
		{"file", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f1","filename":"cv.pdf","file_data":"JVBE"}}]}]}`, []string{
			"0 *user f1", "0 *user cv.pdf",
		}, GapFile},
		{"text in the place of an image", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","data":"so it goes","image_url":{"url":"data:image/png;base64,so it goes"}}]}]}`, []string{
			"0 user so it goes", "0 *user data:image/png;base64,so it goes",
		}, GapImage},
		{"unknown part", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"hologram","x":"deep","y":{"z":"deeper"}}]}]}`, []string{
			"0 *user hologram", "0 *user deep", `0 *user {"z":"deeper"}`,
		}, GapUnknown},
		{"data in a text", prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"data:text/plain;base64,AAAA"}]}]}`, []string{"0 user data:text/plain;base64,AAAA"}, GapFile},
		{"what is beside", prompt.Chat, `{"messages":[{"role":"user","content":"x"}],"user":"u1","metadata":{"k":"v"},"seed":12345678,"logit_bias":{"50256":-100},"stream_options":{"a":"b"}}`, []string{
			"0 user x", "1 *request u1", `1 *request {"k":"v"}`, `1 *request {"50256":-100}`, `1 *request {"a":"b"}`,
		}, 0},
		{"odd role and key", prompt.Chat, `{"messages":[{"role":"me@x.example","a b":"c"}]}`, []string{
			"0 *me@x.example me@x.example", "0 *me@x.example a b", "0 *me@x.example c",
		}, 0},
		{"both of two keys", prompt.Chat, `{"messages":[{"role":"user","content":"one"}],"messages":[{"role":"user","content":"two","content":"three"}]}`, []string{
			"0 user one", "1 user two", "1 user three",
		}, 0},
		{"completion", prompt.Completions, `{"prompt":"p","suffix":"s"}`, []string{"0 user p", "1 *request s"}, 0},
		{"completions", prompt.Completions, `{"prompt":["p","q"]}`, []string{"0 user p", "1 user q"}, 0},
		{"ids", prompt.Completions, `{"prompt":[1,2,3]}`, nil, GapTokens},
		{"lists of ids", prompt.Embeddings, `{"input":[[1,2],[3]]}`, nil, GapTokens},
		{"what engines make ids of", prompt.Completions, `{"prompt":[[true,72]]}`, nil, GapTokens},
		{"digits in the place of ids", prompt.Completions, `{"prompt":[["72","101"]]}`, []string{"0 user 72", "0 user 101"}, GapTokens},
		{"lists of lists of ids", prompt.Completions, `{"prompt":[[[1,2]]]}`, nil, GapTokens},
		{"no ids at first", prompt.Completions, `{"prompt":[[null,1]]}`, nil, GapTokens},
		{"ids and text", prompt.Completions, `{"prompt":[[1,2],"x"]}`, []string{"0 user x"}, GapTokens},
		{"embeds", prompt.Completions, `{"prompt":"x","prompt_embeds":"AAAA"}`, []string{"0 user x"}, GapTokens},
		{"embeddings", prompt.Embeddings, `{"input":["a","b"]}`, []string{"0 user a", "1 user b"}, 0},
		{"anthropic", prompt.Messages, `{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"u"}]}`, []string{
			"0 system s", `0 *system {"type":"ephemeral"}`, "1 user u",
		}, 0},
		{"anthropic tools", prompt.Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"q":"x"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}]}`, []string{
			"0 *assistant t", "0 *assistant f", `0 *assistant {"q":"x"}`, "1 *tool t", "1 tool r", "1 *tool image/png",
		}, GapImage},
		{"anthropic document", prompt.Messages, `{"messages":[{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"body"}}]}]}`, []string{
			"0 *user T", "0 *user text/plain", "0 user body",
		}, 0},
		{"anthropic pdf", prompt.Messages, `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]}]}`, []string{
			"0 *user application/pdf",
		}, GapFile},
		{"thinking", prompt.Messages, `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"AAAA"},{"type":"redacted_thinking","data":"AAAA"}]}]}`, []string{
			"0 assistant h",
		}, GapOpaque},
		{"responses", prompt.Responses, `{"instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":"u"}]},{"type":"function_call","name":"f","arguments":"{}","call_id":"c"},
			{"type":"function_call_output","call_id":"c","output":"o"},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"AAAA"}]}`, []string{
			"0 system i", "1 user u", "2 *assistant f", "2 *assistant {}", "2 *assistant c", "3 *tool c", "3 tool o", "4 assistant s",
		}, GapOpaque},
		{"responses text", prompt.Responses, `{"input":"x"}`, []string{"0 user x"}, 0},
		{"responses of before", prompt.Responses, `{"input":"x","previous_response_id":"resp_1"}`, []string{"0 user x", "1 *request resp_1"}, GapStored},
		{"responses of nothing before", prompt.Responses, `{"input":"x","previous_response_id":null,"conversation":null}`, []string{"0 user x"}, 0},
		{"stored prompt", prompt.Responses, `{"prompt":{"id":"p","variables":{"n":"v"}}}`, []string{`0 *user {"id":"p","variables":{"n":"v"}}`}, GapStored},
		{"reference", prompt.Responses, `{"input":[{"type":"item_reference","id":"r"}]}`, []string{"0 *assistant r"}, GapStored},
		{"screenshot", prompt.Responses, `{"input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AA"}}]}`, []string{
			"0 *tool c",
		}, GapImage},
		{"a key of another case", prompt.Chat, `{"Messages":[{"role":"user","content":"x"}]}`, []string{`0 *request [{"role":"user","content":"x"}]`}, 0},
		{"nothing", prompt.Chat, `{}`, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := extract(t, tt.api, tt.body)
			require.Equal(t, tt.want, shown(in))
			require.Equal(t, tt.gaps, in.Gaps, in.Gaps.String())
			require.Equal(t, tt.api, in.API)
		})
	}
}

func TestExtractWithoutABody(t *testing.T) {
	t.Parallel()
	var in Input
	in.AddText("user", "left from before")
	require.NoError(t, Extract(&in, prompt.Chat, nil, 0))
	require.Equal(t, GapBody, in.Gaps)
	require.Empty(t, in.Parts)
	require.Error(t, Extract(&in, prompt.Chat, []byte(`{"messages":`), 0))
	require.Equal(t, GapBody, in.Gaps)
}

func TestExtractStopsAtItsBound(t *testing.T) {
	t.Parallel()
	body := []byte(`{"messages":[{"role":"user","content":"0123456789"},{"role":"user","content":"abc\n"}]}`)
	var in Input
	require.NoError(t, Extract(&in, prompt.Chat, body, 10+partBytes+2))
	require.Equal(t, []string{"0 user 0123456789", "1 user ab"}, shown(&in))
	require.Equal(t, GapTruncated, in.Gaps)
	require.Equal(t, 14, in.Bytes, "what was cut off is counted")

	many := []byte(`{"prompt":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1<<20), ",") + `]}`)
	require.NoError(t, Extract(&in, prompt.Completions, many, 0))
	require.Less(t, len(in.Parts), DefaultMaxText/partBytes)
	require.Equal(t, GapTruncated, in.Gaps)
}

// What encoding/json finds in a body, Extract finds, too: a canary stands in each
// place where a string can stand.
func TestExtractMissesNoText(t *testing.T) {
	t.Parallel()
	n := 0
	canary := func() string { n++; return fmt.Sprintf("canary%dx", n) }
	grow := func(template string) string {
		for strings.Contains(template, "$") {
			template = strings.Replace(template, "$", canary(), 1)
		}
		return template
	}
	for api, template := range map[prompt.API]string{
		prompt.Chat: `{"model":"m","messages":[{"role":"system","content":"$","name":"$"},{"role":"user","content":[{"type":"text","text":"$","x":{"y":["$"]}},{"type":"refusal","refusal":"$"}]},
			{"role":"assistant","content":"$","reasoning":"$","tool_calls":[{"id":"$","type":"function","function":{"name":"$","arguments":"{\"a\":\"$\"}"}}],"function_call":{"name":"$","arguments":"$"}},
			{"role":"tool","content":"$","tool_call_id":"$"},{"role":"$","content":[[[[[[[[["$"]]]]]]]]]},"$",{"content":{"text":"$"}}],
			"tools":[{"type":"function","function":{"name":"$","description":"$","parameters":{"properties":{"$":{"description":"$","enum":["$"]}}}}}],
			"functions":[{"name":"$"}],"documents":[{"title":"$","text":"$"}],"user":"$","metadata":{"$":"$"},"stop":["$"],"response_format":{"json_schema":{"name":"$"}},
			"chat_template":"$","chat_template_kwargs":{"k":"$"},"tool_choice":{"function":{"name":"$"}},"unheard_of":{"a":[{"b":"$"}]}}`,
		prompt.Completions: `{"prompt":["$","$"],"suffix":"$","guided_choice":["$"]}`,
		prompt.Messages: `{"system":[{"type":"text","text":"$"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"$"}],"tool_use_id":"$"},
			{"type":"search_result","source":"$","title":"$","content":[{"type":"text","text":"$"}]},{"type":"document","title":"$","context":"$","source":{"type":"content","content":[{"type":"text","text":"$"}]}},
			{"type":"image","source":{"type":"url","url":"$"}},{"type":"web_search_tool_result","content":[{"type":"web_search_result","title":"$","url":"$"}]}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"$"},{"type":"tool_use","id":"$","name":"$","input":{"$":["$",{"x":"$"}]}},{"type":"unheard","a":"$","b":["$"],"c":{"d":"$"}}]}],
			"metadata":{"user_id":"$"},"tools":[{"name":"$","input_schema":{"description":"$"}}],"mcp_servers":[{"url":"$"}]}`,
		prompt.Responses: `{"instructions":"$","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"$"},{"type":"input_file","filename":"$"}]},
			{"type":"function_call_output","output":[{"type":"input_text","text":"$"}]},{"type":"reasoning","summary":[{"text":"$"}],"content":[{"text":"$"}]},
			{"type":"mcp_call","name":"$","arguments":"$","output":"$"},{"type":"file_search_call","queries":["$"],"results":[{"text":"$","filename":"$"}]},
			{"type":"web_search_call","action":{"query":"$"}},{"type":"code_interpreter_call","code":"$","outputs":[{"type":"logs","logs":"$"}]},{"type":"custom_tool_call","input":"$"},
			{"type":"unheard","x":"$"}],"prompt":{"id":"$","variables":{"a":"$","b":{"text":"$"}}},"text":{"format":{"name":"$"}}}`,
		prompt.Embeddings: `{"input":[{"content":[{"type":"text","text":"$"}]},"$",["$"]],"messages":[{"role":"user","content":"$"}]}`,
	} {
		from := n + 1
		in := extract(t, api, grow(template))
		var all bytes.Buffer
		for _, p := range in.Parts {
			all.Write(p.Text)
			all.WriteByte('\n')
		}
		require.Greater(t, n, from)
		for i := from; i <= n; i++ {
			require.Contains(t, all.String(), fmt.Sprintf("canary%dx", i), api.String())
		}
	}
}

func TestExtractReusesItsMemory(t *testing.T) {
	o := body(t)
	var in Input
	ExtractObject(&in, prompt.Chat, o, 0)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() { ExtractObject(&in, prompt.Chat, o, 0) }), 1.0, "the model's name")
}
