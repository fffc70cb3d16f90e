package local

import (
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// messagesQuery reads a request of the Anthropic messages API, which the engine
// converts to a chat request first.
func messagesQuery(o jsonscan.Object, a *assets) (*query, error) {
	q := &query{generate: true}
	if err := q.common(o); err != nil {
		return nil, err
	}
	if n, ok := o.Value("max_tokens").Int(); !ok || n <= 0 {
		return nil, errField
	}
	err := q.thinking(o, a)
	if err != nil {
		return nil, err
	}
	q.tools, err = readTools(o.Value("tools"), func(tool jsonscan.Value) (definition, error) {
		d := flatDefinition(tool)
		d.parameters, d.typed = tool.Get("input_schema"), true
		if d.parameters.Kind() != jsonscan.KindObject {
			return d, errTools
		}
		return d, nil
	})
	if err != nil {
		return nil, err
	}
	q.toolsOff = o.Value("tool_choice").Get("type").Is("none")
	system, err := systemText(o.Value("system"))
	if err != nil {
		return nil, err
	}
	c := converter{merge: a.mergeSystem, system: system}
	if err := c.convert(o.Value("messages")); err != nil {
		return nil, err
	}
	if len(c.system) > 0 {
		first := message{role: roleSystem}
		first.setText(strings.Join(c.system, ""))
		q.messages = append(q.messages, first)
	}
	if q.messages = append(q.messages, c.out...); len(q.messages) == 0 {
		return nil, errEmpty
	}
	return q, nil
}

// thinking reads what bears on the reasoning effort.
func (q *query) thinking(o jsonscan.Object, a *assets) error {
	effort := o.Value("output_config").Get("effort")
	if effort.Exists() {
		s, _ := effort.Str()
		switch s {
		case "low", "medium", "high", "xhigh", "max":
			q.effort = s
		default:
			return errField
		}
	}
	thinking := o.Value("thinking")
	if !thinking.Exists() {
		return nil
	}
	kind, _ := thinking.Get("type").Str()
	switch kind {
	case "enabled", "adaptive":
	case "disabled":
		q.effort = a.noThinking
	default:
		return errField
	}
	return nil
}

// systemText reads the system prompt's texts, without a line that differs each time.
func systemText(v jsonscan.Value) ([]string, error) {
	switch v.Kind() {
	case jsonscan.KindNone, jsonscan.KindNull:
		return nil, nil
	case jsonscan.KindString:
		s, _ := v.Str()
		if s == "" {
			return nil, nil
		}
		return []string{s}, nil
	case jsonscan.KindArray:
		return blockTexts(v)
	default:
		return nil, errForm
	}
}

// blockTexts are the texts of a system prompt given in blocks.
func blockTexts(v jsonscan.Value) ([]string, error) {
	var texts []string
	for it := v.Iter(); it.Next(); {
		if !it.Value().Get("type").Is("text") {
			return nil, errForm
		}
		text, ok := nullable(it.Value().Get("text"))
		if !ok {
			return nil, errForm
		}
		if text != "" && !strings.HasPrefix(text, billingHeader) {
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// nullable reads a string that may be absent or null.
func nullable(v jsonscan.Value) (string, bool) {
	if !v.Exists() {
		return "", true
	}
	return v.Str()
}

// converter turns Anthropic messages into chat messages.
type converter struct {
	out []message
	// merge: system messages go to the front, with the system prompt.
	merge  bool
	system []string
}

func (c *converter) convert(list jsonscan.Value) error {
	if list.Kind() != jsonscan.KindArray {
		return errForm
	}
	for it := list.Iter(); it.Next(); {
		v := it.Value()
		role, _ := v.Get("role").Str()
		content := v.Get("content")
		var err error
		switch role {
		case roleSystem:
			err = c.systemMessage(content)
		case roleUser, roleAssistant:
			err = c.turn(role, content)
		default:
			err = errForm
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *converter) systemMessage(content jsonscan.Value) error {
	var text string
	switch content.Kind() {
	case jsonscan.KindString:
		text, _ = content.Str()
		if strings.HasPrefix(text, billingHeader) {
			return nil
		}
	case jsonscan.KindArray:
		texts, err := blockTexts(content)
		if err != nil {
			return err
		}
		text = strings.Join(texts, "")
	default:
		return errForm
	}
	if text == "" {
		return nil
	}
	if c.merge {
		c.system = append(c.system, text)
		return nil
	}
	m := message{role: roleSystem}
	m.setText(text)
	c.out = append(c.out, m)
	return nil
}

func (c *converter) turn(role string, content jsonscan.Value) error {
	m := message{role: role}
	switch content.Kind() {
	case jsonscan.KindString:
		s, _ := content.Str()
		m.setText(s)
		c.out = append(c.out, m)
		return nil
	case jsonscan.KindArray:
	default:
		return errForm
	}
	var reasoning []string
	for it := content.Iter(); it.Next(); {
		thought, err := c.block(&m, it.Value())
		if err != nil {
			return err
		}
		if thought != nil {
			reasoning = append(reasoning, *thought)
		}
	}
	if reasoning != nil {
		all := strings.Join(reasoning, "")
		m.reasoning = &all
	}
	if len(m.parts) == 1 && m.parts[0].medium == noMedium {
		m.setText(m.parts[0].text)
	}
	// What a user says besides the results of tools comes after them.
	if role != roleUser || m.plain || len(m.parts) > 0 {
		c.out = append(c.out, m)
	}
	return nil
}

// block adds one block to a turn, or a tool's result before it. It returns a
// thought, if it is one.
func (c *converter) block(m *message, v jsonscan.Value) (*string, error) {
	kind, _ := v.Get("type").Str()
	switch kind {
	case "text":
		text, ok := nullable(v.Get("text"))
		if !ok {
			return nil, errForm
		}
		if text != "" {
			m.parts = append(m.parts, part{text: text})
		}
	case "thinking":
		if thought := v.Get("thinking"); thought.Exists() {
			s, ok := thought.Str()
			if !ok {
				return nil, errForm
			}
			return &s, nil
		}
	case "redacted_thinking":
	case "tool_use":
		return nil, m.toolUse(v)
	case "tool_result":
		return nil, c.toolResult(m, v)
	case "image":
		if !isImage(v) {
			return nil, errMedia
		}
		m.parts = append(m.parts, part{medium: image})
	default:
		return nil, errForm
	}
	return nil, nil //nolint:nilnil // no thought, no error
}

func (m *message) toolUse(v jsonscan.Value) error {
	id, _ := v.Get("id").Str()
	name, named := nullable(v.Get("name"))
	if id == "" || !named { // without an id the engine makes one of the time
		return errForm
	}
	var arguments jinja.Value = jinja.NewDict(0)
	switch input := v.Get("input"); input.Kind() {
	case jsonscan.KindNone, jsonscan.KindNull:
	case jsonscan.KindObject:
		d, err := jinja.FromJSON(input.Raw())
		if err != nil {
			return errForm
		}
		arguments = d
	default:
		return errForm
	}
	call, _ := toolCall(id, name, arguments, argumentsFirst)
	m.toolCalls = append(m.toolCalls, call)
	return nil
}

func (c *converter) toolResult(m *message, v jsonscan.Value) error {
	content := v.Get("content")
	if m.role != roleUser {
		text, ok := nullable(content)
		if !ok {
			return errForm
		}
		m.parts = append(m.parts, part{text: "Tool result: " + text})
		return nil
	}
	result := message{role: roleTool}
	id, ok := nullable(v.Get("tool_use_id"))
	if !ok {
		return errForm
	}
	result.callID = jinja.String(id)
	switch content.Kind() {
	case jsonscan.KindNone, jsonscan.KindNull:
		result.setText("")
	case jsonscan.KindString:
		s, _ := content.Str()
		result.setText(s)
	case jsonscan.KindArray:
		texts, images, err := resultParts(content)
		if err != nil {
			return err
		}
		result.setText(strings.Join(texts, "\n"))
		c.out = append(c.out, result)
		if len(images) > 0 { // which tools can't have, so the user shows them
			c.out = append(c.out, message{role: roleUser, parts: images})
		}
		return nil
	default:
		return errForm
	}
	c.out = append(c.out, result)
	return nil
}

// resultParts reads the texts and images of a tool's result.
func resultParts(content jsonscan.Value) (texts []string, images []part, err error) {
	for it := content.Iter(); it.Next(); {
		switch kind, _ := it.Value().Get("type").Str(); kind {
		case "text":
			text := it.Value().Get("text")
			s, isText := text.Str()
			if !isText && text.Kind() != jsonscan.KindNone {
				return nil, nil, errForm
			}
			texts = append(texts, s)
		case "image":
			if !isImage(it.Value()) {
				return nil, nil, errMedia
			}
			images = append(images, part{medium: image})
		default:
			return nil, nil, errForm
		}
	}
	return texts, images, nil
}

// isImage reports whether a block is an image of the usual form.
func isImage(v jsonscan.Value) bool {
	source := v.Get("source")
	kind, _ := source.Get("type").Str()
	content := source.Get("data")
	if kind == "url" {
		content = source.Get("url")
	}
	return (kind == "url" || kind == "base64") && content.Kind() == jsonscan.KindString && !content.Empty()
}
