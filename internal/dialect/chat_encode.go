package dialect

import (
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func (chatCodec) NewStreamEncoder(o *AnswerOptions) StreamEncoder {
	return &chatEncoder{o: *o, call: -1}
}

// chatEncoder writes chunks: the role, deltas, the reason of the end, usage if it was asked
// for, [DONE].
type chatEncoder struct {
	o AnswerOptions
	// head is what all chunks begin with, up to their choices.
	head []byte
	open PartKind
	// call is the index of the last call, and args whether it has arguments yet.
	call    int
	args    bool
	refused bool
	usage   Usage
	over    bool
	thought chatThought
}

// chatThought is the reasoning of the part that is open, for its signature.
type chatThought struct {
	text, signature []byte
	redacted        string
	long            bool
}

func (t *chatThought) add(ev *Event) {
	if len(t.text)+len(t.signature)+len(ev.Text)+len(ev.Signature) > maxThought {
		t.long = true
		return
	}
	t.text = append(t.text, ev.Text...)
	t.signature = append(t.signature, ev.Signature...)
}

// maxThought bounds the reasoning that is kept for its signature, in bytes. What is longer
// reaches the client, but can't be handed back.
const maxThought = 1 << 20

// keepAlive is a comment: clients skip it.
const keepAlive = ": keep-alive\n\n"

func (e *chatEncoder) Append(dst []byte, ev *Event) []byte {
	if e.over {
		return dst
	}
	switch ev.Kind {
	case Begin:
		e.begin(ev)
		return e.delta(dst, `"role":"assistant","content":""`)
	case PartBegin:
		return e.partBegin(dst, &ev.Part)
	case Delta:
		return e.part(dst, ev)
	case PartEnd:
		return e.partEnd(dst)
	case Finish:
		e.tally(ev)
		dst = append(dst, e.head...)
		dst = append(dst, `{"index":0,"delta":{},"finish_reason":"`...)
		dst = append(dst, chatFinish(ev.Stop, e.refused)...)
		return append(dst, "\"}]}\n\n"...)
	case Tally:
		e.tally(ev)
	case Fail:
		e.over = true
		f := ev.Failure.Public()
		_, typ, code := chatFailureWords(f)
		w := jsonWriter{b: append(dst, "data: {"...)}
		chatWriteFailure(&w, f, typ, code)
		return append(w.b, "}\n\n"...)
	case Keep:
		if len(e.head) > 0 { // before that nothing has been answered yet
			dst = append(dst, keepAlive...)
		}
	case End:
		e.over = true
		return e.end(dst)
	}
	return dst
}

func (e *chatEncoder) begin(ev *Event) {
	e.tally(ev)
	h := chatHead(ev.ID, ev.Model, ev.Created, &e.o)
	w := jsonWriter{b: append(e.head[:0], "data: {"...)}
	w.key("id").str(h.ID)
	w.key("object").str("chat.completion.chunk")
	w.key("created").int(h.Created)
	w.key("model").str(h.Model)
	w.key("choices").open('[')
	e.head = w.b
}

func (e *chatEncoder) tally(ev *Event) {
	if ev.Usage.Known {
		e.usage = ev.Usage
	}
}

const (
	chunkDelta = `{"index":0,"delta":{`
	chunkEnd   = "},\"finish_reason\":null}]}\n\n"
)

// delta appends a chunk with these members of a delta.
func (e *chatEncoder) delta(dst []byte, members string) []byte {
	dst = append(dst, e.head...)
	dst = append(dst, chunkDelta...)
	dst = append(dst, members...)
	return append(dst, chunkEnd...)
}

// text appends a chunk whose delta is one text.
func (e *chatEncoder) text(dst []byte, key, text string) []byte {
	dst = append(dst, e.head...)
	dst = append(dst, chunkDelta...)
	dst = append(dst, key...)
	dst = jsonscan.AppendString(dst, text)
	return append(dst, chunkEnd...)
}

func (e *chatEncoder) partBegin(dst []byte, p *Part) []byte {
	e.open = p.Kind
	switch p.Kind {
	case Reasoning:
		e.thought = chatThought{text: e.thought.text[:0], signature: []byte(p.Signature), redacted: p.Redacted}
	case Refusal:
		e.refused = true
	case ToolCall:
		e.call++
		e.args = false
		w := jsonWriter{b: append(append(dst, e.head...), chunkDelta...)}
		w.key("tool_calls").open('[')
		w.open('{')
		w.key("index").int(int64(e.call))
		w.key("id").str(p.ID)
		w.key("type").str("function")
		w.key("function").open('{')
		w.key("name").str(p.Name)
		w.key("arguments").str("")
		w.end('}')
		chatWriteSignature(&w, p.Signature)
		return append(append(w.b, "}]"...), chunkEnd...)
	default:
	}
	return dst
}

func (e *chatEncoder) part(dst []byte, ev *Event) []byte {
	switch e.open {
	case Reasoning:
		e.thought.add(ev)
		if ev.Text == "" {
			return dst
		}
		return e.text(dst, `"reasoning_content":`, ev.Text)
	case ToolCall:
		if ev.Text == "" {
			return dst
		}
		return e.arguments(dst, ev.Text)
	case Refusal:
		return e.text(dst, `"refusal":`, ev.Text)
	default:
		return e.text(dst, `"content":`, ev.Text)
	}
}

func (e *chatEncoder) arguments(dst []byte, text string) []byte {
	e.args = true
	w := jsonWriter{b: append(append(dst, e.head...), chunkDelta...)}
	w.key("tool_calls").open('[')
	w.open('{')
	w.key("index").int(int64(e.call))
	w.key("function").open('{')
	w.key("arguments").str(text)
	return append(append(w.b, "}}]"...), chunkEnd...)
}

func (e *chatEncoder) partEnd(dst []byte) []byte {
	switch t := &e.thought; {
	case e.open == ToolCall && !e.args:
		return e.arguments(dst, "{}") // clients parse them, and nothing is not JSON
	case e.open == Reasoning && !t.long && (len(t.signature) > 0 || t.redacted != ""):
		w := jsonWriter{b: append(append(dst, e.head...), chunkDelta...)}
		w.key("thinking_blocks").open('[')
		chatWriteThought(&w, &Part{Text: string(t.text), Signature: string(t.signature), Redacted: t.redacted})
		return append(append(w.b, ']'), chunkEnd...)
	default:
		return dst
	}
}

func (e *chatEncoder) end(dst []byte) []byte {
	if e.o.IncludeUsage && e.usage.Known {
		w := jsonWriter{b: append(append(dst, e.head...), ']')}
		chatWriteUsage(w.key("usage"), &e.usage)
		w.b = append(w.b, "}\n\n"...)
		dst = w.b
	}
	return append(dst, "data: [DONE]\n\n"...)
}
