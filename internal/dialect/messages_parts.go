package dialect

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// content writes parts: as a string where one text is all.
func (w *messagesWriter) content(field string, parts []Part) {
	if len(parts) == 1 && parts[0].Kind == Text && parts[0].Cache == nil {
		w.str(parts[0].Text)
		return
	}
	w.text(`[`)
	for i := range parts {
		w.comma(i == 0)
		w.part(field, &parts[i])
	}
	w.text(`]`)
}

func (w *messagesWriter) part(field string, p *Part) {
	switch p.Kind {
	case Text, Refusal:
		w.text(`{"type":"text","text":`)
		w.str(p.Text)
	case Image:
		w.image(field, p)
	case Document:
		w.document(field, p)
	case Audio:
		w.refuse(field, "the service takes no audio")
	case ToolCall:
		if p.Signature != "" {
			w.warnOnce(field, "a call's signature is for the service that made the call, and stays away")
		}
		w.text(`{"type":"tool_use","id":`)
		w.str(messagesID(p.ID))
		w.text(`,"name":`)
		w.str(p.Name)
		w.text(`,"input":`)
		var ok bool
		if w.b, ok = appendInput(w.b, p.Text); !ok {
			w.warnOnce(field, "arguments that are no JSON object were put into one")
		}
	case ToolResult:
		w.result(field, p)
	case Reasoning:
		w.thought(p)
	}
	if p.Cache != nil {
		w.text(`,"cache_control":`)
		w.raw(p.Cache)
	}
	w.text(`}`)
}

func (w *messagesWriter) thought(p *Part) {
	if p.Redacted != "" {
		w.text(`{"type":"redacted_thinking","data":`)
		w.str(p.Redacted)
		return
	}
	w.text(`{"type":"thinking","thinking":`)
	w.str(p.Text)
	w.text(`,"signature":`)
	w.str(p.Signature)
}

func (w *messagesWriter) result(field string, p *Part) {
	w.text(`{"type":"tool_result","tool_use_id":`)
	w.str(messagesID(p.ID))
	if parts := w.said(nil, p.Parts); len(parts) > 0 {
		w.text(`,"content":`)
		w.content(field, parts)
	}
	if p.Failed {
		w.text(`,"is_error":true`)
	}
}

func (w *messagesWriter) image(field string, p *Part) {
	w.text(`{"type":"image","source":`)
	if d := p.Media.Detail; d != "" && d != "auto" {
		w.warnOnce(field, "the service looks at images as closely as it likes")
	}
	kind := strings.ToLower(p.Media.Type)
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	switch kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	default:
		if p.Media.URL == "" {
			w.refuse(field, "images must be jpeg, png, gif or webp")
		}
	}
	w.source(field, kind, &p.Media)
}

func (w *messagesWriter) document(field string, p *Part) {
	w.text(`{"type":"document","source":`)
	kind := strings.ToLower(p.Media.Type)
	switch {
	case p.Media.URL != "", kind == mediaPDF:
		w.source(field, mediaPDF, &p.Media)
	case strings.HasPrefix(kind, "text/"):
		text, ok := plain(p.Media.Data)
		if !ok {
			w.refuse(field, "the document is not in base64")
		}
		w.text(`{"type":"text","media_type":"text/plain","data":`)
		w.str(text)
		w.text(`}`)
	default:
		w.refuse(field, "documents must be PDF or plain text")
	}
	if p.Name != "" {
		w.text(`,"title":`)
		w.str(p.Name)
	}
}

// source writes where the content of an image or a PDF is.
func (w *messagesWriter) source(field, kind string, m *Media) {
	if m.URL == "" {
		w.text(`{"type":"base64","media_type":`)
		w.str(kind)
		w.text(`,"data":`)
		w.str(m.Data)
		w.text(`}`)
		return
	}
	if url := strings.ToLower(m.URL); !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		w.refuse(field, "the service fetches http and https only")
	}
	w.text(`{"type":"url","url":`)
	w.str(m.URL)
	w.text(`}`)
}

// appendInput appends a call's arguments as the object that the API wants. Models write
// other things at times: those are put into an object, and ok is false.
func appendInput(dst []byte, arguments string) (out []byte, ok bool) {
	if strings.TrimSpace(arguments) == "" {
		return append(dst, `{}`...), true
	}
	v, err := jsonscan.ParseValue([]byte(arguments), 0)
	if err == nil && v.Kind() == jsonscan.KindObject {
		return append(dst, v.Raw()...), true
	}
	dst = append(dst, `{"invalid_arguments":`...)
	dst = jsonscan.AppendString(dst, arguments)
	return append(dst, '}'), false
}

// messagesID is a call's id in the letters that the API takes: ids of other services may
// have dots and colons. Call and result get the same, and different ids stay different.
func messagesID(id string) string {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if id != "" && strings.IndexFunc(id, bad) < 0 {
		return id
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	clean := strings.Map(func(r rune) rune {
		if bad(r) {
			return '_'
		}
		return r
	}, id)
	return clean + "_" + strconv.FormatUint(uint64(h.Sum32()), 16)
}
