package dialect

import (
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// maxResponse bounds what an encoder holds of one answer, in bytes: the API's last event
// repeats all of it.
const maxResponse = 64 << 20

// responsesStream writes a streamed response. The API sends each text three times: in
// pieces, at the end of its item, and in the response at the end.
type responsesStream struct {
	o     *AnswerOptions
	shape responsesShape
	seq   int64
	begun bool
	over  bool

	output responsesOutput
	// The item that is open, if any.
	open   bool
	kind   PartKind // Text for a message
	itemID string
	callID string
	name   string
	// text is that of the part; content are the finished parts of a message.
	text      []byte
	signature []byte
	redacted  string
	content   []byte
	parts     int
	partOpen  bool
	partKind  PartKind
	refused   bool
	summary   bool

	stop  Stop
	usage Usage
}

func (responses) NewStreamEncoder(o *AnswerOptions) StreamEncoder { return &responsesStream{o: o} }

// Append appends the events that ev is.
func (s *responsesStream) Append(dst []byte, ev *Event) []byte {
	if s.over {
		return dst
	}
	if ev.Usage.Known && (ev.Kind == Begin || ev.Kind == Finish || ev.Kind == Tally) {
		s.usage = ev.Usage
	}
	switch ev.Kind {
	case Keep:
		if s.begun { // before that nothing has been answered yet
			dst = append(dst, keepAlive...)
		}
		return dst
	case Fail:
		return s.fail(dst, ev.Failure)
	case Tally:
		return dst
	default:
		dst = s.begin(dst, ev)
	}
	switch ev.Kind {
	case PartBegin:
		dst = s.partBegin(dst, &ev.Part)
	case Delta:
		dst = s.delta(dst, ev)
	case PartEnd:
		dst = s.partEnd(dst)
	case Finish:
		s.stop = ev.Stop
		dst = s.closeItem(dst, s.status())
	case End:
		dst = s.closeItem(dst, s.status())
		dst = s.end(dst)
	default:
	}
	return dst
}

func (s *responsesStream) status() string {
	status, _ := responsesEnd(s.stop, s.refused)
	return status
}

// begin appends the first two events, once.
func (s *responsesStream) begin(dst []byte, ev *Event) []byte {
	if s.begun {
		return dst
	}
	s.begun = true
	s.shape = newResponsesShape(ev.ID, ev.Model, ev.Created, s.o)
	st := responsesState{status: respInProgress}
	for _, name := range []string{"response.created", "response.in_progress"} {
		dst = s.event(dst, name)
		dst = append(dst, `,"response":`...)
		dst = s.shape.append(dst, &st)
		dst = append(dst, "}\n\n"...)
	}
	return dst
}

// event appends the beginning of an event, an object that is still open.
func (s *responsesStream) event(dst []byte, name string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, "\ndata: {\"type\":\""...)
	dst = append(dst, name...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, s.seq, 10)
	s.seq++
	return dst
}

// itemEvent appends the beginning of an event of the open item.
func (s *responsesStream) itemEvent(dst []byte, name string) []byte {
	dst = s.event(dst, name)
	dst = append(dst, `,"item_id":`...)
	dst = jsonscan.AppendString(dst, s.itemID)
	dst = append(dst, `,"output_index":`...)
	return strconv.AppendInt(dst, int64(s.output.count), 10)
}

// partEvent is itemEvent for a part of a message, or of a summary.
func (s *responsesStream) partEvent(dst []byte, name string) []byte {
	dst = s.itemEvent(dst, name)
	if s.kind == Reasoning {
		return append(dst, `,"summary_index":0`...)
	}
	dst = append(dst, `,"content_index":`...)
	return strconv.AppendInt(dst, int64(s.parts), 10)
}

func (s *responsesStream) partBegin(dst []byte, p *Part) []byte {
	kind := p.Kind
	if isSaid(kind) {
		kind = Text
	}
	if s.open && (s.kind != Text || kind != Text) {
		dst = s.closeItem(dst, respCompleted)
	}
	if !s.open {
		dst = s.openItem(dst, kind, p)
	}
	if kind == Text {
		if s.partOpen { // a decoder that forgot its end
			dst = s.partEnd(dst)
		}
		s.partOpen, s.partKind = true, p.Kind
		s.refused = s.refused || p.Kind == Refusal
		s.text = s.text[:0]
		dst = s.partEvent(dst, "response.content_part.added")
		dst = append(dst, `,"part":`...)
		dst = appendOne(dst, p.Kind, "")
		dst = append(dst, "}\n\n"...)
	}
	if p.Text != "" || p.Signature != "" && kind != ToolCall {
		dst = s.delta(dst, &Event{Kind: Delta, Text: p.Text, Signature: p.Signature})
	}
	return dst
}

// appendOne appends one part where others may stand before it.
func appendOne(dst []byte, kind PartKind, text string) []byte {
	return append(dst, appendContent(nil, kind, text)...)
}

func (s *responsesStream) openItem(dst []byte, kind PartKind, p *Part) []byte {
	s.open, s.kind, s.partOpen, s.summary = true, kind, false, false
	s.itemID = s.shape.itemID(kind, s.output.count)
	s.callID, s.name, s.redacted = p.ID, p.Name, p.Redacted
	if kind == ToolCall {
		s.callID = sealedID(p.ID, p.Signature)
	}
	s.text, s.signature, s.content, s.parts = s.text[:0], s.signature[:0], s.content[:0], 0
	dst = s.event(dst, "response.output_item.added")
	return s.item(dst, respInProgress)
}

