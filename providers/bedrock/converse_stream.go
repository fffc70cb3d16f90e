package bedrock

import (
	"encoding/json"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// NewStreamDecoder reads the events of ConverseStream.
func (converse) NewStreamDecoder() dialect.StreamDecoder { return &streamDecoder{} }

var (
	_ dialect.StreamDecoder = (*streamDecoder)(nil)
	_ dialect.BodyEnder     = (*streamDecoder)(nil)
)

type streamDecoder struct {
	begun, finished bool
	// open is the block that is open, at index.
	open  bool
	index int
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
	var ev wireEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return &dialect.BodyError{Field: name, Reason: "is an event that can't be read"}
	}
	if !d.begun {
		d.begun = true
		emit(&dialect.Event{Kind: dialect.Begin})
	}
	switch name {
	case "contentBlockStart":
		d.start(&ev, emit)
	case "contentBlockDelta":
		return d.delta(&ev, emit)
	case "contentBlockStop":
		if d.open && d.index == ev.Index {
			d.close(emit)
		}
	case "messageStop":
		d.close(emit)
		d.finished = true
		emit(&dialect.Event{Kind: dialect.Finish, Stop: stopOf(ev.StopReason)})
	case "metadata":
		if u := usageOf(ev.Usage); u.Known {
			emit(&dialect.Event{Kind: dialect.Tally, Usage: u})
		}
		if d.finished {
			emit(&dialect.Event{Kind: dialect.End})
		}
	}
	return nil
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

func (d *streamDecoder) begin(index int, p dialect.Part, emit func(*dialect.Event)) {
	d.close(emit)
	d.open, d.index, d.kind = true, index, p.Kind
	emit(&dialect.Event{Kind: dialect.PartBegin, Part: p})
}

// start begins a block. Only calls of tools are announced; others begin with their first
// delta.
func (d *streamDecoder) start(ev *wireEvent, emit func(*dialect.Event)) {
	d.close(emit)
	if ev.Start != nil && ev.Start.ToolUse != nil {
		d.begin(ev.Index, dialect.Part{Kind: dialect.ToolCall, ID: ev.Start.ToolUse.ID, Name: ev.Start.ToolUse.Name}, emit)
	}
}

func (d *streamDecoder) delta(ev *wireEvent, emit func(*dialect.Event)) error {
	if ev.Delta == nil {
		return nil
	}
	out := dialect.Event{Kind: dialect.Delta}
	part := dialect.Part{Kind: dialect.Text}
	switch {
	case ev.Delta.ToolUse != nil:
		part.Kind, out.Text = dialect.ToolCall, ev.Delta.ToolUse.Input
	case ev.Delta.Reasoning != nil:
		part.Kind, part.Redacted = dialect.Reasoning, ev.Delta.Reasoning.Redacted
		out.Text, out.Signature = ev.Delta.Reasoning.Text, ev.Delta.Reasoning.Signature
	default:
		out.Text = ev.Delta.Text
	}
	if out.Text == "" && out.Signature == "" && part.Redacted == "" {
		return nil
	}
	if !d.open || d.index != ev.Index {
		if part.Kind == dialect.ToolCall {
			return &dialect.BodyError{Field: "contentBlockDelta", Reason: "belongs to a call that has not begun"}
		}
		d.begin(ev.Index, part, emit)
	}
	if d.kind != part.Kind {
		return &dialect.BodyError{Field: "contentBlockDelta", Reason: "is of another kind than its block"}
	}
	if out.Text != "" || out.Signature != "" {
		emit(&out)
	}
	return nil
}
