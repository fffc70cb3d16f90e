//go:build e2e

package sdk

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// What SDKs ask is what services take: the fakes check as the services do.
func TestQuestions(t *testing.T) {
	two := []call{{ID: "call_1", Name: "f", Arguments: `{"a":1}`}, {ID: "call_2", Name: "g", Arguments: `{"a":2}`}}
	tools := []string{"f", "g"}
	schema := map[string]any{
		"type": "object", "properties": schemaOf(), "required": []string{"a"}, "additionalProperties": false,
	}
	questions := map[string]question{
		"a system prompt":          {system: "Be kind.", turns: []turn{{text: "Hello"}}},
		"a conversation":           {system: "Be kind.", turns: []turn{{text: "Hello"}, {said: "Hi."}, {text: "So?"}}, limit: 50},
		"an image":                 {turns: []turn{{text: "What is it?", image: true}}},
		"results of tools":         {tools: tools, turns: []turn{{text: "Go"}, {said: "I go.", calls: two, results: []string{"one", "two"}}}},
		"results, and a word":      {tools: tools, turns: []turn{{text: "Go"}, {calls: two, results: []string{"one", "two"}}, {text: "And?"}}},
		"twice":                    {tools: tools, turns: []turn{{text: "Go"}, {calls: two[:1], results: []string{"one"}}, {calls: two[1:], results: []string{"two"}}}},
		"tools that are gone":      {turns: []turn{{text: "Go"}, {calls: two, results: []string{"one", "two"}}, {said: "Done."}, {text: "Thanks"}}},
		"one tool, forced":         {tools: tools, force: "g", turns: []turn{{text: "Go"}}},
		"thinking":                 {effort: "low", turns: []turn{{text: "Hello"}}},
		"thinking, within a limit": {effort: "high", limit: 3000, turns: []turn{{text: "Hello"}}},
		"thinking, in a tool loop": {effort: "low", tools: tools, turns: []turn{{text: "Go"}, {thought: "Both.", calls: two, results: []string{"one", "two"}}}},
		"a beginning":              {turns: []turn{{text: "Hello"}, {said: "Well,"}}},
		"a form":                   {schema: schema, turns: []turn{{text: "Hello"}}},
		"a stop":                   {stop: "END", turns: []turn{{text: "Hello"}}},
	}
	for where, x := range all() {
		t.Run(where, func(t *testing.T) {
			a, w := x.api, x.way
			for name, q := range questions {
				if a.name == "responses" && q.stop != "" {
					continue // the API has no stop sequences
				}
				t.Run(name, func(t *testing.T) {
					p := w.open(t)
					c := a.make(p)
					for _, ask := range []func() (said, error){
						func() (said, error) { return c.whole(t.Context(), &q) },
						func() (said, error) { return c.stream(t.Context(), &q, func() {}) },
					} {
						got, err := ask()
						last := p.fake.Last()
						if refused(a, w, &q) {
							status, _ := c.failure(err)
							require.Equal(t, http.StatusBadRequest, status)
							continue
						}
						require.NoError(t, err, last.Problem)
						holds(t, sent(a, w, &q), last.Body)
						assert.NotEmpty(t, got.Text)
						assert.Equal(t, http.StatusOK, last.Status)
						images := 0
						for _, turn := range q.turns {
							if turn.image {
								images++
							}
						}
						assert.Equal(t, images, last.Images)
						for _, text := range texts(&q) {
							assert.True(t, bytes.Contains(last.Body, []byte(text)), "%q is not in %s", text, last.Body)
						}
						if w.kind != nil {
							assert.NotContains(t, string(last.Body), asked)
							for _, values := range last.Header {
								assert.NotContains(t, values, "client-key")
								assert.NotContains(t, values, "Bearer client-key")
							}
						}
					}
				})
			}
		})
	}
}

// texts are those of a question, as JSON has them.
func texts(q *question) []string {
	list := []string{q.system, q.stop}
	for _, t := range q.turns {
		list = append(list, t.text, t.said)
		list = append(list, t.results...)
		for _, c := range t.calls {
			list = append(list, c.ID, c.Name)
		}
	}
	return list
}

// Across APIs a request says the same in other words.
func TestQuestionsInOtherWords(t *testing.T) {
	q := question{
		system: "Be kind.", tools: []string{"f"}, limit: 500, stop: "END",
		turns: []turn{{text: "Go", image: true}, {said: "I go.", calls: []call{{ID: "call_1", Name: "f", Arguments: `{"a":1}`}}, results: []string{"one"}}},
	}
	const image = "data:image/png;base64," + pixel
	for name, c := range map[string]struct {
		make func(*place) client
		way  way
		want string
	}{
		"chat to Anthropic": {newChat, way{dialect: providertest.Anthropic, kind: providers.Anthropic{}}, `{
			"model": "claude-sonnet-4-5", "max_tokens": 500, "system": "Be kind.", "stop_sequences": ["END"],
			"tools": [{"name": "f", "description": "does f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}],
			"messages": [
				{"role": "user", "content": [{"type": "text", "text": "Go"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "` + pixel + `"}}]},
				{"role": "assistant", "content": [{"type": "text", "text": "I go."}, {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}}]},
				{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "one"}]}
			]}`},
		"messages to OpenAI": {newMessages, way{dialect: providertest.OpenAI, kind: providers.OpenAI{}}, `{
			"model": "gpt-4.1", "max_tokens": 500, "stop": ["END"],
			"tools": [{"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}],
			"messages": [
				{"role": "system", "content": "Be kind."},
				{"role": "user", "content": [{"type": "text", "text": "Go"}, {"type": "image_url", "image_url": {"url": "` + image + `"}}]},
				{"role": "assistant", "content": "I go.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
				{"role": "tool", "tool_call_id": "call_1", "content": "one"}
			]}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.way.open(t)
			_, err := c.make(p).whole(t.Context(), &q)
			require.NoError(t, err, p.fake.Last().Problem)
			var body bytes.Buffer
			require.NoError(t, json.Compact(&body, p.fake.Last().Body))
			assert.JSONEq(t, c.want, body.String())
		})
	}
}
