package providertest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// check finds what is wrong with a body, as the service does.
func (x *exchange) check() *problem {
	var p *problem
	switch x.endpoint {
	case chat:
		p = x.checkChat()
	case completions:
		p = x.checkText()
	case responses:
		p = x.checkResponses()
	case embeddings:
		p = x.checkEmbeddings()
	case messages, countTokens:
		p = x.checkMessages()
	default:
	}
	if p != nil {
		p.fault, p.checked = BadRequest, true
	}
	return p
}

// unknownKey is a member that is none of keys, "" if there is no such.
func unknownKey(o map[string]any, keys string) string {
	var found []string
	for key := range o {
		if !slices.Contains(strings.Fields(keys), key) {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// number is a member that is one; there is false if it is absent or null, ok if it is
// something else.
func number(o map[string]any, key string) (v float64, there, ok bool) {
	switch n := o[key].(type) {
	case nil:
		return 0, false, true
	case json.Number:
		f, err := n.Float64()
		return f, true, err == nil
	default:
		return 0, true, false
	}
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// What OpenAI says.

func missing(param string) *problem {
	return &problem{text: "Missing required parameter: '" + param + "'.", param: param, code: "missing_required_parameter"}
}

func invalidType(param, want string) *problem {
	return &problem{text: "Invalid type for '" + param + "': expected " + want + ".", param: param, code: "invalid_type"}
}

func invalidValue(param, value, supported string) *problem {
	return &problem{
		text:  "Invalid value: '" + value + "'. Supported values are: " + supported + ".",
		param: param, code: "invalid_value",
	}
}

func unknownParameter(param string) *problem {
	return &problem{text: "Unknown parameter: '" + param + "'.", param: param, code: "unknown_parameter"}
}

// between checks a number's range.
func between(o map[string]any, key string, low, high float64) *problem {
	v, there, ok := number(o, key)
	switch {
	case !ok:
		return invalidType(key, "a decimal")
	case !there:
		return nil
	case v > high:
		return &problem{
			text:  fmt.Sprintf("Invalid '%s': decimal above maximum value. Expected a value <= %g, but got %g instead.", key, high, v),
			param: key, code: "decimal_above_max_value",
		}
	case v < low:
		return &problem{
			text:  fmt.Sprintf("Invalid '%s': decimal below minimum value. Expected a value >= %g, but got %g instead.", key, low, v),
			param: key, code: "decimal_below_min_value",
		}
	default:
		return nil
	}
}

// atLeastOne checks a bound of tokens.
func atLeastOne(o map[string]any, key string) *problem {
	v, there, ok := number(o, key)
	switch {
	case !ok || v != float64(int64(v)):
		return invalidType(key, "an integer")
	case there && v < 1:
		return &problem{
			text:  fmt.Sprintf("Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", key, int64(v)),
			param: key, code: "integer_below_min_value",
		}
	default:
		return nil
	}
}

// first is the first problem that there is.
func first(list ...*problem) *problem {
	for _, p := range list {
		if p != nil {
			return p
		}
	}
	return nil
}

const textKeys = `model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream
	stream_options suffix temperature top_p user`

func (x *exchange) checkText() *problem {
	o := x.r.body
	switch o["prompt"].(type) {
	case string, []any:
	case nil:
		return missing("prompt")
	default:
		return invalidType("prompt", "a string or an array")
	}
	return x.checkCommon(textKeys)
}

const embeddingKeys = "model input dimensions encoding_format user"

func (x *exchange) checkEmbeddings() *problem {
	o := x.r.body
	if key := unknownKey(o, embeddingKeys); key != "" {
		return unknownParameter(key)
	}
	switch o["input"].(type) {
	case string, []any:
		return x.checkModel()
	case nil:
		return missing("input")
	default:
		return invalidType("input", "a string or an array")
	}
}

// checkModel wants the body to name one, but where Azure's path does.
func (x *exchange) checkModel() *problem {
	if x.r.Model == "" {
		return &problem{text: "you must provide a model parameter"}
	}
	return nil
}

// checkCommon is what chat completions and completions have in common.
func (x *exchange) checkCommon(keys string) *problem {
	o := x.r.body
	if key := unknownKey(o, keys); key != "" {
		return &problem{text: "Unrecognized request argument supplied: " + key}
	}
	if _, is := o["stream"].(bool); o["stream"] != nil && !is {
		return invalidType("stream", "a boolean")
	}
	if o["stream_options"] != nil && !x.r.Stream {
		return &problem{text: "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param: "stream_options"}
	}
	return first(x.checkModel(), checkStop(o), between(o, "temperature", 0, 2), between(o, "top_p", 0, 1),
		between(o, "frequency_penalty", -2, 2), between(o, "presence_penalty", -2, 2),
		atLeastOne(o, "max_tokens"), atLeastOne(o, "max_completion_tokens"), atLeastOne(o, "n"))
}
