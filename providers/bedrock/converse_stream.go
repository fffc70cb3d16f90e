package bedrock

import (
	"encoding/json"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// NewStreamDecoder reads the events of ConverseStream.
func (c converse) NewStreamDecoder() dialect.StreamDecoder { return &streamDecoder{codec: c} }

var (
	_ dialect.StreamDecoder = (*streamDecoder)(nil)
	_ dialect.BodyEnder     = (*streamDecoder)(nil)
)

type streamDecoder struct {
	codec           converse
	begun, finished bool
	// open is the block that is open, at index.
	open  bool
	index int64
	kind  dialect.PartKind
}

// Decode takes one event. The metadata come last, and are the end.
func (d *streamDecoder) Decode(name string, data []byte, emit func(*dialect.Event)) error {
	if name == errorEvent || strings.HasSuffix(name, "Exception") {
		emit(&dialect.Event{Kind: dialect.Fail, Failure: streamFailure(name, data)})
		return nil
	}
	switch name {
	case "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
	default:
		emit(&dialect.Event{Kind: dialect.Keep})
		return nil
	}
	ev, err := jsonscan.ParseValue(data, 0)
	if err != nil || ev.Kind() != jsonscan.KindObject {
		return &dialect.BodyError{Field: name, Reason: "is an event that can't be read"}
	}
	if !d.begun {
		d.begun = true
		emit(&dialect.Event{Kind: dialect.Begin})
	}
	switch name {
	case "contentBlockStart":
		d.start(ev, emit)
	case "contentBlockDelta":
		return d.delta(ev, emit)
	case "contentBlockStop":
		if d.open && d.index == indexOf(ev) {
			d.close(emit)
		}
	case "messageStop":
		d.close(emit)
		d.finished = true
		reason, _ := ev.Get("stopReason").Str()
		emit(&dialect.Event{Kind: dialect.Finish, Stop: stopOf(reason)})
	case "metadata":
		d.metadata(ev, emit)
	default:
	}
	return nil
}

// metadata are the last event.
func (d *streamDecoder) metadata(ev jsonscan.Value, emit func(*dialect.Event)) {
	var u *wireUsage
	if raw := ev.Get("usage"); raw.Exists() {
		_ = json.Unmarshal(raw.Raw(), &u) // of an odd form: not known
	}
	if u := d.codec.usageOf(u); u.Known {
		emit(&dialect.Event{Kind: dialect.Tally, Usage: u})
	}
	if d.finished {
		emit(&dialect.Event{Kind: dialect.End})
	}
}

// indexOf is the number of an event's block; 0 is left out by some encoders.
func indexOf(ev jsonscan.Value) int64 {
	n, _ := ev.Get("contentBlockIndex").Int()
	return n
}

// BodyEnd ends a stream without metadata.
func (d *streamDecoder) BodyEnd(emit func(*dialect.Event)) {
	if d.finished {
		emit(&dialect.Event{Kind: dialect.End})
	}
}

func (d *streamDecoder) close(emit func(*dialect.Event)) {
	if d.open {
		d.open = false
		emit(&dialect.Event{Kind: dialect.PartEnd})
	}
}

func (d *streamDecoder) begin(index int64, p dialect.Part, emit func(*dialect.Event)) {
	d.close(emit)
	d.open, d.index, d.kind = true, index, p.Kind
	emit(&dialect.Event{Kind: dialect.PartBegin, Part: p})
}

// start begins a block. Only calls of tools are announced; others begin with their first
// delta.
func (d *streamDecoder) start(ev jsonscan.Value, emit func(*dialect.Event)) {
	d.close(emit)
	call := ev.Get("start").Get("toolUse")
	if !call.Exists() {
		return
	}
	p := dialect.Part{Kind: dialect.ToolCall}
	p.ID, _ = call.Get("toolUseId").Str()
	p.Name, _ = call.Get("name").Str()
	d.begin(indexOf(ev), p, emit)
}

func (d *streamDecoder) delta(ev jsonscan.Value, emit func(*dialect.Event)) error {
	delta := ev.Get("delta")
	out := dialect.Event{Kind: dialect.Delta}
	part := dialect.Part{Kind: dialect.Text}
	if text := delta.Get("text"); text.Exists() {
		out.Text, _ = text.Str()
	} else if call := delta.Get("toolUse"); call.Exists() {
		part.Kind = dialect.ToolCall
		out.Text, _ = call.Get("input").Str()
	} else if thought := delta.Get("reasoningContent"); thought.Exists() {
		part.Kind = dialect.Reasoning
		part.Redacted, _ = thought.Get("redactedContent").Str()
		out.Text, _ = thought.Get("text").Str()
		out.Signature, _ = thought.Get("signature").Str()
	}
	if out.Text == "" && out.Signature == "" && part.Redacted == "" {
		return nil // also citations and what is new: no other API has them
	}
	if index := indexOf(ev); !d.open || d.index != index {
		if part.Kind == dialect.ToolCall {
			return &dialect.BodyError{Field: "contentBlockDelta", Reason: "belongs to a call that has not begun"}
		}
		d.begin(index, part, emit)
	}
	if d.kind != part.Kind {
		return &dialect.BodyError{Field: "contentBlockDelta", Reason: "is of another kind than its block"}
	}
	if out.Text != "" || out.Signature != "" {
		emit(&out)
	}
	return nil
}
