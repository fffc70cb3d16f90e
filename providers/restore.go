package providers

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// small is how long an answer is at most that is held in memory, so that its new length
// can be told, in bytes.
const small = 1 << 20

// restore gives the model in an answer the name that the client asked for.
func (c *call) restore(out *http.Response, streams bool) error {
	kind := mediaType(out.Header)
	if c.req.Method == http.MethodHead {
		return nil
	}
	var name []byte
	if !c.offer.from.KeepModel && c.offer.model.Name != "" {
		name = jsonscan.AppendString(nil, c.x.Asked)
	}
	switch {
	case streams: // errors in it are noted, whatever its model is called
		out.Body = &events{src: out.Body, call: c, name: name}
		out.ContentLength = -1
	case name == nil:
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
	case out.ContentLength < 0 || out.ContentLength > small:
		out.Body = &renamed{src: out.Body, r: renamer{name: name}}
		out.ContentLength = -1
	default:
		whole, err := io.ReadAll(out.Body)
		if err != nil {
			return c.fail(ClassServer, "", plainly(err))
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
