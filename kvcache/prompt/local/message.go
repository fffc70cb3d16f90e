package local

import (
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// The reasons why a request is passed on.
const (
	errPlaceholder prompt.ReasonError = "placeholders of the model's media are not known"
	errMedia       prompt.ReasonError = "multimodal parts"
	errForm        prompt.ReasonError = "a message of an unusual form"
	errField       prompt.ReasonError = "a field of an unusual form"
	errTools       prompt.ReasonError = "tools of an unusual form"
	errTemplate    prompt.ReasonError = "chat template in the request"
	errNoTemplate  prompt.ReasonError = "model has no chat template"
	errReserved    prompt.ReasonError = "a template argument that the engine uses itself"
	errReused      prompt.ReasonError = "token ids of a prefill stage"
	errStateful    prompt.ReasonError = "prompt depends on state in an engine"
	errEmbeds      prompt.ReasonError = "prompt embeddings"
	errSuffix      prompt.ReasonError = "completion with a suffix"
	errTruncation  prompt.ReasonError = "truncated prompt"
	errRaised      prompt.ReasonError = "chat template refused the request"
	errRender      prompt.ReasonError = "chat template failed on the request"
	errLimit       prompt.ReasonError = "chat template exceeded a limit"
	errContinue    prompt.ReasonError = "final message can't be continued"
	errText        prompt.ReasonError = "prompt is not valid Unicode"
	errTokenize    prompt.ReasonError = "tokenizer failed on the prompt"
	errAPI         prompt.ReasonError = "endpoint is not served locally"
	errSGLang      prompt.ReasonError = "SGLang's conversion of messages is not reproduced"
	errEmpty       prompt.ReasonError = "empty prompt"
)

const (
	roleSystem    = "system"
	roleDeveloper = "developer"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleFunction  = "function"
)

// message is one turn of a conversation as vLLM keeps it, whatever API it came by.
type message struct {
	role string
	// parts are the content; text alone when plain.
	parts []part
	plain bool
	text  string

	toolCalls  []jinja.Value // function calls, in the shape that templates see
	reasoning  *string
	name, task *string
	callID     jinja.Value // nil when absent
	merged     bool        // of several system messages: text is the content as it is
}

// part is a piece of content.
type part struct {
	text string
	// medium: it is no text.
	medium medium
	// reference: the text names a tool that the template expands.
	reference bool
	extra     []extraField // shown to templates that take parts
}

type extraField struct {
	key   string
	value jsonscan.Value
}

// setText makes the content a string.
func (m *message) setText(s string) { m.plain, m.text, m.parts = true, s, nil }

const billingHeader = "x-anthropic-billing-header"

// stripBilling drops the line that Claude Code puts first and that differs each
// time; the engine does so in every system message.
func (m *message) stripBilling() {
	if m.plain {
		if strings.HasPrefix(m.text, billingHeader) {
			_, m.text, _ = strings.Cut(m.text, "\n")
			if m.text == "" {
				m.plain, m.parts = false, nil
			}
		}
		return
	}
	kept := m.parts[:0:0]
	for _, p := range m.parts {
		if !p.reference && strings.HasPrefix(p.text, billingHeader) {
			if _, p.text, _ = strings.Cut(p.text, "\n"); p.text == "" {
				continue
			}
		}
		kept = append(kept, p)
	}
	m.parts = kept
}

// joined is the content for templates that take strings.
func (m *message) joined() string {
	if m.plain {
		return m.text
	}
	if len(m.parts) == 1 {
		return m.parts[0].text
	}
	texts := make([]string, 0, len(m.parts))
	for _, p := range m.parts {
		if p.text != "" {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}

// list is the content for templates that take parts. The error is of the extra
// fields.
func (m *message) list() (*jinja.List, error) {
	if m.plain {
		return jinja.NewList(textPart(m.text, 0)), nil
	}
	items := make([]jinja.Value, 0, len(m.parts))
	for _, p := range m.parts {
		if p.reference {
			d := jinja.NewDict(2)
			d.Set("type", jinja.String("tool_reference"))
			d.Set("name", jinja.String(p.text))
			items = append(items, d)
			continue
		}
		d := p.dict()
		for _, x := range p.extra {
			v, err := jinja.FromJSON(x.value.Raw())
			if err != nil {
				return nil, errForm
			}
			d.Set(x.key, v)
		}
		items = append(items, d)
	}
	return jinja.NewList(items...), nil
}

func (p *part) dict() *jinja.Dict {
	if p.medium == noMedium {
		return textPart(p.text, len(p.extra))
	}
	d := jinja.NewDict(1 + len(p.extra))
	d.Set("type", jinja.String(p.medium.String()))
	return d
}

func textPart(text string, more int) *jinja.Dict {
	d := jinja.NewDict(2 + more)
	d.Set("type", jinja.String("text"))
	d.Set("text", jinja.String(text))
	return d
}

// toolContent is a tool's result: a string for templates of both kinds, unless it
// refers to tools or has media.
func (m *message) toolContent() (jinja.Value, error) {
	if m.plain {
		return jinja.String(m.text), nil
	}
	texts := make([]string, 0, len(m.parts))
	for _, p := range m.parts {
		if p.reference || p.medium != noMedium {
			return m.list()
		}
		texts = append(texts, p.text)
	}
	return jinja.String(strings.Join(texts, "\n")), nil
}

func (m *message) content(parts bool) (jinja.Value, error) {
	switch {
	case !parts:
		return jinja.String(m.joined()), nil
	case m.role == roleTool:
		return m.toolContent()
	default:
		return m.list()
	}
}

const messageFields = 6

// dict is the message as templates see it, its keys in the engine's order.
func (m *message) dict(t *chatTemplate) (*jinja.Dict, error) {
	d := jinja.NewDict(messageFields)
	d.Set("role", jinja.String(m.role))
	content, err := m.content(t.parts)
	if err != nil {
		return nil, err
	}
	d.Set("content", content)
	switch m.role {
	case roleAssistant:
		if len(m.toolCalls) > 0 {
			d.Set("tool_calls", jinja.NewList(m.toolCalls...))
		}
		if m.reasoning != nil {
			d.Set("reasoning", jinja.String(*m.reasoning))
			d.Set("reasoning_content", jinja.String(*m.reasoning))
		}
	case roleTool:
		if m.callID != nil {
			d.Set("tool_call_id", m.callID)
		}
	default:
	}
	if m.name != nil {
		d.Set("name", jinja.String(*m.name))
	}
	if m.task != nil {
		d.Set("task", jinja.String(*m.task))
	}
	if m.role == roleDeveloper {
		d.Set("tools", jinja.None{})
	}
	return d, nil
}

// conversation makes what templates see of messages.
func conversation(messages []message, t *chatTemplate) (*jinja.List, error) {
	developer := false
	for i := range messages {
		switch messages[i].role {
		case roleSystem:
			messages[i].stripBilling()
		case roleDeveloper:
			developer = true
		default:
		}
	}
	if developer && !t.developer {
		messages = withoutDeveloper(messages, t.parts)
	}
	items := make([]jinja.Value, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		d, err := m.dict(t)
		if err != nil {
			return nil, err
		}
		if m.merged {
			d.Set("content", jinja.String(m.text))
		}
		items = append(items, d)
	}
	return jinja.NewList(items...), nil
}

// withoutDeveloper makes system messages of a developer's, for templates that
// don't know the role, and puts all system messages first when one of them is
// not: the template would refuse them.
func withoutDeveloper(messages []message, parts bool) []message {
	out := make([]message, 0, len(messages)+1)
	out = append(out, message{})
	var system []string
	several := false
	for i, m := range messages {
		if m.role == roleDeveloper {
			m.role = roleSystem
			messages[i].role = roleSystem
		}
		if m.role != roleSystem {
			out = append(out, m)
			continue
		}
		several = several || i > 0 || len(system) > 0
		if text := m.merge(parts); text != "" {
			system = append(system, text)
		}
	}
	if !several {
		return messages
	}
	out[0] = message{role: roleSystem, merged: true, text: strings.Join(system, "\n\n")}
	return out
}

// merge is a system message's text when it is merged with others.
func (m *message) merge(parts bool) string {
	if !parts || m.plain {
		return m.joined()
	}
	var texts []string
	for _, p := range m.parts {
		if !p.reference && p.medium == noMedium {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}
