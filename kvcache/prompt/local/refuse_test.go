package local_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// Requests that can't be served exactly are passed on, each with its reason.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", nil)
	const (
		hi   = `{"role":"user","content":"hi"}`
		form = "a message of an unusual form"
		odd  = "a field of an unusual form"
	)
	chat := func(message string) string { return `{"messages":[` + message + `]}` }
	with := func(field string) string { return `{"messages":[` + hi + `],` + field + `}` }
	for _, c := range []struct {
		api        prompt.API
		body, want string
	}{
		{prompt.Chat, chat(``), "empty prompt"},
		{prompt.Chat, `{"messages":{}}`, form},
		{prompt.Chat, chat(`5`), form},
		{prompt.Chat, chat(`{"content":"x"}`), form},
		{prompt.Chat, chat(`{"role":1,"content":"x"}`), form},
		{prompt.Chat, chat(`{"role":"user","content":null}`), form},
		{prompt.Chat, chat(`{"role":"user","content":5}`), form},
		{prompt.Chat, chat(`{"role":"user","content":{"type":"text"}}`), form},
		{prompt.Chat, chat(`{"role":"user","content":["a"]}`), form},
		{prompt.Chat, chat(`{"role":"user","content":[{"text":"a"}]}`), form},
		{prompt.Chat, chat(`{"role":"user","content":[{"type":"text","text":null}]}`), form},
		{prompt.Chat, chat(`{"role":"user","content":[{"type":"input_text","text":"a"}]}`), form},
		{prompt.Chat, chat(`{"role":"user","content":[{"type":"text","text":"a","uuid":"u"}]}`), form},
		{prompt.Chat, chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}`), "multimodal parts"},
		{prompt.Chat, chat(`{"role":"user","content":[{"type":"input_audio"}]}`), "multimodal parts"},
		{prompt.Chat, chat(`{"role":"user","content":"x","name":5}`), form},
		{prompt.Chat, chat(`{"role":"user","content":"x","name":null}`), form},
		{prompt.Chat, chat(`{"role":"user","content":"x","tool_calls":[]}`), form},
		{prompt.Chat, chat(`{"role":"tool","content":"x","tool_call_id":5}`), form},
		{prompt.Chat, chat(`{"role":"developer","content":"x","tools":[]}`), form},
		{prompt.Chat, chat(`{"role":"assistant","content":"x","reasoning":5}`), form},
		{prompt.Chat, chat(`{"role":"assistant","content":"x","tool_calls":{}}`), form},
		{prompt.Chat, chat(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}`), form},
		{prompt.Chat, chat(`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`), form},
		{prompt.Chat, chat(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{}}}]}`), form},
		{prompt.Chat, chat(`{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{}}]}`), form},
		{prompt.Chat, with(`"tools":{}`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[1]`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[{"type":"function"}]`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[{"type":"custom","function":{"name":"f"}}]`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[{"function":{"name":5}}]`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[{"function":{"name":"f","parameters":[]}}]`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[{"function":{"name":"f","description":5}}]`), "tools of an unusual form"},
		{prompt.Chat, with(`"tools":[{"function":{"name":"f","strict":"yes"}}]`), "tools of an unusual form"},
		{prompt.Chat, with(`"chat_template":"x"`), "chat template in the request"},
		{prompt.Chat, with(`"chat_template_kwargs":{"chat_template":"x"}`), "chat template in the request"},
		{prompt.Chat, with(`"chat_template_kwargs":{"tokenize":true}`), "a template argument that the engine uses itself"},
		{prompt.Chat, with(`"chat_template_kwargs":[]`), odd},
		{prompt.Chat, with(`"chat_template_kwargs":{"documents":"x"}`), odd},
		{prompt.Chat, with(`"documents":[{"a":1}]`), odd},
		{prompt.Chat, with(`"documents":{}`), odd},
		{prompt.Chat, with(`"documents":[1]`), odd},
		{prompt.Chat, with(`"reasoning_effort":"much"`), odd},
		{prompt.Chat, with(`"add_generation_prompt":"no"`), odd},
		{prompt.Chat, with(`"truncate_prompt_tokens":0`), odd},
		{prompt.Chat, with(`"truncate_prompt_tokens":4,"truncation_side":"top"`), odd},
		{prompt.Chat, with(`"kv_transfer_params":{"prompt_token_ids":[1]}`), "token ids of a prefill stage"},
		{prompt.Chat, with(`"mm_processor_kwargs":{"a":1}`), "multimodal parts"},
		{prompt.Chat, with(`"continue_final_message":true`), "final message can't be continued"},
		{prompt.Completions, `{"prompt":5}`, odd},
		{prompt.Completions, `{"prompt":["a",5]}`, odd},
		{prompt.Completions, `{"prompt":[]}`, "empty prompt"},
		{prompt.Completions, `{"prompt":""}`, "empty prompt"},
		{prompt.Completions, `{"prompt":"a","suffix":"b"}`, "completion with a suffix"},
		{prompt.Completions, `{"prompt_embeds":"a"}`, "prompt embeddings"},
		{prompt.Completions, `{"prompt":"a","add_special_tokens":1}`, odd},
		{prompt.Embeddings, `{"input":"a"}`, "endpoint is not served locally"},
		{prompt.Messages, `{"messages":[` + hi + `]}`, odd},
		{prompt.Messages, `{"max_tokens":5,"messages":[{"role":"tool","content":"x"}]}`, form},
		{prompt.Messages, `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image"}]}]}`, "multimodal parts"},
		{prompt.Messages, `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document"}]}]}`, form},
		{prompt.Messages, `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`, "multimodal parts"},
		{prompt.Messages, `{"max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]}`, form},
		{prompt.Messages, `{"max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":[]}]}]}`, form},
		{prompt.Messages, `{"max_tokens":5,"messages":[` + hi + `],"tools":[{"type":"web_search","name":"w"}]}`, "tools of an unusual form"},
		{prompt.Messages, `{"max_tokens":5,"messages":[` + hi + `],"thinking":{"type":"maybe"}}`, odd},
		{prompt.Messages, `{"max_tokens":5,"messages":[` + hi + `],"output_config":{"effort":"none"}}`, odd},
		{prompt.Messages, `{"max_tokens":5,"messages":[` + hi + `],"system":5}`, form},
		{prompt.Messages, `{"max_tokens":5,"messages":[]}`, "empty prompt"},
		{prompt.Responses, `{"input":"x","previous_response_id":"r"}`, "prompt depends on state in an engine"},
		{prompt.Responses, `{"input":5}`, form},
		{prompt.Responses, `{"input":[5]}`, form},
		{prompt.Responses, `{"input":[]}`, "empty prompt"},
		{prompt.Responses, `{"input":[{"type":"item_reference","id":"x"}]}`, form},
		{prompt.Responses, `{"input":[{"role":"tool","content":"x"}]}`, form},
		{prompt.Responses, `{"input":[{"role":"assistant","content":[{"type":"output_text","text":"a"}]}]}`, form},
		{prompt.Responses, `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"}]}`, form},
		{prompt.Responses, `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":{}}]}`, form},
		{prompt.Responses, `{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, "multimodal parts"},
		{prompt.Responses, `{"input":"x","tools":[{"type":"custom","name":"c"}]}`, "tools of an unusual form"},
		{prompt.Responses, `{"input":"x","truncation":"some"}`, odd},
		{prompt.Responses, `{"input":"x","reasoning":{"effort":"much"}}`, odd},
		{prompt.Responses, `{"input":"x","instructions":5}`, odd},
	} {
		_, err := encode(t, s, c.api, c.body)
		var why prompt.ReasonError
		require.ErrorAs(t, err, &why, "%s %s", c.api, c.body)
		assert.Equal(t, c.want, string(why), "%s %s", c.api, c.body)
	}
}

func TestSGLang(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", func(m *local.Model) { m.SGLang = true })
	_, err := encode(t, s, prompt.Chat, hello)
	require.EqualError(t, err, "SGLang's conversion of messages is not reproduced")
	_, err = encode(t, s, prompt.Completions, `{"prompt":"a","add_special_tokens":false}`)
	require.EqualError(t, err, "a field of an unusual form")
	enc, err := encode(t, s, prompt.Completions, `{"prompt":"a"}`)
	require.NoError(t, err)
	assert.Len(t, enc.Tokens, 1)
}

// The template has a say, too.
func TestTemplateRefuses(t *testing.T) {
	t.Parallel()
	s := one(t, "fast", nil)
	_, err := encode(t, s, prompt.Chat, `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`)
	require.EqualError(t, err, "chat template refused the request")
	// The same in the messages API is put in order first, as the engine does for
	// templates that refuse it.
	enc, err := encode(t, s, prompt.Messages, `{"max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}]}`)
	require.NoError(t, err)
	ordered, err := encode(t, s, prompt.Messages, `{"max_tokens":5,"system":"b","messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}]}`)
	require.NoError(t, err)
	assert.Equal(t, ordered.Tokens, enc.Tokens)
}

// A long conversation in one message is neither refused nor slow.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", nil)
	enc, err := encode(t, s, prompt.Chat, `{"messages":[{"role":"user","content":"`+strings.Repeat("the router ", 50_000)+`"}]}`)
	require.NoError(t, err)
	assert.Greater(t, len(enc.Tokens), 100_000)
}
