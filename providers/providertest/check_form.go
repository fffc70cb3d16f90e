package providertest

import (
	"fmt"
	"slices"
	"strings"
)

// checkStop checks OpenAI's stop sequences.
func checkStop(o map[string]any) *problem {
	const most = 4
	switch stop := o["stop"].(type) {
	case nil, string:
	case []any:
		for _, e := range stop {
			if _, is := e.(string); !is {
				return invalidType("stop", "a string or an array of strings")
			}
		}
		if len(stop) > most {
			return &problem{
				text: fmt.Sprintf("Invalid 'stop': array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
					most, len(stop)),
				param: "stop", code: "array_above_max_length",
			}
		}
	default:
		return invalidType("stop", "a string or an array of strings")
	}
	return nil
}

// checkFormat checks the form that an answer must have: of chat, whose schema is an object of
// its own in there, and of responses.
func checkFormat(at string, v any, nested bool) *problem {
	if v == nil {
		return nil
	}
	f, is := v.(map[string]any)
	kind, text := f["type"].(string)
	switch {
	case !is:
		return invalidType(at, "an object")
	case f["type"] == nil:
		return missing(at + ".type")
	case !text || !slices.Contains([]string{"json_object", "json_schema", "text"}, kind):
		return invalidValue(at+".type", fmt.Sprint(f["type"]), "'json_object', 'json_schema', and 'text'")
	case kind != "json_schema":
		return nil
	}
	if nested {
		at += ".json_schema"
		if f, is = f["json_schema"].(map[string]any); !is {
			return missing(at)
		}
	}
	name, text := f["name"].(string)
	_, object := f["schema"].(map[string]any)
	switch {
	case f["name"] == nil:
		return missing(at + ".name")
	case !text || !toolName.MatchString(name):
		return &problem{
			text:  "Invalid '" + at + ".name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
			param: at + ".name", code: "invalid_value",
		}
	case f["schema"] == nil && !nested:
		return missing(at + ".schema")
	case f["schema"] != nil && !object:
		return invalidType(at+".schema", "an object")
	}
	return nil
}

// checkEffort checks how much a model is to reason.
func checkEffort(at string, v any) *problem {
	if v == nil {
		return nil
	}
	effort, is := v.(string)
	if !is || !slices.Contains([]string{"none", "minimal", "low", "medium", "high", "xhigh"}, effort) {
		return invalidValue(at, fmt.Sprint(v), "'none', 'minimal', 'low', 'medium', 'high', and 'xhigh'")
	}
	return nil
}

// checkParallel checks what goes with tools only, in chat.
func checkParallel(o map[string]any) *problem {
	tools, _ := o["tools"].([]any)
	for _, key := range []string{"tool_choice", "parallel_tool_calls"} {
		if o[key] != nil && len(tools) == 0 {
			return onlyWithTools(key)
		}
	}
	if _, is := o["parallel_tool_calls"].(bool); !is && o["parallel_tool_calls"] != nil {
		return invalidType("parallel_tool_calls", "a boolean")
	}
	return nil
}

func onlyWithTools(key string) *problem {
	return &problem{text: "Invalid value for '" + key + "': '" + key + "' is only allowed when 'tools' are specified.", param: key}
}

// checkChoice checks tool_choice; function finds what has a name in it, and in a tool.
func checkChoice(o map[string]any, function function) *problem {
	const at = "tool_choice"
	tools, _ := o["tools"].([]any)
	choice, is := o[at].(map[string]any)
	word, text := o[at].(string)
	kind, _ := choice["type"].(string)
	switch {
	case o[at] == nil:
		return nil
	case text && !slices.Contains([]string{"none", "auto", "required"}, word):
		return invalidValue(at, word, "'none', 'auto', and 'required'")
	case len(tools) == 0 && word != "none" && word != "auto":
		return onlyWithTools(at)
	case text:
		return nil
	case !is:
		return invalidType(at, "a string or an object")
	case kind == "":
		return missing(at + ".type")
	case kind != "function":
		return nil // those of the service
	}
	f, path := function(choice)
	if f["name"] == nil {
		return missing(at + "." + path + "name")
	}
	for _, e := range tools {
		t, _ := e.(map[string]any)
		if declared, _ := function(t); declared["name"] == f["name"] {
			return nil
		}
	}
	return &problem{text: fmt.Sprintf("Tool choice '%v' not found in 'tools' parameter.", f["name"]), param: at}
}

// checkReasoner refuses what OpenAI's models that reason don't take.
func (x *exchange) checkReasoner() *problem {
	o := x.r.body
	reasons := slices.ContainsFunc([]string{"o1", "o3", "o4", "gpt-5"}, func(p string) bool { return strings.HasPrefix(x.r.Model, p) })
	if !reasons {
		return nil
	}
	if o["max_tokens"] != nil {
		return &problem{
			text:  "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
			param: "max_tokens", code: "unsupported_parameter",
		}
	}
	if v, there, _ := number(o, "temperature"); there && v != 1 {
		return &problem{
			text:  "Unsupported value: 'temperature' does not support this value with this model. Only the default (1) value is supported.",
			param: "temperature", code: "unsupported_value",
		}
	}
	usual := map[string]float64{"top_p": 1, "frequency_penalty": 0, "presence_penalty": 0}
	for _, key := range []string{"top_p", "frequency_penalty", "presence_penalty", "stop", "logit_bias", "logprobs"} {
		v, _, isNumber := number(o, key)
		same, has := usual[key]
		if o[key] == nil || o[key] == false || has && isNumber && v == same {
			continue
		}
		return &problem{
			text:  "Unsupported parameter: '" + key + "' is not supported with this model.",
			param: key, code: "unsupported_parameter",
		}
	}
	return nil
}
