package providertest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	messagesKeys = `model messages max_tokens cache_control container context_management inference_geo mcp_servers metadata output_config
	output_format service_tier speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p`
	countKeys = `model messages cache_control context_management mcp_servers output_config output_format speed system thinking
	tool_choice tools`
)

var (
	claudeTool = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	callID     = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

func wrong(text string) *problem { return &problem{text: text} }

func required(path string) *problem { return wrong(path + ": Field required") }

func (x *exchange) checkMessages() *problem {
	o := x.r.body
	keys := messagesKeys
	if x.endpoint == countTokens {
		keys = countKeys
	}
	list, is := o["messages"].([]any)
	switch {
	case o["model"] == nil:
		return required("model")
	case o["messages"] == nil:
		return required("messages")
	case !is:
		return wrong("messages: Input should be a valid list")
	case len(list) == 0:
		return wrong("messages: at least one message is required")
	}
	if key := unknownKey(o, keys); key != "" {
		return wrong(key + ": Extra inputs are not permitted")
	}
	if x.endpoint == messages {
		if p := checkNumbers(o); p != nil {
			return p
		}
	}
	if p := first(checkSystem(o["system"]), checkClaudeTools(o), x.checkTurns(list)); p != nil || x.endpoint == countTokens {
		return p
	}
	return first(checkStops(o), checkDeclared(o, list), checkModelled(o, claudeModelOf(x.r.Model), list))
}

// checkNumbers checks bounds, and that of thinking.
func checkNumbers(o map[string]any) *problem {
	most, there, ok := number(o, "max_tokens")
	switch {
	case !ok || most != float64(int64(most)):
		return wrong("max_tokens: Input should be a valid integer")
	case !there:
		return required("max_tokens")
	case most < 1:
		return wrong("max_tokens: Input should be greater than or equal to 1")
	}
	temperature, _, ok := number(o, "temperature")
	switch {
	case !ok:
		return wrong("temperature: Input should be a valid number")
	case temperature < 0 || temperature > 1:
		return wrong("temperature: range: 0..1")
	}
	if topP, there, ok := number(o, "top_p"); there && (!ok || topP < 0 || topP > 1) {
		return wrong("top_p: range: 0..1")
	}
	thinking, _ := o["thinking"].(map[string]any)
	switch thinking["type"] {
	case "enabled":
		const least = 1024
		budget, there, ok := number(thinking, "budget_tokens")
		switch {
		case !there || !ok:
			return required("thinking.enabled.budget_tokens")
		case budget < least:
			return wrong("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		case most <= budget:
			return wrong("`max_tokens` must be greater than `thinking.budget_tokens`.")
		}
	case "disabled", "adaptive", "between_tools":
	case nil:
		if o["thinking"] != nil {
			return required("thinking.type")
		}
	default:
		return wrong("thinking: Input tag found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'")
	}
	return nil
}

func checkSystem(v any) *problem {
	list, is := v.([]any)
	if _, text := v.(string); v == nil || text {
		return nil
	}
	if !is {
		return wrong("system: Input should be a valid list")
	}
	for i, e := range list {
		b, _ := e.(map[string]any)
		at := fmt.Sprintf("system.%d", i)
		switch {
		case b["type"] != "text":
			return wrong(at + ".type: Input should be 'text'")
		case b["text"] == "":
			return wrong("system: text content blocks must be non-empty")
		}
	}
	return nil
}

func checkClaudeTools(o map[string]any) *problem {
	list, _ := o["tools"].([]any)
	names := map[string]bool{}
	for i, e := range list {
		t, _ := e.(map[string]any)
		if t["type"] != nil && t["type"] != "custom" {
			continue // those of the service
		}
		at := fmt.Sprintf("tools.%d.custom.", i)
		name, _ := t["name"].(string)
		schema, _ := t["input_schema"].(map[string]any)
		switch {
		case t["name"] == nil:
			return required(at + "name")
		case !claudeTool.MatchString(name):
			return wrong(at + "name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
		case names[name]:
			return wrong("tools: Tool names must be unique.")
		case schema == nil:
			return required(at + "input_schema")
		case schema["type"] == nil:
			return required(at + "input_schema.type")
		case schema["type"] != "object":
			return wrong(at + "input_schema.type: Input should be 'object'")
		}
		if key := unknownKey(t, `type name description input_schema cache_control strict input_examples defer_loading allowed_callers
			eager_input_streaming`); key != "" {
			return wrong(at + key + ": Extra inputs are not permitted")
		}
		names[name] = true
	}
	choice, is := o["tool_choice"].(map[string]any)
	switch kind, _ := choice["type"].(string); {
	case o["tool_choice"] == nil:
		return nil
	case !is:
		return wrong("tool_choice: Input should be a valid dictionary")
	case len(list) == 0:
		return wrong("tool_choice may only be specified while providing tools.")
	case kind == "tool" && choice["name"] == nil:
		return required("tool_choice.tool.name")
	case kind == "tool" && !names[fmt.Sprint(choice["name"])]:
		return wrong(fmt.Sprintf("Tool '%v' not found in provided tools", choice["name"]))
	case !slices.Contains([]string{"auto", "any", "tool", "none"}, kind):
		return wrong("tool_choice: Input tag found using 'type' does not match any of the expected tags: 'any', 'auto', 'none', 'tool'")
	}
	return nil
}

// turns are what is known of the messages so far.
type turns struct {
	open   []string        // calls of the turn before that must have results in this one
	called map[string]bool // all of its calls
	at     int             // its place
	role   string
}

func (x *exchange) checkTurns(list []any) *problem {
	var t turns
	for i, e := range list {
		m, is := e.(map[string]any)
		at := fmt.Sprintf("messages.%d", i)
		if !is {
			return wrong(at + ": Input should be a valid dictionary")
		}
		role, _ := m["role"].(string)
		switch {
		case m["role"] == nil:
			return required(at + ".role")
		case role == "system":
			return wrong("messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, " +
				"not \"system\" as an input message role.")
		case role != "user" && role != "assistant":
			return wrong(at + ".role: Input should be 'user' or 'assistant'")
		case x.opts.Alternate && i == 0 && role != "user":
			return wrong("messages: first message must use the \"user\" role")
		case x.opts.Alternate && role == t.role:
			return wrong("messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"" + role + "\" roles in a row")
		}
		if key := unknownKey(m, "role content"); key != "" {
			return wrong(at + "." + key + ": Extra inputs are not permitted")
		}
		if p := t.turn(m, i, role, i == len(list)-1); p != nil {
			return p
		}
	}
	return t.unanswered()
}

func (t *turns) unanswered() *problem {
	if len(t.open) == 0 {
		return nil
	}
	return wrong(fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
		"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", t.at, strings.Join(t.open, ", ")))
}

// turn checks one message. Neighbours of one role are one turn.
func (t *turns) turn(m map[string]any, index int, role string, last bool) *problem {
	at := fmt.Sprintf("messages.%d", index)
	blocks, is := m["content"].([]any)
	text, isText := m["content"].(string)
	switch {
	case m["content"] == nil:
		return required(at + ".content")
	case !is && !isText:
		return wrong(at + ".content: Input should be a valid list")
	case (isText && text == "" || is && len(blocks) == 0) && !(last && role == "assistant"):
		return wrong(at + ": all messages must have non-empty content except for the optional final assistant message")
	case last && role == "assistant" && endsBlank(m["content"]):
		return wrong("messages: final assistant content cannot end with trailing whitespace")
	}
	if role == "assistant" && t.role != role {
		if p := t.unanswered(); p != nil {
			return p
		}
		t.called = map[string]bool{}
	}
	t.role = role
	answered := 0
	for i, e := range blocks {
		b, _ := e.(map[string]any)
		here := fmt.Sprintf("%s.content.%d", at, i)
		if p := checkBlock(b, here, role); p != nil {
			return p
		}
		switch b["type"] {
		case "tool_use":
			id, _ := b["id"].(string)
			t.open, t.called[id], t.at = append(t.open, id), true, index
		case "tool_result":
			id, _ := b["tool_use_id"].(string)
			if !t.called[id] {
				return wrong(here + ": unexpected `tool_use_id` found in `tool_result` blocks: " + id +
					". Each `tool_result` block must have a corresponding `tool_use` block in the previous message.")
			}
			if answered < i {
				return t.unanswered() // something stands before it
			}
			answered++
			t.open = slices.DeleteFunc(t.open, func(open string) bool { return open == id })
		default:
		}
	}
	return nil
}

// endsBlank reports whether a content's last text ends with white space.
func endsBlank(content any) bool {
	text, is := content.(string)
	if list, parts := content.([]any); parts && len(list) > 0 {
		b, _ := list[len(list)-1].(map[string]any)
		text, is = b["text"].(string)
	}
	return is && text != strings.TrimRight(text, " \t\r\n")
}
