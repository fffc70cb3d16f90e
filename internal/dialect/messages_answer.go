package dialect

import (
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// DecodeAnswer implements Service. Blocks of the service's own tools are passed over: no
// request that was carried over asks for them.
func (messages) DecodeAnswer(body []byte) (*Answer, error) {
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, &BodyError{Reason: "is not a JSON object"}
	}
	content := o.Value("content")
	if content.Kind() != jsonscan.KindArray {
		return nil, &BodyError{Field: "content", Reason: reasonArray}
	}
	a := &Answer{}
	a.ID, _ = o.Value("id").Str()
	a.Model, _ = o.Value("model").Str()
	for it := content.Iter(); it.Next(); {
		if part, ok := answered(it.Value()); ok {
			a.Parts = append(a.Parts, part)
		}
	}
	a.Stop, a.StopText = stopOf(o.Value("stop_reason"), o.Value("stop_sequence"))
	if why := refusalOf(a.Stop, o.Value("stop_details")); why != "" {
		a.Parts = append(a.Parts, Part{Kind: Refusal, Text: why})
	}
	var u messagesUsage
	u.take(o.Value("usage"))
	a.Usage = u.usage()
	return a, nil
}

// answered reads a block of an answer, or its beginning in a stream.
func answered(v jsonscan.Value) (p Part, ok bool) {
	switch kind, _ := v.Get("type").Str(); kind {
	case blockText:
		p.Text, _ = v.Get("text").Str()
	case blockThinking:
		p.Kind = Reasoning
		p.Text, _ = v.Get("thinking").Str()
		p.Signature, _ = v.Get("signature").Str()
	case blockRedacted:
		p.Kind = Reasoning
		p.Redacted, _ = v.Get("data").Str()
	case blockCall:
		p.Kind = ToolCall
		p.ID, _ = v.Get("id").Str()
		p.Name, _ = v.Get("name").Str()
		p.Text = "{}"
		if input := v.Get("input"); !input.Empty() {
			p.Text = string(input.Raw())
		}
	default:
		return p, false
	}
	return p, true
}

func stopOf(reason, sequence jsonscan.Value) (stop Stop, text string) {
	name, _ := reason.Str()
	text, _ = sequence.Str()
	return messagesStop(name), text
}

// refusalOf is why the service refused, if it says.
func refusalOf(s Stop, details jsonscan.Value) string {
	if s != StopRefusal {
		return ""
	}
	why, _ := details.Get("explanation").Str()
	return why
}

// EncodeAnswer implements Client.
func (messages) EncodeAnswer(dst []byte, a *Answer, o *AnswerOptions) []byte {
	dst = appendMessageHead(dst, a.ID, a.Model, o)
	dst = append(dst, `,"content":[`...)
	first, calls, refused := true, false, false
	for i := range a.Parts {
		p := &a.Parts[i]
		if emptyPart(p) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		calls = calls || p.Kind == ToolCall
		refused = refused || p.Kind == Refusal
		dst = appendBlock(dst, p)
	}
	dst = append(dst, `],"stop_reason":"`...)
	dst = append(dst, messagesStopName(a.Stop, calls, refused)...)
	dst = append(dst, `","stop_sequence":`...)
	dst = appendOrNull(dst, a.StopText)
	dst = append(dst, `,"usage":`...)
	dst = appendMessagesUsage(dst, &a.Usage)
	return append(dst, '}')
}

// appendMessageHead appends the beginning of a message, up to its content.
func appendMessageHead(dst []byte, id, model string, o *AnswerOptions) []byte {
	if id == "" {
		id = o.ID
	}
	if !strings.HasPrefix(id, "msg_") {
		id = "msg_" + id
	}
	if o.Model != "" {
		model = o.Model
	}
	dst = append(dst, `{"id":`...)
	dst = jsonscan.AppendString(dst, id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	return jsonscan.AppendString(dst, model)
}

// emptyPart reports whether there is nothing to show: clients send answers back, and the API
// refuses empty texts.
func emptyPart(p *Part) bool {
	switch p.Kind {
	case Text, Refusal:
		return p.Text == ""
	case Reasoning:
		return p.Text == "" && p.Signature == "" && p.Redacted == ""
	case ToolCall:
		return false
	case Image, Document, Audio, ToolResult:
		return true // no service answers with them
	default:
		return true
	}
}

// appendBlock appends a part of an answer.
func appendBlock(dst []byte, p *Part) []byte {
	switch {
	case p.Kind == ToolCall:
		dst = append(dst, `{"type":"tool_use","id":`...)
		dst = jsonscan.AppendString(dst, sealedID(messagesID(p.ID), p.Signature))
		dst = append(dst, `,"name":`...)
		dst = jsonscan.AppendString(dst, p.Name)
		dst = append(dst, `,"input":`...)
		dst, _ = appendInput(dst, p.Text)
	case p.Kind == Reasoning && p.Redacted != "":
		dst = append(dst, `{"type":"redacted_thinking","data":`...)
		dst = jsonscan.AppendString(dst, p.Redacted)
	case p.Kind == Reasoning:
		dst = append(dst, `{"type":"thinking","thinking":`...)
		dst = jsonscan.AppendString(dst, p.Text)
		dst = append(dst, `,"signature":`...)
		dst = jsonscan.AppendString(dst, p.Signature)
	default:
		dst = append(dst, `{"type":"text","text":`...)
		dst = jsonscan.AppendString(dst, p.Text)
	}
	return append(dst, '}')
}

func appendOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonscan.AppendString(dst, s)
}
