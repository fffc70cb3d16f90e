package dialect

import (
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// The marks before reasoning that came through this codec: the service's signature, or
// reasoning that it shows to nobody.
const (
	markSignature = "kvsteer-signature:"
	markRedacted  = "kvsteer-redacted:"
)

func (d *responsesDecoder) input(v jsonscan.Value) error {
	switch v.Kind() {
	case jsonscan.KindString:
		s, _ := v.Str()
		d.r.Messages = append(d.r.Messages, Message{Role: User, Parts: []Part{{Kind: Text, Text: s}}})
		return nil
	case jsonscan.KindArray:
		i := 0
		for it := v.Iter(); it.Next(); i++ {
			if err := d.item("input["+strconv.Itoa(i)+"]", it.Value()); err != nil {
				return err
			}
		}
		return nil
	default:
		return &BodyError{Field: "input", Reason: "must be a string or a list of items"}
	}
}

// item takes one item of the input.
func (d *responsesDecoder) item(field string, v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindObject {
		return &BodyError{Field: field, Reason: "must be an object"}
	}
	kind := v.Get("type")
	switch {
	case !kind.Exists(), kind.Is("message"):
		return d.message(field, v)
	case kind.Is("function_call"):
		return d.call(field, v)
	case kind.Is("function_call_output"):
		return d.result(field, v)
	case kind.Is("reasoning"):
		return d.thought(field, v)
	case kind.Is("item_reference"):
		return responsesUnsupported(field, "what it refers to is kept by one service; send the item itself")
	default:
		return responsesUnsupported(field+".type", "items of this type belong to tools and state of OpenAI's own")
	}
}

// turn adds parts to the last message if it is of the role and still grows, else as a new
// one: a turn of the model's is several items here and one message elsewhere.
func (d *responsesDecoder) turn(role Role, grows bool, parts ...Part) {
	n := len(d.r.Messages)
	if n > 0 && d.grows && grows && d.r.Messages[n-1].Role == role {
		d.r.Messages[n-1].Parts = append(d.r.Messages[n-1].Parts, parts...)
		return
	}
	d.r.Messages = append(d.r.Messages, Message{Role: role, Parts: parts})
	d.grows = grows
}

func (d *responsesDecoder) message(field string, v jsonscan.Value) error {
	role := v.Get("role")
	content := v.Get("content")
	d.others(field, v, "type", "id", "status", "role", "content")
	switch {
	case role.Is("user"):
		parts, err := d.contents(field+".content", content)
		if err != nil {
			return err
		}
		d.turn(User, false, parts...)
	case role.Is("assistant"):
		parts, err := d.contents(field+".content", content)
		if err != nil {
			return err
		}
		d.turn(Assistant, true, parts...)
	case role.Is("system"), role.Is("developer"):
		parts, err := d.contents(field+".content", content)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if p.Kind != Text {
				return responsesUnsupported(field+".content", "instructions are texts")
			}
		}
		if len(d.r.Messages) == 0 {
			d.r.System = append(d.r.System, parts...)
		} else {
			d.turn(System, false, parts...)
		}
	default:
		return &BodyError{Field: field + ".role", Reason: "must be user, assistant, system or developer"}
	}
	return nil
}

