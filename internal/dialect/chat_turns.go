package dialect

import (
	"encoding/base64"
	"strconv"
	"strings"
)

func (e *chatWriter) messages(r *Request) error {
	e.w.key("messages").open('[')
	if len(r.System) > 0 {
		if err := e.plain("system", r.System, "system"); err != nil {
			return err
		}
	}
	turns, first := joinTurns(r.Messages)
	for i := range turns {
		m, path := &turns[i], at("messages", first[i])
		var err error
		switch m.Role {
		case System:
			err = e.plain("system", m.Parts, path)
		case Assistant:
			if i == len(turns)-1 && saysSomething(m.Parts) {
				return &UnsupportedError{
					Field: path, Service: chatName,
					Reason: "it begins a new answer and can't go on with one that was begun",
				}
			}
			err = e.assistant(m, path)
		case User:
			err = e.user(m, path)
		}
		if err != nil {
			return err
		}
	}
	e.w.end(']')
	return nil
}

func saysSomething(parts []Part) bool {
	for i := range parts {
		if parts[i].Kind == Text && strings.TrimSpace(parts[i].Text) != "" {
			return true
		}
	}
	return false
}

// plain writes a message that has nothing but its content.
func (e *chatWriter) plain(role string, parts []Part, path string) error {
	e.w.open('{')
	e.w.key("role").str(role)
	err := e.content(parts, path)
	e.w.end('}')
	return err
}

// content writes one text as a string, and else a list of parts.
func (e *chatWriter) content(parts []Part, path string) error {
	w := e.w.key("content")
	if len(parts) == 0 {
		w.str("")
		return nil
	}
	if len(parts) == 1 && parts[0].Kind == Text {
		w.str(parts[0].Text)
		e.cache(at(path, 0), parts[0].Cache)
		return nil
	}
	w.open('[')
	for i := range parts {
		e.cache(at(path, i), parts[i].Cache)
		if err := e.part(&parts[i], at(path, i)); err != nil {
			return err
		}
	}
	w.end(']')
	return nil
}

func (e *chatWriter) part(p *Part, path string) error {
	w := &e.w
	switch p.Kind {
	case Text:
		e.text(p.Text)
	case Image:
		w.open('{')
		w.key("type").str("image_url")
		w.key("image_url").open('{')
		w.key("url").str(mediaURL(&p.Media))
		if p.Media.Detail != "" {
			w.key("detail").str(p.Media.Detail)
		}
		w.end('}')
		w.end('}')
	case Audio:
		w.open('{')
		w.key("type").str("input_audio")
		w.key("input_audio").open('{')
		w.key("data").str(p.Media.Data)
		w.key("format").str(strings.TrimPrefix(p.Media.Type, "audio/"))
		w.end('}')
		w.end('}')
	case Document:
		return e.document(p, path)
	case ToolCall, ToolResult, Reasoning, Refusal:
		return &UnsupportedError{Field: path, Service: chatName, Reason: "a turn of this role can't have such a part"}
	}
	return nil
}

func (e *chatWriter) text(s string) {
	e.w.open('{')
	e.w.key("type").str("text")
	e.w.key("text").str(s)
	e.w.end('}')
}

// mediaURL is where content is, or a URL that holds it.
func mediaURL(m *Media) string {
	if m.URL != "" {
		return m.URL
	}
	return "data:" + m.Type + ";base64," + m.Data
}

// document writes a file. Services of this API read PDFs; a text is as good as a part.
func (e *chatWriter) document(p *Part, path string) error {
	if p.Media.URL != "" {
		return &UnsupportedError{Field: path, Service: chatName, Reason: "it fetches no documents; send the content itself"}
	}
	if strings.HasPrefix(p.Media.Type, "text/") {
		text, err := base64.StdEncoding.DecodeString(p.Media.Data)
		if err != nil {
			return &BodyError{Field: path, Reason: "is not base64"}
		}
		e.text(string(text))
		return nil
	}
	name := p.Name
	if name == "" {
		name = "document.pdf" // the API wants one
	}
	w := &e.w
	w.open('{')
	w.key("type").str("file")
	w.key("file").open('{')
	w.key("filename").str(name)
	w.key("file_data").str(mediaURL(&p.Media))
	w.end('}')
	w.end('}')
	return nil
}

