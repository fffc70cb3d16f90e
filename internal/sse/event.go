package sse

import "bytes"

// Event is one block of the stream up to and including its blank line, or one
// stand-alone comment or blank line. Its slices are valid only until the
// callback returns.
type Event struct {
	// Raw is every byte of the event. Never empty.
	Raw []byte
	// Name is the value of the last "event" field, nil if there is none.
	Name []byte
	// Data is the value of the "data" fields joined by newlines.
	Data []byte
	// HasData is false for comments, blank lines, and events without a data field.
	HasData bool
	// Truncated is set when the stream ended before the event's blank line. A
	// browser would discard it; engines that forget the last newline exist.
	Truncated bool
	// Oversize marks a piece of an event longer than MaxEvent: it has Raw only.
	Oversize bool
}

// Done reports whether the event is the "[DONE]" that ends OpenAI streams.
func (e *Event) Done() bool {
	return e.HasData && string(bytes.TrimSpace(e.Data)) == "[DONE]"
}

// lineKind is what a line does to the event around it.
type lineKind uint8

const (
	blankLine lineKind = iota
	commentLine
	fieldLine
)

func kindOf(line []byte) lineKind {
	switch {
	case len(line) == 0:
		return blankLine
	case line[0] == ':':
		return commentLine
	default:
		return fieldLine
	}
}

// splitField cuts a line at its colon; one space after that is not part of the
// value. A line without a colon is a field with an empty value.
func splitField(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}
