package dialect

import (
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// NewStreamEncoder implements Client.
func (messages) NewStreamEncoder(o *AnswerOptions) StreamEncoder { return &messagesEncoder{o: o} }

// messagesEncoder writes a stream: message_start, the blocks one after the other, each with
// its own index, message_delta with the reason to stop and the usage, message_stop.
type messagesEncoder struct {
	o *AnswerOptions
	// begun: message_start is out. done: nothing more comes.
	begun, done bool
	// part is the one that goes on, if inPart; its block is open if it has said something.
	part   Part
	inPart bool
	open   bool
	index  int
	// What the end says. It waits for usage that comes after Finish.
	calls, refused, finished bool
	stop                     Stop
	stopText                 string
	usage                    Usage
}

// Append implements StreamEncoder.
func (e *messagesEncoder) Append(dst []byte, ev *Event) []byte {
	if e.done {
		return dst
	}
	switch ev.Kind {
	case Begin:
		e.know(&ev.Usage)
		return e.begin(dst, ev.ID, ev.Model)
	case PartBegin:
		dst = e.endPart(e.begin(dst, "", ""))
		e.part, e.inPart = ev.Part, true
		if ev.Part.Kind == ToolCall || ev.Part.Redacted != "" {
			dst = e.openBlock(dst)
		}
	case Delta:
		return e.delta(dst, ev)
	case PartEnd:
		return e.endPart(dst)
	case Finish:
		e.finished, e.stop, e.stopText = true, ev.Stop, ev.StopText
		e.know(&ev.Usage)
	case Tally:
		e.know(&ev.Usage)
	case Fail:
		e.done = true
		dst = append(dst, "event: error\ndata: "...)
		dst = appendMessagesError(dst, ev.Failure.Public())
		return append(dst, "\n\n"...)
	case Keep:
		if e.begun { // before that nothing has been answered yet
			dst = append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
		}
	case End:
		return e.end(dst)
	}
	return dst
}

func (e *messagesEncoder) know(u *Usage) {
	if u.Known {
		e.usage = *u
	}
}

func (e *messagesEncoder) begin(dst []byte, id, model string) []byte {
	if e.begun {
		return dst
	}
	e.begun = true
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	dst = appendMessageHead(dst, id, model, e.o)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	dst = appendMessagesUsage(dst, &e.usage)
	return append(dst, "}}\n\n"...)
}

// openBlock begins the block of the part that goes on. Texts and thoughts open theirs with
// the first word: clients send empty ones back, and the API refuses those.
func (e *messagesEncoder) openBlock(dst []byte) []byte {
	e.open = true
	e.calls = e.calls || e.part.Kind == ToolCall
	e.refused = e.refused || e.part.Kind == Refusal
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	dst = append(dst, `,"content_block":`...)
	p := e.part
	p.Text = ""
	if p.Kind != ToolCall { // whose signature is in its id
		p.Signature = ""
	}
	dst = appendBlock(dst, &p)
	return append(dst, "}\n\n"...)
}

func (e *messagesEncoder) delta(dst []byte, ev *Event) []byte {
	if !e.inPart || ev.Text == "" && ev.Signature == "" {
		return dst
	}
	if !e.open {
		dst = e.openBlock(dst)
	}
	switch e.part.Kind {
	case ToolCall:
		return e.piece(dst, `input_json_delta","partial_json":`, ev.Text)
	case Reasoning:
		if ev.Text != "" {
			dst = e.piece(dst, `thinking_delta","thinking":`, ev.Text)
		}
		if ev.Signature != "" {
			dst = e.piece(dst, `signature_delta","signature":`, ev.Signature)
		}
		return dst
	case Text, Refusal, Image, Document, Audio, ToolResult:
		return e.piece(dst, `text_delta","text":`, ev.Text)
	default:
		return dst
	}
}

func (e *messagesEncoder) piece(dst []byte, kind, text string) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	dst = append(dst, `,"delta":{"type":"`...)
	dst = append(dst, kind...)
	dst = jsonscan.AppendString(dst, text)
	return append(dst, "}}\n\n"...)
}

func (e *messagesEncoder) endPart(dst []byte) []byte {
	if e.open {
		dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
		dst = strconv.AppendInt(dst, int64(e.index), 10)
		dst = append(dst, "}\n\n"...)
		e.index++
	}
	e.inPart, e.open = false, false
	return dst
}

func (e *messagesEncoder) end(dst []byte) []byte {
	dst = e.endPart(e.begin(dst, "", ""))
	e.done = true
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\""...)
	dst = append(dst, messagesStopName(e.stop, e.calls, e.refused)...)
	dst = append(dst, `","stop_sequence":`...)
	dst = appendOrNull(dst, e.stopText)
	dst = append(dst, `},"usage":`...)
	dst = appendMessagesUsage(dst, &e.usage)
	dst = append(dst, "}\n\n"...)
	return append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}
