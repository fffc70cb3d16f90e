package dialect

import (
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// NewStreamDecoder implements Service.
func (messages) NewStreamDecoder() StreamDecoder { return &messagesDecoder{} }

// messagesDecoder reads a stream. Blocks may overlap: those that begin before an earlier one
// has ended are held back until it has.
type messagesDecoder struct {
	usage    messagesUsage
	begun    bool
	finished bool
	ended    bool
	// open are the blocks that have not ended, and those that wait for them; the first is
	// the one that is being handed over.
	open []messagesBlock
	// held is what the blocks that wait take, in bytes; roughly.
	held int
	// ev is reused: an Event is valid during one call only.
	ev Event
}

// messagesBlock is an open block.
type messagesBlock struct {
	index int64
	part  Part
	// pass: a block of a kind that is passed over.
	pass bool
	// input is what a call's beginning had of its arguments. It counts if nothing follows.
	input string
	// spoken: something of it was handed over or waits.
	spoken bool
	// What waits: a delta with a signature comes last.
	text, signature []byte
	ended           bool
	// cost is the block's part of held.
	cost int
}

const (
	// messagesHeld bounds what waits for an earlier block to end, in bytes.
	messagesHeld = 16 << 20
	// messagesOpen bounds how many blocks are open at once: services open one, or a few.
	messagesOpen = 1024
	// messagesBlockCost is what a block takes that holds nothing, in bytes; roughly.
	messagesBlockCost = 256
)

// hold counts what a block that waits takes.
func (d *messagesDecoder) hold(b *messagesBlock, n int) error {
	b.cost += n
	if d.held += n; d.held > messagesHeld {
		return &BodyError{Reason: "has too much of later blocks before an earlier one ends"}
	}
	return nil
}

// Decode implements StreamDecoder.
func (d *messagesDecoder) Decode(name string, data []byte, emit func(*Event)) error {
	if d.ended {
		return nil
	}
	v, err := jsonscan.ParseValue(data, 0)
	if err != nil {
		if len(data) == 0 || string(data) == "[DONE]" { // not this API's, but seen with it
			d.keep(emit)
			return nil
		}
		return &BodyError{Reason: "has an event that is not JSON"}
	}
	kind, ok := v.Get("type").Str()
	if !ok {
		kind = name
	}
	switch kind {
	case "message_start":
		d.begin(v.Get("message"), emit)
	case "content_block_start":
		return d.blockStart(v, emit)
	case "content_block_delta":
		return d.delta(v, emit)
	case "content_block_stop":
		d.blockStop(v, emit)
	case "message_delta":
		d.messageDelta(v, emit)
	case "message_stop":
		d.end(emit)
	case "error":
		f := &Failure{}
		f.fill(v.Get("error"))
		if f.Kind == FailUnknown {
			f.Kind = FailServer
		}
		d.ended = true
		d.ev = Event{Kind: Fail, Failure: f}
		emit(&d.ev)
	default: // ping, and what will come
		d.keep(emit)
	}
	return nil
}

func (d *messagesDecoder) keep(emit func(*Event)) {
	d.ev = Event{Kind: Keep}
	emit(&d.ev)
}

func (d *messagesDecoder) begin(v jsonscan.Value, emit func(*Event)) {
	if d.begun {
		return
	}
	d.begun = true
	d.usage.take(v.Get("usage"))
	d.ev = Event{Kind: Begin, Usage: d.usage.usage()}
	d.ev.ID, _ = v.Get("id").Str()
	d.ev.Model, _ = v.Get("model").Str()
	emit(&d.ev)
}

func (d *messagesDecoder) blockStart(v jsonscan.Value, emit func(*Event)) error {
	d.begin(jsonscan.Value{}, emit)
	content := v.Get("content_block")
	part, ok := answered(content)
	b := messagesBlock{part: part, pass: !ok}
	b.index, _ = v.Get("index").Int()
	switch {
	case !ok:
	case part.Kind == ToolCall:
		b.input, b.part.Text = part.Text, ""
	default:
		b.text = append(b.text, part.Text...)
		b.signature = append(b.signature, part.Signature...)
		b.spoken = len(b.text)+len(b.signature) > 0
		b.part.Text, b.part.Signature = "", ""
	}
	if len(d.open) == messagesOpen {
		return &BodyError{Reason: "has too many blocks that don't end"}
	}
	d.open = append(d.open, b)
	if len(d.open) == 1 {
		d.handOver(emit)
		return nil
	}
	last := &d.open[len(d.open)-1]
	size := len(part.ID) + len(part.Name) + len(part.Redacted) + len(last.input) + len(last.text) + len(last.signature)
	return d.hold(last, messagesBlockCost+size)
}

// handOver begins the first block, and hands over what waited of it.
func (d *messagesDecoder) handOver(emit func(*Event)) {
	b := &d.open[0]
	d.held -= b.cost
	b.cost = 0
	if b.pass {
		return
	}
	d.ev = Event{Kind: PartBegin, Part: b.part}
	emit(&d.ev)
	d.say(string(b.text), string(b.signature), emit)
	b.text, b.signature = nil, nil
}

func (d *messagesDecoder) say(text, signature string, emit func(*Event)) {
	if text == "" && signature == "" {
		return
	}
	d.ev = Event{Kind: Delta, Text: text, Signature: signature}
	emit(&d.ev)
}

// block finds an open block; nil for none.
func (d *messagesDecoder) block(v jsonscan.Value) *messagesBlock {
	index, _ := v.Get("index").Int()
	for i := range d.open {
		if d.open[i].index == index && !d.open[i].ended {
			return &d.open[i]
		}
	}
	return nil
}

func (d *messagesDecoder) delta(v jsonscan.Value, emit func(*Event)) error {
	b := d.block(v)
	if b == nil {
		return &BodyError{Reason: "has a delta of a block that is not open"}
	}
	delta := v.Get("delta")
	var text, signature string
	switch kind, _ := delta.Get("type").Str(); kind {
	case "text_delta":
		text, _ = delta.Get("text").Str()
	case "input_json_delta":
		text, _ = delta.Get("partial_json").Str()
	case "thinking_delta":
		text, _ = delta.Get("thinking").Str()
	case "signature_delta":
		signature, _ = delta.Get("signature").Str()
	default: // citations, and what will come
	}
	if b.pass || text == "" && signature == "" {
		d.keep(emit)
		return nil
	}
	b.spoken = true
	if b == &d.open[0] {
		d.say(text, signature, emit)
		return nil
	}
	b.text = append(b.text, text...)
	b.signature = append(b.signature, signature...)
	if err := d.hold(b, len(text)+len(signature)); err != nil {
		return err
	}
	d.keep(emit)
	return nil
}

func (d *messagesDecoder) blockStop(v jsonscan.Value, emit func(*Event)) {
	b := d.block(v)
	if b == nil {
		d.keep(emit)
		return
	}
	d.endBlock(b, emit)
	d.next(emit)
}

// endBlock marks a block as ended. Arguments of a call that were all in its beginning, or
// that there are none of, are handed over now.
func (d *messagesDecoder) endBlock(b *messagesBlock, emit func(*Event)) {
	b.ended = true
	if b.pass || b.spoken || b.part.Kind != ToolCall {
		return
	}
	if b == &d.open[0] {
		d.say(b.input, "", emit)
		return
	}
	b.text = append(b.text, b.input...)
}

// next hands over the blocks that waited for the first to end.
func (d *messagesDecoder) next(emit func(*Event)) {
	for len(d.open) > 0 && d.open[0].ended {
		if d.open[0].pass {
			d.keep(emit)
		} else {
			d.ev = Event{Kind: PartEnd}
			emit(&d.ev)
		}
		d.open = d.open[1:]
		if len(d.open) > 0 {
			d.handOver(emit)
		}
	}
	if len(d.open) == 0 {
		d.open = nil
	}
}

// closeAll ends the blocks whose end was not told.
func (d *messagesDecoder) closeAll(emit func(*Event)) {
	for i := range d.open {
		if !d.open[i].ended {
			d.endBlock(&d.open[i], emit)
		}
	}
	d.next(emit)
}

func (d *messagesDecoder) messageDelta(v jsonscan.Value, emit func(*Event)) {
	d.begin(jsonscan.Value{}, emit)
	d.usage.take(v.Get("usage"))
	delta := v.Get("delta")
	switch {
	case d.finished:
		d.ev = Event{Kind: Tally, Usage: d.usage.usage()}
		emit(&d.ev)
	case !delta.Get("stop_reason").Exists():
		d.keep(emit)
	default:
		stop, text := stopOf(delta.Get("stop_reason"), delta.Get("stop_sequence"))
		d.finish(stop, text, refusalOf(stop, delta.Get("stop_details")), emit)
	}
}

func (d *messagesDecoder) finish(stop Stop, text, refusal string, emit func(*Event)) {
	d.closeAll(emit)
	d.finished = true
	if refusal != "" {
		for _, ev := range [...]Event{
			{Kind: PartBegin, Part: Part{Kind: Refusal}},
			{Kind: Delta, Text: refusal},
			{Kind: PartEnd},
		} {
			d.ev = ev
			emit(&d.ev)
		}
	}
	d.ev = Event{Kind: Finish, Stop: stop, StopText: text, Usage: d.usage.usage()}
	emit(&d.ev)
}

func (d *messagesDecoder) end(emit func(*Event)) {
	d.begin(jsonscan.Value{}, emit)
	if !d.finished {
		d.finish(StopUnknown, "", "", emit)
	}
	d.ended = true
	d.ev = Event{Kind: End}
	emit(&d.ev)
}
