package local

import (
	"slices"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// responsesQuery reads a request of the responses API. Its prompt is tokenized
// with special tokens added, unlike a chat request's.
func responsesQuery(o jsonscan.Object) (*query, error) {
	for _, key := range [...]string{"previous_response_id", "conversation", "prompt", "previous_input_messages"} {
		if o.Value(key).Exists() {
			return nil, errStateful
		}
	}
	q := &query{generate: true, special: true}
	if err := q.common(o); err != nil {
		return nil, err
	}
	if reasoning := o.Value("reasoning"); reasoning.Exists() {
		if reasoning.Kind() != jsonscan.KindObject {
			return nil, errField
		}
		var err error
		if q.effort, err = effortOf(reasoning.Get("effort")); err != nil {
			return nil, err
		}
	}
	switch v := o.Value("truncation"); {
	case v.Kind() == jsonscan.KindNone, v.Is("disabled"):
	case v.Kind() == jsonscan.KindNull, v.Is("auto"):
		q.cut = cut{any: true, to: -1}
		q.cut.reserve(o, "max_output_tokens")
	default:
		return nil, errField
	}
	if err := q.responsesTools(o); err != nil {
		return nil, err
	}
	instructions, ok := nullable(o.Value("instructions"))
	if !ok {
		return nil, errField
	}
	if instructions != "" {
		m := message{role: roleSystem}
		m.setText(instructions)
		q.messages = append(q.messages, m)
	}
	if err := q.input(o.Value("input")); err != nil {
		return nil, err
	}
	if len(q.messages) == 0 {
		return nil, errEmpty
	}
	return q, nil
}

func (q *query) responsesTools(o jsonscan.Object) error {
	tools, err := readTools(o.Value("tools"), func(tool jsonscan.Value) (definition, error) {
		switch kind, _ := tool.Get("type").Str(); kind {
		case "function":
			return flatDefinition(tool), nil
		case "", "custom", "namespace": // made into functions in ways that are not reproduced
			return definition{}, errTools
		default: // no template sees the engine's own tools
			return definition{}, errNoTool
		}
	})
	if err != nil {
		return err
	}
	if tools != nil && !o.Value("tools").Empty() { // an empty list is as good as none here
		q.tools = tools
	}
	q.toolsOff = o.Value("tool_choice").Is("none")
	return nil
}

// input reads the input: a text, or items that together make messages.
func (q *query) input(v jsonscan.Value) error {
	switch v.Kind() {
	case jsonscan.KindString:
		s, _ := v.Str()
		m := message{role: roleUser}
		m.setText(s)
		q.messages = append(q.messages, m)
		return nil
	case jsonscan.KindArray:
	default:
		return errForm
	}
	first := len(q.messages)
	for it := v.Iter(); it.Next(); {
		if it.Value().Kind() != jsonscan.KindObject {
			return errForm
		}
		q.resume = false
		if err := q.item(it.Value(), first); err != nil {
			return err
		}
	}
	q.generate = !q.resume
	return nil
}

// item adds an item to the conversation, or to the assistant's message before it
// if that is still without such a thing. Items before first are none of the input's.
func (q *query) item(v jsonscan.Value, first int) error {
	kind, ok := nullable(v.Get("type"))
	if !ok {
		return errForm
	}
	switch kind {
	case "function_call":
		return q.functionCall(v, first)
	case "function_call_output":
		return q.functionOutput(v)
	case "reasoning":
		return q.reasoningItem(v, first)
	case "message", "":
		return q.messageItem(v, kind, first)
	default:
		return errForm
	}
}

// assistant is the message before, if it is the assistant's.
func (q *query) assistant(first int) *message {
	if n := len(q.messages); n > first && q.messages[n-1].role == roleAssistant {
		return &q.messages[n-1]
	}
	return nil
}

func (q *query) functionCall(v jsonscan.Value, first int) error {
	id, hasID := v.Get("call_id").Str()
	name, named := v.Get("name").Str()
	text, given := v.Get("arguments").Text()
	status, known := nullable(v.Get("status"))
	if !hasID || !named || !given || !known || !isStatus(status) || v.Get("namespace").Exists() || v.Get("caller").Exists() {
		return errForm
	}
	if ownID, valid := nullable(v.Get("id")); !valid || ownID == "" && v.Get("id").Exists() {
		return errForm
	}
	arguments, err := parseArguments(text)
	if err != nil {
		return err
	}
	call, _ := toolCall(id, name, arguments, nameFirst)
	m := q.assistant(first)
	if m == nil {
		q.messages = append(q.messages, message{role: roleAssistant})
		m = &q.messages[len(q.messages)-1]
	}
	m.toolCalls = append(m.toolCalls, call)
	return nil
}

func isStatus(s string) bool {
	switch s {
	case "", "in_progress", "completed", "incomplete":
		return true
	default:
		return false
	}
}

func (q *query) functionOutput(v jsonscan.Value) error {
	id, ok := v.Get("call_id").Str()
	if !ok {
		return errForm
	}
	m := message{role: roleTool, callID: jinja.String(id)}
	output := v.Get("output")
	switch output.Kind() {
	case jsonscan.KindString:
		s, _ := output.Str()
		m.setText(s)
	case jsonscan.KindArray:
		if err := m.readParts(output, "input_text"); err != nil {
			return err
		}
		if slices.ContainsFunc(m.parts, func(p part) bool { return p.medium != noMedium }) {
			return errMedia
		}
	default:
		return errForm
	}
	q.messages = append(q.messages, m)
	return nil
}

func (q *query) reasoningItem(v jsonscan.Value, first int) error {
	status, known := nullable(v.Get("status"))
	if v.Get("encrypted_content").Exists() || !known || !isStatus(status) || v.Get("summary").Kind() != jsonscan.KindArray {
		return errForm
	}
	id := v.Get("id")
	if id.Kind() != jsonscan.KindNone && id.Kind() != jsonscan.KindString {
		return errForm
	}
	content, err := reasoningTexts(v.Get("content"), "reasoning_text")
	if err != nil {
		return err
	}
	summary, err := reasoningTexts(v.Get("summary"), "summary_text")
	if err != nil {
		return err
	}
	text := ""
	switch {
	case len(content) > 0:
		text = content[0]
	case len(summary) > 0:
		text = summary[0]
	default:
	}
	q.resume = status == "in_progress" || status == "incomplete"
	if m := q.assistant(first); m != nil && m.reasoning == nil {
		m.reasoning = &text
		return nil
	}
	q.messages = append(q.messages, message{role: roleAssistant, reasoning: &text})
	return nil
}

func reasoningTexts(v jsonscan.Value, kind string) ([]string, error) {
	var texts []string
	if v.Exists() && v.Kind() != jsonscan.KindArray {
		return nil, errForm
	}
	for it := v.Iter(); it.Next(); {
		text, ok := it.Value().Get("text").Str()
		if !ok || !it.Value().Get("type").Is(kind) {
			return nil, errForm
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func (q *query) messageItem(v jsonscan.Value, kind string, first int) error {
	var m message
	role, _ := v.Get("role").Str()
	content := v.Get("content")
	status, known := nullable(v.Get("status"))
	if !known || !isStatus(status) {
		return errForm
	}
	switch {
	case role == roleAssistant && content.Kind() == jsonscan.KindArray:
		return q.outputMessage(v, kind, status, first)
	case role == roleAssistant, role == roleUser, role == roleSystem, role == roleDeveloper:
		m.role = role
	default:
		return errForm
	}
	if content.Kind() == jsonscan.KindArray {
		if err := m.readParts(content, "input_text"); err != nil {
			return err
		}
	} else {
		s, ok := content.Str()
		if !ok {
			return errForm
		}
		m.setText(s)
	}
	if status != "" {
		if content.Kind() == jsonscan.KindString {
			return errForm // a shape that the engine's models don't have
		}
		q.resume = status != "completed"
	}
	if role == roleAssistant {
		q.say(m.text, first)
		return nil
	}
	for _, key := range [...]string{"tools", "task", "phase"} {
		if v.Get(key).Exists() {
			return errForm
		}
	}
	var ok bool
	if m.name, ok = optional(v.Get("name")); !ok {
		return errForm
	}
	q.messages = append(q.messages, m)
	return nil
}

// outputMessage reads what the assistant said before, in the form in which the
// API returned it. Only the first part counts.
func (q *query) outputMessage(v jsonscan.Value, kind, status string, first int) error {
	id := v.Get("id")
	if kind != "message" || id.Kind() != jsonscan.KindNone && id.Kind() != jsonscan.KindString {
		return errForm
	}
	text, parts := "", 0
	for it := v.Get("content").Iter(); it.Next(); {
		p := it.Value()
		s, ok := p.Get("text").Str()
		if !ok || !p.Get("type").Is("output_text") || !p.Get("annotations").Empty() || p.Get("logprobs").Exists() {
			return errForm
		}
		if parts == 0 {
			text = s
		}
		parts++
	}
	if parts == 0 || v.Get("phase").Exists() {
		return errForm
	}
	q.resume = status == "in_progress" || status == "incomplete"
	q.say(text, first)
	return nil
}

// say adds the assistant's text to its message before, or as a new one.
func (q *query) say(text string, first int) {
	if m := q.assistant(first); m != nil && !m.plain {
		m.setText(text)
		return
	}
	m := message{role: roleAssistant}
	m.setText(text)
	q.messages = append(q.messages, m)
}
