package providers

import (
	"bytes"
	"io"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/sse"
)

// events is a stream of events whose models are renamed, event by event, and whose errors
// are noted.
type events struct {
	src     io.ReadCloser
	call    *call
	name    []byte // nil: models keep their names
	scanner sse.Scanner
	scratch []byte
	out     []byte
	all     []byte
	raw     []byte
	last    error
	failed  bool
}

func (b *events) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.last != nil {
			return 0, b.last
		}
		if b.raw == nil {
			b.raw = make([]byte, chunk)
		}
		var n int
		n, b.last = b.src.Read(b.raw)
		b.all = b.all[:0]
		b.scanner.Feed(b.raw[:n], b.event)
		if b.last != nil {
			b.scanner.Flush(b.event)
		}
		b.out = b.all
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *events) Close() error { return b.src.Close() }

func (b *events) event(ev sse.Event) {
	if ev.HasData && !ev.Oversize && mayFail(ev) {
		ev = b.failing(ev)
	}
	if b.name == nil || !ev.HasData || ev.Oversize || ev.Truncated {
		b.all = append(b.all, ev.Raw...)
		return
	}
	at := bytes.Index(ev.Raw, ev.Data)
	// A quote within a string has a backslash before it, so this is a whole string, or not there.
	key := bytes.Index(ev.Data, []byte(`"model"`))
	if at < 0 || key < 0 {
		b.all = append(b.all, ev.Raw...)
		return
	}
	from, to := b.modelAt(ev.Data, key)
	if to == from {
		from, to = modelIn(ev.Data)
	}
	b.all = append(b.all, ev.Raw[:at+from]...)
	if to > from {
		b.all = append(b.all, b.name...)
	}
	b.all = append(b.all, ev.Raw[at+to:]...)
}

// modelAt is the short way, for each chunk of a stream: where the model's name stands if
// the string at key is that member's of the object itself, and all before it is plain.
func (b *events) modelAt(data []byte, key int) (from, to int) {
	var r renamer
	b.scratch = r.feed(b.scratch[:0], data[:key])
	if r.depth != 1 || r.value || r.inString || data[0] != '{' {
		return 0, 0
	}
	rest := data[key+len(`"model"`):]
	trimmed := bytes.TrimLeft(rest, " ")
	if !bytes.HasPrefix(trimmed, []byte{':'}) {
		return 0, 0
	}
	trimmed = bytes.TrimLeft(trimmed[1:], " ")
	if !bytes.HasPrefix(trimmed, []byte{'"'}) {
		return 0, 0
	}
	end := bytes.IndexAny(trimmed[1:], `"\\`)
	if end < 0 || trimmed[1+end] == '\\' {
		return 0, 0
	}
	from = len(data) - len(trimmed)
	return from, from + end + 2
}

// modelIn returns where the model's name stands in the data of an event: at the top
// (chat, completions), in a message (messages) or a response (responses).
func modelIn(data []byte) (from, to int) {
	v, err := jsonscan.ParseValue(data, 0)
	if err != nil {
		return 0, 0
	}
	for _, m := range []jsonscan.Value{v.Get("model"), v.Get("message").Get("model"), v.Get("response").Get("model")} {
		if m.Kind() == jsonscan.KindString {
			return m.Offset(), m.Offset() + len(m.Raw())
		}
	}
	return 0, 0
}
