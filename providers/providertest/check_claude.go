package providertest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// claudeModel is what Anthropic's documentation says of a model by its name. The rules are written
// down here once more, and not shared with the code that is tried against this.
type claudeModel struct {
	// generation is 45 for 4.5; 0 for a name that says none: then no rule of a generation counts.
	generation int
	name       string
}

var claudeVersion = regexp.MustCompile(`[-.](\d)(?:[-.](\d))?(?:[-.@:]|$)`)

func claudeModelOf(name string) claudeModel {
	m := claudeModel{name: strings.ToLower(name)}
	_, version, ok := strings.Cut(m.name, "claude")
	if !ok {
		return m
	}
	if digits := claudeVersion.FindStringSubmatch(version); digits != nil {
		_, _ = fmt.Sscan(digits[1]+(digits[2] + "0")[:1], &m.generation)
	}
	return m
}

// since reports whether the model surely is of a generation or a later one, before whether of an earlier.
func (m claudeModel) since(generation int) bool { return m.generation >= generation }

func (m claudeModel) before(generation int) bool {
	return m.generation > 0 && m.generation < generation
}

// deep are the families that always think.
func (m claudeModel) deep() bool {
	return strings.Contains(m.name, "fable") || strings.Contains(m.name, "mythos")
}

// always reports whether the model can't be told not to think.
func (m claudeModel) always() bool { return m.deep() || m.since(55) }

// checkModelled checks what models differ in, of a request whose fields are in order.
func checkModelled(o map[string]any, m claudeModel, list []any) *problem {
	thinking, _ := o["thinking"].(map[string]any)
	kind, _ := thinking["type"].(string)
	return first(
		checkThinks(kind, m),
		checkOutput(o, m),
		checkForced(o, kind, m),
		checkSampling(o, kind == "enabled" || kind == "adaptive", m),
		checkLastTurn(list, kind == "enabled", m),
	)
}

