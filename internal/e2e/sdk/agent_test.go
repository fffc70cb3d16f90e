//go:build e2e

package sdk

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// agentBody is a request as coding agents send it: instructions in cached blocks and amid
// the conversation, hints that only Anthropic knows, results of parallel calls. (The fake
// of Anthropic is of models that take no instructions amid the conversation, and refuses.)
const agentBody = `{
	"model": "house-model", "max_tokens": 32000, "stream": true,
	"system": [{"type": "text", "text": "You are an agent."}, {"type": "text", "text": "Long rules.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
	"messages": [
		{"role": "user", "content": [{"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}}]},
		{"role": "system", "content": [{"type": "text", "text": "The user is in a hurry."}]},
		{"role": "assistant", "content": [
			{"type": "thinking", "thinking": "Two folders.", "signature": "c2ln"},
			{"type": "text", "text": "I look."},
			{"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "/a"}},
			{"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {"path": "/b"}}
		]},
		{"role": "user", "content": [
			{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "x.go"}]},
			{"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such folder", "is_error": true},
			{"type": "text", "text": "Go on."}
		]}
	],
	"tools": [{"name": "ls", "description": "lists", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false, "$schema": "http://json-schema.org/draft-07/schema#"}, "eager_input_streaming": true}],
	"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "medium"},
	"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
	"metadata": {"user_id": "{\"device_id\":\"d\",\"session_id\":\"s\"}"}
}`

func TestAgent(t *testing.T) {
	for _, w := range []way{
		{name: "to OpenAI", dialect: providertest.OpenAI, kind: providers.OpenAI{}},
		{name: "to Gemini", dialect: providertest.Gemini, kind: providers.Gemini{}},
	} {
		t.Run(w.name, func(t *testing.T) {
			p := w.open(t)
			p.fake.Script(providertest.Answer{
				Text: "One more.", Calls: []providertest.Call{{ID: "call_3", Name: "ls", Arguments: `{"path":"/c"}`}},
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/messages?beta=true", bytes.NewReader([]byte(agentBody)))
			require.NoError(t, err)
			for name, value := range map[string]string{
				"Content-Type": "application/json", "X-Api-Key": p.key, "Anthropic-Version": "2023-06-01",
				"Anthropic-Beta": "context-management-2025-06-27,interleaved-thinking-2025-05-14",
			} {
				req.Header.Set(name, value)
			}
			resp, err := p.client.Do(req)
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			require.Equal(t, http.StatusOK, resp.StatusCode, p.fake.Last().Problem)

			stream := ssestream.NewStream[anthropic.MessageStreamEventUnion](ssestream.NewDecoder(resp), nil)
			var m anthropic.Message
			order := messagesOrder{}
			for stream.Next() {
				event := stream.Current()
				require.NoError(t, m.Accumulate(event))
				require.NoError(t, order.next(&event))
			}
			require.NoError(t, stream.Err())
			assert.True(t, order.stopped)
			got := messagesSaid(&m)
			assert.Equal(t, said{
				Model: asked, Text: "One more.", Calls: []call{{ID: "call_3", Name: "ls", Arguments: `{"path":"/c"}`}},
				Stop: "tool_use", Input: got.Input, Cached: got.Cached, Output: got.Output,
			}, got)
			assert.Positive(t, got.Input)
			body := string(p.fake.Last().Body)
			for _, text := range []string{"You are an agent.", "Long rules.", "in a hurry", "I look.", "toolu_1", "toolu_2", "x.go", "no such folder", "Go on."} {
				assert.Contains(t, body, text)
			}
		})
	}
}