// item appends the rest of an event that holds the open item.
func (s *responsesStream) item(dst []byte, status string) []byte {
	dst = append(dst, `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(s.output.count), 10)
	dst = append(dst, `,"item":`...)
	dst = s.appendItem(dst, status)
	return append(dst, "}\n\n"...)
}

func (s *responsesStream) appendItem(dst []byte, status string) []byte {
	switch s.kind {
	case ToolCall:
		return appendCallItem(dst, s.itemID, status, s.callID, s.name, string(s.text))
	case Reasoning:
		return appendThoughtItem(dst, s.itemID, status, string(s.text), sealed(string(s.signature), s.redacted))
	default:
		return appendMessageItem(dst, s.itemID, status, s.content)
	}
}

func (s *responsesStream) delta(dst []byte, ev *Event) []byte {
	if !s.open {
		return dst
	}
	if len(s.output.json)+len(s.content)+len(s.text)+len(ev.Text) > maxResponse {
		return s.fail(dst, &Failure{Kind: FailServer, Message: "the answer is too long to be held"})
	}
	s.signature = append(s.signature, ev.Signature...)
	if ev.Text == "" {
		return dst
	}
	s.text = append(s.text, ev.Text...)
	switch {
	case s.kind == ToolCall:
		dst = s.itemEvent(dst, "response.function_call_arguments.delta")
	case s.kind == Reasoning:
		if !s.summary {
			s.summary = true
			dst = s.partEvent(dst, "response.reasoning_summary_part.added")
			dst = append(dst, `,"part":`...)
			dst = appendSummary(dst, "")
			dst = append(dst, "}\n\n"...)
		}
		dst = s.partEvent(dst, "response.reasoning_summary_text.delta")
	case s.partKind == Refusal:
		dst = s.partEvent(dst, "response.refusal.delta")
	default:
		dst = s.partEvent(dst, "response.output_text.delta")
		dst = append(dst, `,"logprobs":[]`...)
	}
	dst = append(dst, `,"delta":`...)
	dst = jsonscan.AppendString(dst, ev.Text)
	return append(dst, "}\n\n"...)
}

// partEnd ends a part of a message. Other items end later, when it is known whether they
// are whole.
func (s *responsesStream) partEnd(dst []byte) []byte {
	if !s.open || !s.partOpen {
		return dst
	}
	s.partOpen = false
	name, member := "response.output_text.done", `,"logprobs":[],"text":`
	if s.partKind == Refusal {
		name, member = "response.refusal.done", `,"refusal":`
	}
	text := string(s.text)
	dst = s.partEvent(dst, name)
	dst = append(dst, member...)
	dst = jsonscan.AppendString(dst, text)
	dst = append(dst, "}\n\n"...)
	dst = s.partEvent(dst, "response.content_part.done")
	dst = append(dst, `,"part":`...)
	dst = appendOne(dst, s.partKind, text)
	dst = append(dst, "}\n\n"...)
	s.content = appendContent(s.content, s.partKind, text)
	s.parts++
	s.text = s.text[:0]
	return dst
}

// closeItem ends the open item.
func (s *responsesStream) closeItem(dst []byte, status string) []byte {
	if !s.open {
		return dst
	}
	switch {
	case s.kind == Text:
		dst = s.partEnd(dst)
	case s.kind == ToolCall:
		if onlySpace(string(s.text)) {
			s.text = s.text[:0]
			if dst = s.delta(dst, &Event{Kind: Delta, Text: argumentsOf("")}); s.over {
				return dst
			}
		}
		dst = s.itemEvent(dst, "response.function_call_arguments.done")
		dst = append(dst, `,"name":`...)
		dst = jsonscan.AppendString(dst, s.name)
		dst = append(dst, `,"arguments":`...)
		dst = jsonscan.AppendString(dst, string(s.text))
		dst = append(dst, "}\n\n"...)
	case s.summary:
		text := string(s.text)
		dst = s.partEvent(dst, "response.reasoning_summary_text.done")
		dst = append(dst, `,"text":`...)
		dst = jsonscan.AppendString(dst, text)
		dst = append(dst, "}\n\n"...)
		dst = s.partEvent(dst, "response.reasoning_summary_part.done")
		dst = append(dst, `,"part":`...)
		dst = appendSummary(dst, text)
		dst = append(dst, "}\n\n"...)
	}
	dst = s.event(dst, "response.output_item.done")
	dst = s.item(dst, status)
	s.output.add(s.appendItem(nil, status))
	s.open = false
	return dst
}

func (s *responsesStream) end(dst []byte) []byte {
	s.over = true
	st := responsesState{output: s.output.json, usage: s.usage}
	st.status, st.reason = responsesEnd(s.stop, s.refused)
	dst = s.event(dst, "response."+st.status)
	dst = append(dst, `,"response":`...)
	dst = s.shape.append(dst, &st)
	return append(dst, "}\n\n"...)
}

// fail ends the stream with an error. What was not finished is in no item.
func (s *responsesStream) fail(dst []byte, f *Failure) []byte {
	s.over = true
	code, message := responsesFailure(f.Public())
	if !s.begun {
		dst = s.event(dst, "error")
		dst = append(dst, `,"code":`...)
		dst = jsonscan.AppendString(dst, code)
		dst = append(dst, `,"message":`...)
		dst = jsonscan.AppendString(dst, message)
		return append(dst, `,"param":null}`+"\n\n"...)
	}
	dst = s.event(dst, "response.failed")
	dst = append(dst, `,"response":`...)
	dst = s.shape.append(dst, &responsesState{
		status: respFailed, code: code, message: message, output: s.output.json, usage: s.usage,
	})
	return append(dst, "}\n\n"...)
}
