package local

import (
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// query is a request read: what is to be rendered and tokenized.
type query struct {
	messages []message
	tools    *jinja.List // nil for none
	// toolsOff: the request has tools that it wants not to be used.
	toolsOff bool
	// user are the request's own template arguments; nil for none.
	user      *jinja.Dict
	documents jinja.Value // nil for none
	effort    string      // "" for none
	// tuned: there are options for the processing of media.
	tuned bool

	generate, resume bool // add_generation_prompt, continue_final_message
	special          bool // add_special_tokens
	cut              cut
	// scope is the request's cache salt.
	scope string
}

// chatQuery reads a chat completions request.
func chatQuery(o jsonscan.Object) (*query, error) {
	q := &query{generate: true}
	if err := q.common(o); err != nil {
		return nil, err
	}
	if o.Value("chat_template").Exists() {
		return nil, errTemplate
	}
	for _, f := range [...]struct {
		key string
		to  *bool
	}{
		{"add_generation_prompt", &q.generate},
		{"continue_final_message", &q.resume},
		{"add_special_tokens", &q.special},
	} {
		v, present := o.Get(f.key)
		if !present {
			continue
		}
		b, ok := v.Bool()
		if !ok {
			return nil, errField
		}
		*f.to = b
	}
	var err error
	if q.effort, err = effortOf(o.Value("reasoning_effort")); err != nil {
		return nil, err
	}
	if q.documents, err = documentsOf(o.Value("documents")); err != nil {
		return nil, err
	}
	if q.tools, err = chatTools(o.Value("tools")); err != nil {
		return nil, err
	}
	q.toolsOff = o.Value("tool_choice").Is("none")
	if q.cut, err = cutOf(o); err != nil {
		return nil, err
	}
	if q.cut.any && q.cut.to < 0 {
		q.cut.reserve(o, "max_completion_tokens", "max_tokens")
	}
	q.messages, err = chatMessages(o.Value("messages"))
	return q, err
}

// common reads what several APIs have.
func (q *query) common(o jsonscan.Object) error {
	if o.Value("kv_transfer_params").Get("prompt_token_ids").Exists() {
		return errReused
	}
	for _, key := range [...]string{"mm_processor_kwargs", "media_io_kwargs"} {
		q.tuned = q.tuned || !o.Value(key).Empty()
	}
	kwargs := o.Value("chat_template_kwargs")
	if !kwargs.Exists() {
		return nil
	}
	if kwargs.Kind() != jsonscan.KindObject {
		return errField
	}
	v, err := jinja.FromJSON(kwargs.Raw())
	if err != nil {
		return errField
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return errField
	}
	if t, found := d.Get("chat_template"); found && t != (jinja.None{}) {
		return errTemplate
	}
	if reserved(d) != "" {
		return errReserved
	}
	q.user = d
	return nil
}

func effortOf(v jsonscan.Value) (string, error) {
	if !v.Exists() {
		return "", nil
	}
	s, _ := v.Str()
	switch s {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		return s, nil
	default:
		return "", errField
	}
}

// documentsOf reads documents: objects of strings.
func documentsOf(v jsonscan.Value) (jinja.Value, error) {
	if !v.Exists() {
		return nil, nil //nolint:nilnil // absent, which is not an empty list
	}
	if v.Kind() != jsonscan.KindArray {
		return nil, errField
	}
	for it := v.Iter(); it.Next(); {
		if it.Value().Kind() != jsonscan.KindObject {
			return nil, errField
		}
		for field := it.Value().Iter(); field.Next(); {
			if field.Value().Kind() != jsonscan.KindString {
				return nil, errField
			}
		}
	}
	d, err := jinja.FromJSON(v.Raw())
	if err != nil {
		return nil, errField
	}
	return d, nil
}

func chatMessages(v jsonscan.Value) ([]message, error) {
	if v.Kind() != jsonscan.KindArray {
		return nil, errForm
	}
	out := make([]message, 0, len(v.Raw())/bytesPerMessage+1)
	for it := v.Iter(); it.Next(); {
		m, err := chatMessage(it.Value())
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, errEmpty
	}
	return out, nil
}

// bytesPerMessage is a guess at how much of a body one message takes.
const bytesPerMessage = 512

// chatMessage reads one message as the engine's models resolve it. Shapes that
// they refuse, or resolve by which of their variants matches best, are not read.
func chatMessage(v jsonscan.Value) (message, error) {
	var m message
	if v.Kind() != jsonscan.KindObject {
		return m, errForm
	}
	var role, content, calls, callID, reasoning, older, name, task, tools jsonscan.Value
	for it := v.Iter(); it.Next(); {
		switch string(it.Key()) {
		case "role":
			role = it.Value()
		case "content":
			content = it.Value()
		case "tool_calls":
			calls = it.Value()
		case "tool_call_id":
			callID = it.Value()
		case "reasoning":
			reasoning = it.Value()
		case "reasoning_content":
			older = it.Value()
		case "name":
			name = it.Value()
		case "task":
			task = it.Value()
		case "tools":
			tools = it.Value()
		default:
		}
	}
	var ok bool
	if m.role, ok = role.Str(); !ok || tools.Exists() {
		return m, errForm
	}
	if err := m.readContent(content); err != nil {
		return m, err
	}
	if m.name, ok = optional(name); !ok {
		return m, errForm
	}
	if m.task, ok = optional(task); !ok {
		return m, errForm
	}
	if !reasoning.Exists() {
		reasoning = older
	}
	var err error
	switch {
	case m.role == roleAssistant:
		err = m.readAssistant(calls, reasoning)
	case calls.Exists():
		err = errForm
	case m.role == roleTool:
		err = m.readCallID(callID)
	default:
	}
	return m, err
}

// optional reads a string that may be absent, but not null.
func optional(v jsonscan.Value) (*string, bool) {
	if v.Kind() == jsonscan.KindNone {
		return nil, true
	}
	s, ok := v.Str()
	return &s, ok
}

func (m *message) readAssistant(calls, reasoning jsonscan.Value) error {
	if reasoning.Exists() {
		s, ok := reasoning.Str()
		if !ok {
			return errForm
		}
		m.reasoning = &s
	}
	if !calls.Exists() {
		return nil
	}
	if calls.Kind() != jsonscan.KindArray {
		return errForm
	}
	var err error
	m.toolCalls, err = chatToolCalls(calls)
	return err
}

func (m *message) readCallID(v jsonscan.Value) error {
	switch v.Kind() {
	case jsonscan.KindNone:
	case jsonscan.KindNull:
		m.callID = jinja.None{}
	case jsonscan.KindString:
		s, _ := v.Str()
		m.callID = jinja.String(s)
	default:
		return errForm
	}
	return nil
}

// readContent reads a message's content: a string, parts, or nothing.
func (m *message) readContent(v jsonscan.Value) error {
	switch v.Kind() {
	case jsonscan.KindString:
		s, _ := v.Str()
		m.setText(s)
		return nil
	case jsonscan.KindArray:
		return m.readParts(v, "text")
	case jsonscan.KindNone:
		return nil
	case jsonscan.KindNull:
		if m.role == roleAssistant || m.role == roleFunction {
			return nil
		}
		return errForm
	default:
		return errForm
	}
}

// readParts reads a list of parts; textType is what the API calls a part of text.
func (m *message) readParts(v jsonscan.Value, textType string) error {
	m.parts = make([]part, 0, v.Len())
	for it := v.Iter(); it.Next(); {
		p, err := readPart(it.Value(), textType)
		if err != nil {
			return err
		}
		m.parts = append(m.parts, p)
	}
	return nil
}

func readPart(v jsonscan.Value, textType string) (part, error) {
	if v.Kind() != jsonscan.KindObject {
		return part{}, errForm
	}
	var kind, text, refusal, thinking, name, payload jsonscan.Value
	var p part
	var held string // the key of payload
	for it := v.Iter(); it.Next(); {
		switch key := string(it.Key()); key {
		case "type":
			kind = it.Value()
		case "text":
			text = it.Value()
		case "refusal":
			refusal = it.Value()
		case "thinking":
			thinking = it.Value()
		case "name":
			name = it.Value()
		case "closed":
		case "uuid", "prompt_cache_breakpoint":
			return p, errForm
		case "image_url", "audio_url", "input_audio", "video_url":
			if held != "" {
				return p, errMedia
			}
			held, payload = key, it.Value()
		case "input_image", "image_pil", "image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "file", "data",
			"tool_reference":
			return p, errMedia
		default:
			p.extra = append(p.extra, extraField{key, it.Value()})
		}
	}
	of := text
	t, _ := kind.Str()
	if held != "" {
		if text.Kind()|refusal.Kind()|thinking.Kind()|name.Kind() != jsonscan.KindNone {
			return p, errMedia
		}
		err := p.readMedium(t, held, payload, textType)
		return p, err
	}
	switch t {
	case textType:
	case "refusal":
		of = refusal
	case "thinking":
		of = thinking
	case "tool_reference":
		of, p.reference, p.extra = name, true, nil
	case "text", "input_text", "output_text", "":
		return p, errForm // of another API, or untyped
	default:
		return p, errMedia
	}
	var ok bool
	if p.text, ok = of.Str(); !ok {
		return p, errForm
	}
	return p, nil
}

// readMedium reads a part that is no text: its type, the field that has the content,
// and that. Whether the engine can fetch and decode it is not known.
func (p *part) readMedium(kind, key string, content jsonscan.Value, textType string) error {
	inner := "url"
	switch {
	case textType == "input_text": // of the responses API
		if kind != "input_image" || key != "image_url" || content.Kind() != jsonscan.KindString {
			return errMedia
		}
		p.medium = image
		return nil
	case kind != key:
		return errMedia
	case key == "image_url":
		p.medium = image
	case key == "video_url":
		p.medium = video
	case key == "input_audio":
		p.medium, inner = audio, "data"
	default:
		p.medium = audio
	}
	if content.Kind() != jsonscan.KindObject || content.Get(inner).Kind() != jsonscan.KindString {
		return errMedia
	}
	return nil
}
