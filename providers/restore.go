package providers

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/sse"
)

// small is how long an answer is at most that is held in memory, so that its new length
// can be told, in bytes.
const small = 1 << 20

// restore gives the model in an answer the name that the client asked for.
func (c *call) restore(out *http.Response, streams bool) error {
	kind := mediaType(out.Header)
	if c.offer.from.KeepModel || c.offer.model.Name == "" || c.req.Method == http.MethodHead {
		return nil
	}
	name := jsonscan.AppendString(nil, c.x.Asked)
	switch {
	case streams:
		out.Body = &events{src: out.Body, call: c, name: name}
		out.ContentLength = -1
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
	case out.ContentLength < 0 || out.ContentLength > small:
		out.Body = &renamed{src: out.Body, r: renamer{name: name}}
		out.ContentLength = -1
	default:
		whole, err := io.ReadAll(out.Body)
		if err != nil {
			return c.fail(ClassServer, "", err)
		}
		r := renamer{name: name}
		whole = r.feed(make([]byte, 0, len(whole)+len(name)), whole)
		out.Body, out.ContentLength = held{bytes.NewReader(whole), out.Body}, int64(len(whole))
	}
	return nil
}

// held is a body in memory.
type held struct {
	*bytes.Reader
	io.Closer
}

// renamer replaces the string that the top-level member "model" of a JSON object has, as
// the text comes, and leaves every other byte as it is. It holds nothing back.
type renamer struct {
	name []byte // with its quotes

	depth           int
	inString, slash bool // the last byte was a backslash
	value           bool // at the top level, after a colon
	inKey, isModel  bool
	swallow         bool // within the string that is replaced
	key             [len("model") + 1]byte
	keyLen          int
}

// feed appends what p becomes to dst.
func (r *renamer) feed(dst, p []byte) []byte {
	from := 0 // of what is not copied yet
	for i, b := range p {
		switch {
		case r.inString:
			if r.within(b) && r.swallow {
				dst = append(dst, r.name...)
				r.swallow, from = false, i+1
			}
		case b == '"':
			r.inString = true
			if r.depth != 1 {
				continue
			}
			if !r.value {
				r.inKey, r.keyLen = true, 0
			} else if r.isModel {
				dst = append(dst, p[from:i]...)
				r.swallow = true
			}
		default:
			r.outside(b)
		}
	}
	if r.swallow {
		return dst
	}
	return append(dst, p[from:]...)
}

// within takes a byte of a string. It reports whether that is its end.
func (r *renamer) within(b byte) bool {
	switch {
	case r.slash:
		r.slash = false
	case b == '\\':
		r.slash = true
	case b == '"':
		r.inString = false
		if r.inKey {
			r.inKey, r.isModel = false, string(r.key[:r.keyLen]) == "model"
		}
		return true
	default:
	}
	if r.inKey && r.keyLen < len(r.key) {
		r.key[r.keyLen] = b
		r.keyLen++
	}
	return false
}

func (r *renamer) outside(b byte) {
	switch b {
	case '{', '[':
		r.depth++
	case '}', ']':
		r.depth--
	case ':':
		r.value = r.value || r.depth == 1
	case ',':
		if r.depth == 1 {
			r.value, r.isModel = false, false
		}
	default:
	}
}

// renamed is a body through a renamer.
type renamed struct {
	src  io.ReadCloser
	r    renamer
	out  []byte // not read yet
	all  []byte // its memory
	raw  []byte
	last error
}

const chunk = 16 << 10

func (b *renamed) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.last != nil {
			return 0, b.last
		}
		if b.raw == nil {
			b.raw = make([]byte, chunk)
		}
		var n int
		n, b.last = b.src.Read(b.raw)
		b.all = b.r.feed(b.all[:0], b.raw[:n])
		b.out = b.all
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *renamed) Close() error { return b.src.Close() }

// events is a stream of events whose models are renamed, event by event.
type events struct {
	src     io.ReadCloser
	call    *call
	name    []byte
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
	if !ev.HasData || ev.Oversize || ev.Truncated {
		b.all = append(b.all, ev.Raw...)
		return
	}
	if !b.failed && (string(ev.Name) == "error" || bytes.HasPrefix(ev.Data, []byte(`{"error"`))) {
		b.failed = true
		b.call.streamFailed(b.call.offer.from.Kind.Failure(0, nil, ev.Data))
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