// user writes results of tools as messages of their own, which must follow the calls at
// once, and the rest of the turn after them.
func (e *chatWriter) user(m *Message, path string) error {
	rest := make([]Part, 0, len(m.Parts))
	var seen []Part // what tools showed: a tool's message has room for text only
	results := 0
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != ToolResult {
			rest = append(rest, *p)
			continue
		}
		results++
		where := at(path+".content", i)
		e.cache(where, p.Cache)
		if p.Failed {
			e.warn(where+".is_error", "the service learns it from the text only")
		}
		texts := make([]Part, 0, len(p.Parts))
		for j := range p.Parts {
			if p.Parts[j].Kind == Text {
				texts = append(texts, p.Parts[j])
				continue
			}
			seen = append(seen, p.Parts[j])
			e.warn(at(where+".content", j), "it is sent in a turn of the user after the tools' results")
		}
		e.w.open('{')
		e.w.key("role").str("tool")
		e.w.key("tool_call_id").str(p.ID)
		if err := e.content(texts, where+".content"); err != nil {
			return err
		}
		e.w.end('}')
	}
	rest = append(seen, rest...)
	if len(rest) == 0 && results > 0 {
		return nil
	}
	e.w.open('{')
	e.w.key("role").str("user")
	if m.Name != "" {
		e.w.key("name").str(m.Name)
	}
	err := e.content(rest, path+".content")
	e.w.end('}')
	return err
}

// assistant writes an earlier answer.
func (e *chatWriter) assistant(m *Message, path string) error {
	w := &e.w
	w.open('{')
	w.key("role").str("assistant")
	if m.Name != "" {
		w.key("name").str(m.Name)
	}
	var texts []Part
	var refusal strings.Builder
	calls := 0
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case Text:
			texts = append(texts, *p)
		case Refusal:
			refusal.WriteString(p.Text)
		case Reasoning:
			e.warn(at(path+".content", i), "the service takes no reasoning of earlier turns")
		case ToolCall:
			calls++
		case Image, Document, Audio, ToolResult:
			return &UnsupportedError{
				Field: at(path+".content", i), Service: chatName, Reason: "an answer can't have such a part",
			}
		}
	}
	if len(texts) > 0 || calls == 0 && refusal.Len() == 0 {
		if err := e.content(texts, path+".content"); err != nil {
			return err
		}
	} else {
		w.key("content").raw("null")
	}
	if refusal.Len() > 0 {
		w.key("refusal").str(refusal.String())
	}
	if calls > 0 {
		w.key("tool_calls").open('[')
		calls = 0
		for i, p := range m.Parts { // copies: the signature may differ
			if p.Kind == ToolCall {
				p.Signature = e.signature(&p, calls, at(path+".content", i))
				chatWriteCall(w, &p, i)
				calls++
			}
		}
		w.end(']')
	}
	w.end('}')
	return nil
}

// chatWriteCall writes the i-th part, a call, as requests and answers have it.
func chatWriteCall(w *jsonWriter, p *Part, i int) {
	id, args := p.ID, p.Text
	if id == "" {
		id = "call_" + strconv.Itoa(i)
	}
	if args == "" {
		args = "{}"
	}
	w.open('{')
	w.key("id").str(id)
	w.key("type").str("function")
	w.key("function").open('{')
	w.key("name").str(p.Name)
	w.key("arguments").str(args)
	w.end('}')
	chatWriteSignature(w, p.Signature)
	w.end('}')
}

// chatWriteSignature writes that of a call, where Gemini has it.
func chatWriteSignature(w *jsonWriter, signature string) {
	if signature != "" {
		w.key("extra_content").open('{')
		w.key("google").open('{')
		w.key("thought_signature").str(signature)
		w.end('}')
		w.end('}')
	}
}
