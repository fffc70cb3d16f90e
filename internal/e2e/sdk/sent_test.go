//go:build e2e

package sdk

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

type object = map[string]any

// absent is a member that must not be there.
var absent = any(nil)

// refused reports whether the service, or the gateway before it, takes no such question.
func refused(a *api, w *way, q *question) bool {
	last := &q.turns[len(q.turns)-1]
	begun := last.said != "" && last.calls == nil
	called := slices.ContainsFunc(q.turns, func(t turn) bool { return t.calls != nil })
	if begun && a.translates(w) {
		return true // only Anthropic's models go on with what was begun
	}
	switch w.upstream() {
	case "gpt-5", "o3":
		return q.stop != ""
	case "claude-opus-4-7", "claude-sonnet-5":
		return begun || a.name == "messages" && called && q.tools == nil
	case "claude-sonnet-5-5":
		return begun || q.force != "" || a.name == "messages" && called && q.tools == nil
	case "claude-sonnet-4-5":
		// Whoever has the service's own API must mind by himself that it wants the tools.
		return a.name == "messages" && called && q.tools == nil
	default:
		return false
	}
}

// sent is what a service must be told, of that which texts don't show. It is written down
// without a look at how the gateway does it.
func sent(a *api, w *way, q *question) object {
	switch {
	case w.dialect == providertest.Anthropic:
		return sentMessages(a, w, q)
	case a.name == "responses" && w.kind == nil:
		return sentResponses(q)
	default:
		return sentChat(a, w, q)
	}
}

func sentMessages(a *api, w *way, q *question) object {
	o := object{"model": w.upstream(), "tools": absent, "tool_choice": absent, "thinking": absent, "output_config": absent, "stop_sequences": absent}
	tools := q.tools
	if tools == nil && slices.ContainsFunc(q.turns, func(t turn) bool { return t.calls != nil }) {
		tools = []string{"f", "g"} // the service wants them
		o["tool_choice"] = object{"type": "none"}
	}
	if tools != nil {
		var list []any
		for _, name := range tools {
			declared := object{"name": name, "input_schema": object{"type": "object"}}
			if q.tools != nil {
				declared["description"] = "does " + name
				declared["input_schema"] = object{"type": "object", "properties": plain(schemaOf())}
			}
			list = append(list, declared)
		}
		o["tools"] = list
	}
	if q.force != "" {
		o["tool_choice"] = object{"type": "tool", "name": q.force, "disable_parallel_tool_use": true}
		if w.upstream() == "claude-sonnet-5" { // which else thinks, and mustn't then
			o["thinking"] = object{"type": "disabled"}
		}
	}
	if q.stop != "" {
		o["stop_sequences"] = []any{q.stop}
	}
	if q.limit > 0 {
		o["max_tokens"] = float64(q.limit)
	}
	config := object{}
	if q.effort != "" {
		loop := q.turns[len(q.turns)-1].calls != nil
		switch {
		case w.adaptive():
			thinking := object{"type": "adaptive"}
			if a.name != "messages" { // whose clients say themselves whether they want to see it
				thinking["display"] = "summarized"
			}
			o["thinking"] = thinking
			config["effort"] = q.effort
		case a.name == "messages" || q.effort == "low" && !loop:
			o["thinking"] = object{"type": "enabled", "budget_tokens": 1024.0}
		case loop: // other APIs can't show what was thought before
		default: // half of the limit is for the answer
			o["thinking"] = object{"type": "enabled", "budget_tokens": float64(q.limit / 2)}
		}
	}
	if q.schema != nil {
		config["format"] = object{"type": "json_schema", "schema": plain(q.schema)}
	}
	if len(config) > 0 {
		o["output_config"] = config
	}
	return o
}

func sentChat(a *api, w *way, q *question) object {
	o := object{
		"model": w.upstream(), "tools": absent, "tool_choice": absent, "parallel_tool_calls": absent, "reasoning_effort": absent,
		"response_format": absent, "stop": absent,
	}
	var list []any
	for _, name := range q.tools {
		f := object{"name": name, "description": "does " + name, "parameters": object{"type": "object", "properties": plain(schemaOf())}}
		if a.name == "responses" { // whose SDK always says whether
			f["strict"] = false
		}
		list = append(list, object{"type": "function", "function": f})
	}
	if list != nil {
		o["tools"] = list
	}
	if q.force != "" {
		o["tool_choice"] = object{"type": "function", "function": object{"name": q.force}}
		o["parallel_tool_calls"] = false
	}
	if q.effort != "" {
		o["reasoning_effort"] = q.effort
		if a.name == "messages" { // which gave 1024 tokens
			o["reasoning_effort"] = "low"
		}
	}
	if q.schema != nil {
		o["response_format"] = object{"type": "json_schema", "json_schema": object{
			"name": "answer", "schema": plain(q.schema), "strict": true, // which Anthropic's always are
		}}
	}
	if q.stop != "" {
		o["stop"] = q.stop
		if a.name != "chat" {
			o["stop"] = []any{q.stop}
		}
	}
	if q.limit > 0 {
		used, other := "max_completion_tokens", "max_tokens"
		if a.name != "chat" && w.upstream() == "gpt-4.1" { // the fake's host is none of OpenAI's
			used, other = other, used
		}
		o[used], o[other] = float64(q.limit), absent
	}
	return o
}

func sentResponses(q *question) object {
	o := object{"tools": absent, "tool_choice": absent, "parallel_tool_calls": absent, "reasoning": absent, "text": absent}
	var list []any
	for _, name := range q.tools {
		list = append(list, object{
			"type": "function", "name": name, "description": "does " + name, "strict": false,
			"parameters": object{"type": "object", "properties": plain(schemaOf())},
		})
	}
	if list != nil {
		o["tools"] = list
	}
	if q.force != "" {
		o["tool_choice"] = object{"type": "function", "name": q.force}
		o["parallel_tool_calls"] = false
	}
	if q.effort != "" {
		o["reasoning"] = object{"effort": q.effort}
	}
	if q.schema != nil {
		o["text"] = object{"format": object{"type": "json_schema", "name": "answer", "schema": plain(q.schema), "strict": true}}
	}
	if q.limit > 0 {
		o["max_output_tokens"] = float64(q.limit)
	}
	return o
}

// plain is a value as JSON has it.
func plain(v any) (out any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err) // it is the test's own
	}
	return out
}

// holds checks that a body has all of want. Of members that are not in want nothing is said.
func holds(t *testing.T, want object, body []byte) {
	t.Helper()
	var got object
	require.NoError(t, json.Unmarshal(body, &got))
	for key, value := range want {
		if value == absent {
			assert.NotContains(t, got, key)
			continue
		}
		assert.Equal(t, value, got[key], "%s in %s", key, body)
	}
}