func checkThinks(kind string, m claudeModel) *problem {
	switch {
	case kind == "enabled" && m.before(37):
		return wrong("thinking: extended thinking is not supported on this model")
	case kind == "enabled" && (m.since(47) || m.deep()):
		return wrong(`"thinking.type.enabled" is not supported for this model. ` +
			`Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
	case kind == "adaptive" && m.before(46):
		return wrong("adaptive thinking is not supported on this model")
	case kind == "disabled" && m.always():
		return wrong(`"thinking.type.disabled" is not supported for this model.`)
	case kind == "between_tools" && (!m.since(55) || !strings.Contains(m.name, "sonnet")):
		return wrong(`"thinking.type.between_tools" is not supported for this model.`)
	}
	return nil
}

// checkOutput checks output_config.
func checkOutput(o map[string]any, m claudeModel) *problem {
	if o["output_config"] == nil {
		return nil
	}
	c, is := o["output_config"].(map[string]any)
	if !is {
		return wrong("output_config: Input should be a valid dictionary")
	}
	if p := extra(c, "output_config", "effort format task_budget"); p != nil {
		return p
	}
	effort, text := c["effort"].(string)
	switch {
	case c["effort"] == nil:
	case !text || !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, effort):
		return wrong("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	case m.before(45) || m.generation == 45 && !strings.Contains(m.name, "opus"):
		return wrong("This model does not support the effort parameter.")
	case effort == "xhigh" && m.before(47):
		return wrong("This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.")
	}
	if c["format"] == nil {
		return nil
	}
	f, is := c["format"].(map[string]any)
	_, object := f["schema"].(map[string]any)
	switch {
	case !is:
		return wrong("output_config.format: Input should be a valid dictionary")
	case f["type"] == nil:
		return required("output_config.format.type")
	case f["type"] != "json_schema":
		return wrong("output_config.format.type: Input should be 'json_schema'")
	case f["schema"] == nil:
		return required("output_config.format.schema")
	case !object:
		return wrong("output_config.format.schema: Input should be a valid dictionary")
	case m.before(41):
		return wrong("output_config.format: this model does not support structured outputs")
	default:
		return extra(f, "output_config.format", "type schema")
	}
}

// checkForced checks a choice that makes the model call a tool.
func checkForced(o map[string]any, kind string, m claudeModel) *problem {
	choice, _ := o["tool_choice"].(map[string]any)
	if choice["type"] != "any" && choice["type"] != "tool" {
		return nil
	}
	switch {
	case m.always():
		return wrong("tool_choice: forcing the use of a tool is not supported for this model")
	case kind == "enabled", kind == "adaptive", kind == "" && m.since(50): // these think unless they are told not to
		return wrong("Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

func checkSampling(o map[string]any, thinks bool, m claudeModel) *problem {
	const least = 0.95
	temperature, warm, _ := number(o, "temperature")
	topP, narrow, _ := number(o, "top_p")
	switch {
	case m.since(47) && warm && temperature != 1:
		return wrong("`temperature` is deprecated for this model.")
	case m.since(47) && narrow && topP != 1:
		return wrong("`top_p` is deprecated for this model.")
	case m.since(47) && o["top_k"] != nil:
		return wrong("`top_k` is deprecated for this model.")
	case m.since(41) && warm && narrow:
		return wrong("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	case thinks && warm && temperature != 1:
		return wrong("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
	case thinks && narrow && topP < least:
		return wrong("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled or in adaptive mode.")
	case thinks && o["top_k"] != nil:
		return wrong("`top_k` must be unset when thinking is enabled or in adaptive mode.")
	}
	return nil
}

// checkLastTurn checks the model's last turn: whether the answer may go on with it, and
// whether it was begun with thinking.
func checkLastTurn(list []any, thinks bool, m claudeModel) *problem {
	final, _ := list[len(list)-1].(map[string]any)
	if final["role"] == "assistant" && (m.since(46) || m.deep()) {
		return wrong("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if !thinks || final["role"] == "user" && !hasBlock(final, "tool_result") {
		return nil
	}
	turn := -1
	for i := range list {
		message, _ := list[i].(map[string]any)
		before := map[string]any{}
		if i > 0 {
			before, _ = list[i-1].(map[string]any)
		}
		if message["role"] == "assistant" && before["role"] != "assistant" {
			turn = i
		}
	}
	if turn < 0 {
		return nil
	}
	message, _ := list[turn].(map[string]any)
	blocks, _ := message["content"].([]any)
	found := "text"
	if len(blocks) > 0 {
		b, _ := blocks[0].(map[string]any)
		found, _ = b["type"].(string)
	}
	if found == "thinking" || found == "redacted_thinking" {
		return nil
	}
	return wrong(fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. "+
		"When `thinking` is enabled, a final `assistant` message must begin with a thinking block, before its tool_use blocks.", turn, found))
}

// hasBlock reports whether a message has a block of a type.
func hasBlock(message map[string]any, kind string) bool {
	blocks, _ := message["content"].([]any)
	return slices.ContainsFunc(blocks, func(e any) bool {
		b, _ := e.(map[string]any)
		return b["type"] == kind
	})
}

// checkDeclared wants tools where the conversation has calls.
func checkDeclared(o map[string]any, list []any) *problem {
	if tools, _ := o["tools"].([]any); len(tools) > 0 {
		return nil
	}
	for _, e := range list {
		m, _ := e.(map[string]any)
		if hasBlock(m, "tool_use") || hasBlock(m, "tool_result") {
			return wrong("Requests which have `tool_use` or `tool_result` blocks in the history must define tools.")
		}
	}
	return nil
}

// checkStops checks stop_sequences.
func checkStops(o map[string]any) *problem {
	if o["stop_sequences"] == nil {
		return nil
	}
	list, is := o["stop_sequences"].([]any)
	if !is {
		return wrong("stop_sequences: Input should be a valid list")
	}
	for i, e := range list {
		s, is := e.(string)
		switch {
		case !is:
			return wrong(fmt.Sprintf("stop_sequences.%d: Input should be a valid string", i))
		case strings.TrimSpace(s) == "":
			return wrong("stop_sequences: each stop sequence must contain non-whitespace")
		}
	}
	return nil
}
