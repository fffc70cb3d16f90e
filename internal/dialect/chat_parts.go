package dialect

import "slices"

// chatParts puts the parts of a streamed answer one after the other. Parallel calls may be
// interleaved; a call is over when its arguments are a whole JSON object and something else
// has begun, and what begins before that is held back.
type chatParts struct {
	emit func(*Event)
	ev   Event
	// queue are the parts that aren't over. The first is open, if opened.
	queue  []*chatPart
	opened bool
	// calls are all calls so far, and named the bytes of their ids and names.
	calls           []*chatPart
	named           int
	held            int
	called, refused bool
	err             error
}

type chatPart struct {
	kind     PartKind
	id, name string
	index    int64
	args     jsonEnd
	held     []byte
	cost     int
	over     bool
	// signature is a call's, or one of reasoning that waits; hidden is redacted reasoning.
	signature, hidden string
	// closed: what follows is another part, though of the same kind.
	closed bool
}

const (
	// noIndex is that of calls whose service gives none.
	noIndex = -1
	// partCost is what a part takes that holds nothing, in bytes; roughly.
	partCost = 256
	// maxChatHeld and maxCalls bound what a stream can make us keep: bytes, and calls.
	maxChatHeld = 4 << 20
	maxCalls    = 1024
)

// text adds to the last part, or begins a new one.
func (q *chatParts) text(kind PartKind, text string) {
	if text == "" || q.err != nil {
		return
	}
	q.refused = q.refused || kind == Refusal
	if p := q.last(kind); p != nil {
		q.add(p, text)
		return
	}
	q.add(q.push(&chatPart{kind: kind}), text)
}

// last is the last part, if it is of the kind and takes more; nil if not.
func (q *chatParts) last(kind PartKind) *chatPart {
	if n := len(q.queue); n > 0 && q.queue[n-1].kind == kind && !q.queue[n-1].closed {
		return q.queue[n-1]
	}
	return nil
}

// sign ends the reasoning that goes on with its signature. If late, there must be some.
func (q *chatParts) sign(signature string, late bool) {
	if q.err != nil {
		return
	}
	p := q.last(Reasoning)
	if p == nil {
		if late {
			return
		}
		p = q.push(&chatPart{kind: Reasoning})
	}
	p.closed = true
	if q.opened && q.queue[0] == p {
		q.put(Event{Kind: Delta, Signature: signature})
		return
	}
	p.signature = signature
	q.hold(p, len(signature))
}

// redacted adds reasoning that is shown to nobody.
func (q *chatParts) redacted(hidden string) {
	if q.err == nil {
		q.push(&chatPart{kind: Reasoning, hidden: hidden, closed: true})
	}
}

// call adds to a call, or begins a new one, whose signature counts.
func (q *chatParts) call(answer string, said *chatPart, args string) {
	if q.err != nil {
		return
	}
	id, name := said.id, said.name
	p := q.find(said.index, id)
	if p != nil && id == "" && name != "" && args != "" && p.args.done {
		p = nil // a service without ids and indexes gives calls whole
	}
	if p == nil {
		q.named += len(id) + len(name)
		if len(q.calls) == maxCalls || q.named > maxChatHeld {
			q.fail("has too many calls")
			return
		}
		q.called = true
		p = &chatPart{kind: ToolCall, id: id, index: said.index, signature: said.signature}
		if id == "" {
			p.id = chatCallID(answer, len(q.calls))
		}
		q.calls = append(q.calls, p)
		p.name = name // before push: a part with a name can begin
		q.push(p)
	} else if p.name == "" && name != "" {
		p.name = name
		q.advance(false)
	}
	switch {
	case args == "":
	case p.over && p.args.done && onlySpace(args):
	case p.over:
		q.fail("has a call that goes on after its end")
	default:
		p.args.feed(args)
		q.add(p, args)
	}
}

// find is the call that a delta belongs to: the last one with its index, unless the id is
// another: there are services that give every call the index 0.
func (q *chatParts) find(index int64, id string) *chatPart {
	for _, p := range slices.Backward(q.calls) {
		switch {
		case index != noIndex && p.index != index:
		case id == "" || id == p.id:
			return p
		default:
		}
	}
	return nil
}

func (q *chatParts) push(p *chatPart) *chatPart {
	q.queue = append(q.queue, p)
	q.advance(false)
	if len(q.queue) > 1 {
		q.hold(p, partCost+len(p.id)+len(p.name)+len(p.signature)+len(p.hidden))
	}
	return p
}

// hold counts what is kept.
func (q *chatParts) hold(p *chatPart, n int) {
	p.cost += n
	if q.held += n; q.held > maxChatHeld {
		q.fail("has interleaved calls that are too long")
	}
}

func (q *chatParts) add(p *chatPart, text string) {
	if q.opened && q.queue[0] == p {
		q.put(Event{Kind: Delta, Text: text})
		q.advance(false)
		return
	}
	if q.hold(p, len(text)); q.err != nil {
		return
	}
	p.held = append(p.held, text...)
}

// advance opens the first part and ends those that are over. All are, when the answer is.
func (q *chatParts) advance(all bool) {
	for len(q.queue) > 0 {
		p := q.queue[0]
		if !q.opened {
			if p.kind == ToolCall && p.name == "" && !all {
				return
			}
			q.opened = true
			q.held -= p.cost
			q.begin(p)
		}
		last := len(q.queue) == 1
		if !all && (last || p.kind == ToolCall && !p.args.done) {
			return
		}
		p.over = true
		q.opened = false
		q.queue[0] = nil
		q.queue = q.queue[1:]
		q.put(Event{Kind: PartEnd})
	}
}

// begin hands over a part's beginning, and what waited of it.
func (q *chatParts) begin(p *chatPart) {
	part := Part{Kind: p.kind, ID: p.id, Name: p.name, Redacted: p.hidden}
	if p.kind == ToolCall {
		part.Signature = p.signature
	}
	q.put(Event{Kind: PartBegin, Part: part})
	if len(p.held) > 0 {
		q.put(Event{Kind: Delta, Text: string(p.held)})
		p.held = nil
	}
	if p.kind == Reasoning && p.signature != "" {
		q.put(Event{Kind: Delta, Signature: p.signature})
	}
	p.signature, p.hidden = "", ""
}

func (q *chatParts) flush() { q.advance(true) }

func (q *chatParts) put(ev Event) {
	q.ev = ev
	q.emit(&q.ev)
}

func (q *chatParts) fail(reason string) {
	if q.err == nil {
		q.err = &BodyError{Reason: reason}
	}
}

// jsonEnd finds where an object or a list ends whose text comes in pieces.
type jsonEnd struct {
	depth             int
	inString, escaped bool
	done              bool
}

func (e *jsonEnd) feed(s string) {
	for i := 0; i < len(s) && !e.done; i++ {
		switch c := s[i]; {
		case e.escaped:
			e.escaped = false
		case e.inString:
			e.escaped = c == '\\'
			e.inString = c != '"'
		case c == '"':
			e.inString = true
		case c == '{' || c == '[':
			e.depth++
		case c == '}' || c == ']':
			e.depth--
			e.done = e.depth <= 0
		default:
		}
	}
}

func onlySpace(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case ' ', '\t', '\n', '\r':
		default:
			return false
		}
	}
	return true
}
