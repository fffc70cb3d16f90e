package dialect

import (
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func (d *chatReader) messages(v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindArray {
		return &BodyError{Field: "messages", Reason: "must be an array"}
	}
	d.hasMessages, d.turns = true, false
	d.r.System, d.r.Messages = nil, nil
	i := 0
	for it := v.Iter(); it.Next(); i++ {
		if err := d.message(at("messages", i), it.Value()); err != nil {
			return err
		}
	}
	return nil
}

func (d *chatReader) message(path string, v jsonscan.Value) error {
	role, err := textOf(path+".role", v.Get("role"))
	if err != nil {
		return err
	}
	m := Message{}
	switch role {
	case "system", "developer":
		if m.Parts, err = d.content(path, v, textsOnly); err != nil {
			return err
		}
		d.others(path, v, "name")
		if !d.turns {
			d.r.System = append(d.r.System, m.Parts...)
			return nil
		}
		m.Role = System
	case "user":
		m.Parts, err = d.content(path, v, anyParts)
		m.Name, _ = v.Get("name").Str()
		d.others(path, v, "")
	case "assistant":
		m.Role = Assistant
		err = d.assistant(&m, path, v)
	case "tool", "function":
		err = d.result(&m, path, v, role == "function")
	default:
		return &BodyError{Field: path + ".role", Reason: "must be system, developer, user, assistant, tool or function"}
	}
	if err != nil {
		return err
	}
	d.turns = true
	d.r.Messages = append(d.r.Messages, m)
	return nil
}

// others warns of a message's members that nobody knows. more is one that has no place, either.
func (d *chatReader) others(path string, v jsonscan.Value, more string) {
	for it := v.Iter(); it.Next(); {
		switch key := string(it.Key()); key {
		case "role", "content", "name", "tool_calls", "function_call", "tool_call_id", "refusal",
			"reasoning", "reasoning_content", "thinking_blocks", "audio":
			if key == more {
				d.unknown(path+"."+key, it.Value())
			}
		default:
			d.unknown(path+"."+key, it.Value())
		}
	}
}

// Which parts a content may have.
type partSet uint8

const (
	textsOnly partSet = iota
	textsAndRefusals
	anyParts
)

// content reads a message's content: a string, or a list of parts.
func (d *chatReader) content(path string, msg jsonscan.Value, set partSet) ([]Part, error) {
	v, path := msg.Get("content"), path+".content"
	switch v.Kind() {
	case jsonscan.KindString:
		text, _ := v.Str()
		return []Part{{Kind: Text, Text: text}}, nil
	case jsonscan.KindArray:
	default:
		return nil, &BodyError{Field: path, Reason: "must be a string or an array of parts"}
	}
	parts := make([]Part, 0, v.Len())
	for it := v.Iter(); it.Next(); {
		p, err := d.part(at(path, len(parts)), it.Value(), set)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (d *chatReader) part(path string, v jsonscan.Value, set partSet) (p Part, err error) {
	kind, err := textOf(path+".type", v.Get("type"))
	if err != nil {
		return p, err
	}
	switch {
	case kind == "text":
		p.Text, err = textOf(path+".text", v.Get("text"))
	case kind == "refusal" && set == textsAndRefusals:
		p.Kind = Refusal
		p.Text, err = textOf(path+".refusal", v.Get("refusal"))
	case kind == "image_url" && set == anyParts:
		err = d.image(&p, path+".image_url", v.Get("image_url"))
	case kind == "input_audio" && set == anyParts:
		err = d.audio(&p, path+".input_audio", v.Get("input_audio"))
	case kind == "file" && set == anyParts:
		err = d.file(&p, path+".file", v.Get("file"))
	case set == anyParts:
		err = &UnsupportedError{Field: path + ".type", Reason: "no other API has parts of this type"}
	default:
		err = &BodyError{Field: path + ".type", Reason: "is not a type of part that a message of this role may have"}
	}
	if c := v.Get("cache_control"); c.Exists() { // services that front Anthropic's models take it
		p.Cache = c.Raw()
	}
	for it := v.Iter(); it.Next(); {
		switch key := string(it.Key()); key {
		case "type", "cache_control", kind:
		default:
			d.unknown(path+"."+key, it.Value())
		}
	}
	return p, err
}

func (d *chatReader) image(p *Part, path string, v jsonscan.Value) (err error) {
	p.Kind = Image
	url, detail := v.Get("url"), v.Get("detail")
	if v.Kind() == jsonscan.KindString { // older clients
		url = v
	}
	where, err := textOf(path+".url", url)
	if err != nil {
		return err
	}
	if p.Media, err = mediaAt(path+".url", where); err != nil {
		return err
	}
	p.Media.Detail, _ = detail.Str()
	return nil
}

func (d *chatReader) audio(p *Part, path string, v jsonscan.Value) (err error) {
	p.Kind = Audio
	if p.Media.Data, err = textOf(path+".data", v.Get("data")); err != nil {
		return err
	}
	format, err := textOf(path+".format", v.Get("format"))
	p.Media.Type = "audio/" + format
	return err
}

func (d *chatReader) file(p *Part, path string, v jsonscan.Value) (err error) {
	p.Kind = Document
	if v.Get("file_id").Exists() {
		return &UnsupportedError{Field: path + ".file_id", Reason: "the file lies with another service; send its content in file_data"}
	}
	data, err := textOf(path+".file_data", v.Get("file_data"))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(data, "data:") { // bare base64: PDFs are what the API was made for
		p.Media = Media{Type: "application/pdf", Data: data}
	} else if p.Media, err = mediaAt(path+".file_data", data); err != nil {
		return err
	}
	p.Name, _ = v.Get("filename").Str()
	return nil
}

func (d *chatReader) assistant(m *Message, path string, v jsonscan.Value) error {
	m.Name, _ = v.Get("name").Str()
	m.Parts = chatThoughts(v)
	if v.Get("content").Exists() {
		parts, err := d.content(path, v, textsAndRefusals)
		if err != nil {
			return err
		}
		m.Parts = append(m.Parts, parts...)
	}
	if s, ok := v.Get("refusal").Str(); ok && s != "" {
		m.Parts = append(m.Parts, Part{Kind: Refusal, Text: s})
	}
	if v.Get("audio").Exists() {
		return &UnsupportedError{Field: path + ".audio", Reason: "earlier audio is kept by one service"}
	}
	if err := d.callList(m, path+".tool_calls", v.Get("tool_calls")); err != nil {
		return err
	}
	if fn := v.Get("function_call"); fn.Exists() {
		d.calls++
		if err := d.arguments(m, legacyID(d.calls), path+".function_call", fn); err != nil {
			return err
		}
	}
	d.others(path, v, "")
	return nil
}

func (d *chatReader) callList(m *Message, path string, v jsonscan.Value) error {
	if v.Exists() && v.Kind() != jsonscan.KindArray {
		return &BodyError{Field: path, Reason: "must be an array"}
	}
	i := 0
	for it := v.Iter(); it.Next(); i++ {
		if err := d.call(m, at(path, i), it.Value()); err != nil {
			return err
		}
	}
	return nil
}

func (d *chatReader) call(m *Message, path string, v jsonscan.Value) error {
	if t := v.Get("type"); t.Exists() && !t.Is("function") {
		return &UnsupportedError{Field: path + ".type", Reason: "only calls of functions are known elsewhere"}
	}
	id, err := textOf(path+".id", v.Get("id"))
	if err != nil {
		return err
	}
	if err := d.arguments(m, id, path+".function", v.Get("function")); err != nil {
		return err
	}
	m.Parts[len(m.Parts)-1].Signature = callSignature(v)
	return nil
}

func (d *chatReader) arguments(m *Message, id, path string, fn jsonscan.Value) error {
	p := Part{Kind: ToolCall, ID: id}
	var err error
	if p.Name, err = textOf(path+".name", fn.Get("name")); err != nil {
		return err
	}
	if v := fn.Get("arguments"); v.Exists() {
		if p.Text, err = textOf(path+".arguments", v); err != nil {
			return err
		}
	}
	m.Parts = append(m.Parts, p)
	return nil
}

// legacyID stands for the id that calls of functions had not yet: an answer belongs to the
// call before it.
func legacyID(n int) string { return "call_" + strconv.Itoa(n) }

func (d *chatReader) result(m *Message, path string, v jsonscan.Value, legacy bool) (err error) {
	p := Part{Kind: ToolResult, ID: legacyID(d.calls)}
	if !legacy {
		if p.ID, err = textOf(path+".tool_call_id", v.Get("tool_call_id")); err != nil {
			return err
		}
	}
	if v.Get("content").Exists() || !legacy {
		if p.Parts, err = d.content(path, v, textsOnly); err != nil {
			return err
		}
	}
	d.others(path, v, "")
	m.Parts = []Part{p}
	return nil
}

// chatThoughts reads the reasoning of an assistant's message. OpenAI shows none; engines call
// it reasoning or reasoning_content, and gateways to Anthropic's models add thinking_blocks,
// which have the signatures.
func chatThoughts(v jsonscan.Value) (parts []Part) {
	for it := v.Get("thinking_blocks").Iter(); it.Next(); {
		b := it.Value()
		p := Part{Kind: Reasoning}
		p.Text, _ = b.Get("thinking").Str()
		p.Signature, _ = b.Get("signature").Str()
		p.Redacted, _ = b.Get("data").Str()
		parts = append(parts, p)
	}
	if len(parts) > 0 {
		return parts
	}
	for _, name := range [...]string{"reasoning_content", "reasoning"} {
		if s, ok := v.Get(name).Str(); ok && s != "" {
			return []Part{{Kind: Reasoning, Text: s}}
		}
	}
	return nil
}
