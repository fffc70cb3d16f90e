package providertest

import "fmt"

const responsesKeys = `model input background context_management conversation include instructions max_output_tokens max_tool_calls
	metadata moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning
	safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user`

func (x *exchange) checkResponses() *problem {
	o := x.r.body
	if key := unknownKey(o, responsesKeys); key != "" {
		return unknownParameter(key)
	}
	var items []any
	switch in := o["input"].(type) {
	case string:
	case []any:
		items = in
	case nil:
		if o["prompt"] == nil && o["previous_response_id"] == nil && o["conversation"] == nil {
			return &problem{
				text:  "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
				param: "input", code: "missing_required_parameter",
			}
		}
	default:
		return invalidType("input", "one of an array of objects or string")
	}
	if p := first(x.checkModel(), between(o, "temperature", 0, 2), between(o, "top_p", 0, 1), atLeastOne(o, "max_output_tokens")); p != nil {
		return p
	}
	function := func(t map[string]any) (map[string]any, string) { return t, "" }
	if p := first(checkTools(o, function), checkChoice(o, function), checkNested(o), x.checkReasoner()); p != nil {
		return p
	}
	calls := map[any]bool{}
	for i, e := range items {
		at := fmt.Sprintf("input[%d]", i)
		item, is := e.(map[string]any)
		if !is {
			return invalidType(at, "an object")
		}
		if p := checkItem(item, at, calls, o["previous_response_id"] != nil); p != nil {
			return p
		}
	}
	return nil
}

// checkNested checks what is in objects here, and beside all else in chat.
func checkNested(o map[string]any) *problem {
	for _, key := range []string{"reasoning", "text"} {
		if _, is := o[key].(map[string]any); !is && o[key] != nil {
			return invalidType(key, "an object")
		}
	}
	reasoning, _ := o["reasoning"].(map[string]any)
	text, _ := o["text"].(map[string]any)
	return first(checkEffort("reasoning.effort", reasoning["effort"]), checkFormat("text.format", text["format"], false))
}

func checkItem(item map[string]any, at string, calls map[any]bool, before bool) *problem {
	switch item["type"] {
	case nil, "message":
		role, _ := item["role"].(string)
		switch role {
		case "user", "assistant", "system", "developer":
		case "":
			return missing(at + ".role")
		default:
			return invalidValue(at+".role", role, "'assistant', 'system', 'developer', and 'user'")
		}
		return checkContent(item["content"], at, role)
	case "function_call":
		for _, key := range []string{"call_id", "name", "arguments"} {
			if item[key] == nil {
				return missing(at + "." + key)
			}
		}
		calls[item["call_id"]] = true
	case "function_call_output":
		switch {
		case item["call_id"] == nil:
			return missing(at + ".call_id")
		case item["output"] == nil:
			return missing(at + ".output")
		case !calls[item["call_id"]] && !before:
			return &problem{text: fmt.Sprintf("No tool call found for function call output with call_id %v.", item["call_id"]), param: "input"}
		}
	default:
	}
	return nil
}

func checkContent(content any, at, role string) *problem {
	parts, is := content.([]any)
	if _, text := content.(string); text {
		return nil
	}
	if !is {
		return missing(at + ".content")
	}
	for i, e := range parts {
		part, _ := e.(map[string]any)
		kind, _ := part["type"].(string)
		here := fmt.Sprintf("%s.content[%d].type", at, i)
		switch kind {
		case "":
			return missing(here)
		case "input_text", "input_image", "input_file":
			if role == "assistant" {
				return invalidValue(here, kind, "'output_text' and 'refusal'")
			}
		case "output_text", "refusal":
			if role != "assistant" {
				return invalidValue(here, kind, "'input_text', 'input_image', and 'input_file'")
			}
		default:
			return invalidValue(here, kind, "'input_text', 'input_image', 'output_text', 'refusal', and 'input_file'")
		}
	}
	return nil
}
