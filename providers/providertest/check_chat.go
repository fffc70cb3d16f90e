package providertest

import (
	"fmt"
	"slices"
	"strings"
)

const chatKeys = `model messages audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
	metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention
	reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice
	tools top_logprobs top_p user verbosity web_search_options`

func (x *exchange) checkChat() *problem {
	o := x.r.body
	list, is := o["messages"].([]any)
	switch {
	case o["messages"] == nil:
		return missing("messages")
	case !is:
		return invalidType("messages", "an array of objects")
	case len(list) == 0:
		return &problem{
			text:  "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
			param: "messages", code: "empty_array",
		}
	}
	if p := x.checkCommon(chatKeys); p != nil {
		return p
	}
	if o["max_tokens"] != nil && o["max_completion_tokens"] != nil {
		return &problem{
			text:  "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
			param: "max_tokens", code: "invalid_parameter_combination",
		}
	}
	if p := first(
		checkFormat("response_format", o["response_format"], true),
		checkEffort("reasoning_effort", o["reasoning_effort"]),
		x.checkReasoner(),
	); p != nil {
		return p
	}
	function := func(t map[string]any) (map[string]any, string) {
		f, _ := t["function"].(map[string]any)
		return f, "function."
	}
	return first(checkTools(o, function), checkParallel(o), checkChoice(o, function), checkConversation(list))
}

// function finds what a tool, or a choice of one, has a name in.
type function func(map[string]any) (f map[string]any, path string)

// checkTools checks the list of tools.
func checkTools(o map[string]any, function function) *problem {
	list, _ := o["tools"].([]any)
	for i, e := range list {
		t, _ := e.(map[string]any)
		at := fmt.Sprintf("tools[%d].", i)
		switch t["type"] {
		case "function":
		case nil:
			return missing(at + "type")
		default:
			continue // those of the service
		}
		f, path := function(t)
		name, _ := f["name"].(string)
		switch {
		case f == nil || f["name"] == nil:
			return missing(at + path + "name")
		case !toolName.MatchString(name):
			return &problem{
				text:  "Invalid '" + at + path + "name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
				param: at + path + "name", code: "invalid_value",
			}
		}
		schema, is := f["parameters"].(map[string]any)
		if f["parameters"] != nil && (!is || schema["type"] != nil && schema["type"] != "object") {
			return &problem{
				text:  "Invalid schema for function '" + name + `': schema must be a JSON Schema of 'type: "object"'.`,
				param: at + path + "parameters", code: "invalid_function_parameters",
			}
		}
	}
	return nil
}

// checkConversation checks the messages, and that calls of tools and their results go
// together.
func checkConversation(list []any) *problem {
	open := map[string]bool{} // calls of the last assistant's turn that have no result yet
	called := false
	for i, e := range list {
		at := fmt.Sprintf("messages[%d]", i)
		m, is := e.(map[string]any)
		if !is {
			return invalidType(at, "an object")
		}
		role, _ := m["role"].(string)
		if role == "tool" {
			id, _ := m["tool_call_id"].(string)
			switch {
			case m["tool_call_id"] == nil:
				return missing(at + ".tool_call_id")
			case !called || !open[id]:
				return &problem{
					text:  "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
					param: at + ".role",
				}
			}
			delete(open, id)
		} else {
			if p := unanswered(open, at); p != nil {
				return p
			}
			called = false
		}
		if p := checkMessage(m, at, role); p != nil {
			return p
		}
		calls, _ := m["tool_calls"].([]any)
		for _, c := range calls {
			call, _ := c.(map[string]any)
			if id, _ := call["id"].(string); id != "" {
				open[id], called = true, true
			}
		}
	}
	return unanswered(open, "messages")
}

func unanswered(open map[string]bool, at string) *problem {
	if len(open) == 0 {
		return nil
	}
	var ids []string
	for id := range open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return &problem{
		text: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
			"The following tool_call_ids did not have response messages: " + strings.Join(ids, ", "),
		param: at + ".role",
	}
}

func checkMessage(m map[string]any, at, role string) *problem {
	var parts string
	switch role {
	case "system", "developer", "tool":
		parts = "text"
	case "user":
		parts = "text image_url input_audio file"
	case "assistant":
		parts = "text refusal"
	case "function":
		return nil
	case "":
		return missing(at + ".role")
	default:
		return invalidValue(at+".role", role, "'system', 'assistant', 'user', 'function', 'tool', and 'developer'")
	}
	if key := unknownKey(m, `role content name tool_calls tool_call_id refusal audio function_call annotations
		reasoning_content reasoning`); key != "" { // the last two are of others who speak the API
		return unknownParameter(at + "." + key)
	}
	switch content := m["content"].(type) {
	case string:
	case []any:
		for i, e := range content {
			part, _ := e.(map[string]any)
			if p := checkPart(part, fmt.Sprintf("%s.content[%d]", at, i), parts); p != nil {
				return p
			}
		}
	case nil:
		if role != "assistant" || m["tool_calls"] == nil && m["function_call"] == nil && m["refusal"] == nil && m["audio"] == nil {
			return &problem{text: "Invalid value for 'content': expected a string, got null.", param: at + ".content"}
		}
	default:
		return invalidType(at+".content", "one of a string or array of objects")
	}
	calls, _ := m["tool_calls"].([]any)
	if m["tool_calls"] != nil && len(calls) == 0 {
		return &problem{
			text:  "Invalid '" + at + ".tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.",
			param: at + ".tool_calls", code: "empty_array",
		}
	}
	for i, e := range calls {
		call, _ := e.(map[string]any)
		here := fmt.Sprintf("%s.tool_calls[%d].", at, i)
		f, _ := call["function"].(map[string]any)
		_, text := f["arguments"].(string)
		switch {
		case call["id"] == nil || call["id"] == "":
			return missing(here + "id")
		case call["type"] == nil:
			return missing(here + "type")
		case f["name"] == nil:
			return missing(here + "function.name")
		case f["arguments"] == nil:
			return missing(here + "function.arguments")
		case !text:
			return invalidType(here+"function.arguments", "a string")
		}
	}
	return nil
}

func checkPart(part map[string]any, at, kinds string) *problem {
	kind, _ := part["type"].(string)
	switch {
	case part["type"] == nil:
		return missing(at + ".type")
	case !slices.Contains(strings.Fields(kinds), kind):
		return invalidValue(at+".type", kind, "'"+strings.Join(strings.Fields(kinds), "', '")+"'")
	}
	switch kind {
	case "text":
		if _, is := part["text"].(string); !is {
			return missing(at + ".text")
		}
	case "image_url":
		image, _ := part["image_url"].(map[string]any)
		url, _ := image["url"].(string)
		data, isData := strings.CutPrefix(url, "data:")
		switch {
		case url == "":
			return missing(at + ".image_url.url")
		case isData && (!strings.HasPrefix(data, "image/") || !strings.Contains(data, ";base64,")):
			return &problem{
				text:  "Invalid MIME type. Only image types are supported.",
				param: at + ".image_url.url", code: "invalid_image_format",
			}
		case !isData && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://"):
			return &problem{
				text:  "Failed to download image. Expected a base64-encoded data URL or a URL that begins with http.",
				param: at + ".image_url.url", code: "invalid_image_url",
			}
		}
	default:
	}
	return nil
}