// contents reads a string or a list of parts.
func (d *responsesDecoder) contents(field string, v jsonscan.Value) ([]Part, error) {
	switch v.Kind() {
	case jsonscan.KindString:
		s, _ := v.Str()
		return []Part{{Kind: Text, Text: s}}, nil
	case jsonscan.KindArray:
		parts := make([]Part, 0, v.Len())
		i := 0
		for it := v.Iter(); it.Next(); i++ {
			p, err := d.content(field+"["+strconv.Itoa(i)+"]", it.Value())
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		return parts, nil
	default:
		return nil, &BodyError{Field: field, Reason: "must be a string or a list of parts"}
	}
}

func (d *responsesDecoder) content(field string, v jsonscan.Value) (p Part, err error) {
	kind := v.Get("type")
	switch {
	case kind.Is("input_text"), kind.Is("output_text"):
		p.Kind = Text
		p.Text, err = textOf(field+".text", v.Get("text"))
		d.others(field, v, "type", "text", "logprobs", "prompt_cache_breakpoint")
	case kind.Is("refusal"):
		p.Kind = Refusal
		p.Text, err = textOf(field+".refusal", v.Get("refusal"))
	case kind.Is("input_image"):
		p.Kind = Image
		p.Media, err = responsesImage(field, v)
	case kind.Is("input_file"):
		p.Kind = Document
		p.Media, err = responsesFile(field, v)
		p.Name, _ = v.Get("filename").Str()
	case kind.Is("input_audio"):
		p.Kind = Audio
		p.Media, err = responsesAudio(field, v)
	default:
		return p, responsesUnsupported(field+".type", "there are input_text, output_text, refusal, input_image, input_file and input_audio")
	}
	if v.Get("prompt_cache_breakpoint").Exists() {
		p.Cache = []byte(`{"type":"ephemeral"}`)
	}
	return p, err
}

func responsesImage(field string, v jsonscan.Value) (m Media, err error) {
	if v.Get("file_id").Exists() {
		return m, responsesUnsupported(field+".file_id", "files are kept by one service; send the image itself")
	}
	at, err := textOf(field+".image_url", v.Get("image_url"))
	if err != nil {
		return m, err
	}
	if m, err = mediaAt(field+".image_url", at); err != nil {
		return m, err
	}
	m.Detail, _ = v.Get("detail").Str()
	return m, nil
}

func responsesFile(field string, v jsonscan.Value) (m Media, err error) {
	data, at := v.Get("file_data"), v.Get("file_url")
	switch {
	case v.Get("file_id").Exists():
		return m, responsesUnsupported(field+".file_id", "files are kept by one service; send the file itself")
	case data.Exists():
		text, err := textOf(field+".file_data", data)
		if err != nil {
			return m, err
		}
		if strings.HasPrefix(text, "data:") {
			return mediaAt(field+".file_data", text)
		}
		return Media{Data: text}, nil
	default:
		text, err := textOf(field+".file_url", at)
		if err != nil {
			return m, err
		}
		return mediaAt(field+".file_url", text)
	}
}

func responsesAudio(field string, v jsonscan.Value) (m Media, err error) {
	in := v.Get("input_audio")
	if m.Data, err = textOf(field+".input_audio.data", in.Get("data")); err != nil {
		return m, err
	}
	format, err := textOf(field+".input_audio.format", in.Get("format"))
	m.Type = "audio/" + format
	return m, err
}

// mediaAt is what a URL stands for; one with the scheme data holds the content itself.
func mediaAt(field, at string) (Media, error) {
	rest, ok := strings.CutPrefix(at, "data:")
	if !ok {
		return Media{URL: at}, nil
	}
	head, data, ok := strings.Cut(rest, ",")
	kind, is64 := strings.CutSuffix(head, ";base64")
	if !ok || !is64 {
		return Media{}, &BodyError{Field: field, Reason: "is a data URL, and such must be of the form data:TYPE;base64,DATA"}
	}
	kind, _, _ = strings.Cut(kind, ";") // parameters, such as charset
	return Media{Type: kind, Data: data}, nil
}

func (d *responsesDecoder) call(field string, v jsonscan.Value) (err error) {
	p := Part{Kind: ToolCall}
	d.others(field, v, "type", "id", "status", "call_id", "name", "arguments")
	if p.ID, err = textOf(field+".call_id", v.Get("call_id")); err != nil {
		return err
	}
	p.ID, p.Signature = unsealedID(p.ID)
	if p.Name, err = textOf(field+".name", v.Get("name")); err != nil {
		return err
	}
	if p.Text, err = textOf(field+".arguments", v.Get("arguments")); err != nil {
		return err
	}
	d.turn(Assistant, true, p)
	return nil
}

func (d *responsesDecoder) result(field string, v jsonscan.Value) (err error) {
	p := Part{Kind: ToolResult}
	d.others(field, v, "type", "id", "status", "call_id", "output")
	if p.ID, err = textOf(field+".call_id", v.Get("call_id")); err != nil {
		return err
	}
	p.ID, _ = unsealedID(p.ID)
	if p.Parts, err = d.contents(field+".output", v.Get("output")); err != nil {
		return err
	}
	d.turn(User, true, p)
	return nil
}

// thought takes an item of reasoning.
func (d *responsesDecoder) thought(field string, v jsonscan.Value) error {
	sealed, _ := v.Get("encrypted_content").Str()
	if redacted, ok := strings.CutPrefix(sealed, markRedacted); ok {
		d.turn(Assistant, true, Part{Kind: Reasoning, Redacted: redacted})
		return nil
	}
	signature, ours := strings.CutPrefix(sealed, markSignature)
	if sealed != "" && !ours {
		d.warn(field+".encrypted_content", "another service's reasoning can't be handed back")
		return nil
	}
	from, kind := v.Get("content"), "reasoning_text"
	if from.Empty() {
		from, kind = v.Get("summary"), "summary_text"
	}
	var text strings.Builder
	for it := from.Iter(); it.Next(); {
		if !it.Value().Get("type").Is(kind) {
			continue
		}
		s, _ := it.Value().Get("text").Str()
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		text.WriteString(s)
	}
	if text.Len() > 0 || signature != "" {
		d.turn(Assistant, true, Part{Kind: Reasoning, Text: text.String(), Signature: signature})
	}
	return nil
}
