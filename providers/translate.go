package providers

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// maxAnswer bounds a whole answer that is translated, in bytes.
const maxAnswer = 64 << 20

var (
	errAnswerShape = errors.New("the answer is not of the form that was asked for")
	errAnswerLong  = errors.New("the answer is too long to be translated")
	errAnswerRead  = errors.New("the answer can't be read")
)

// translate turns an answer's body into the client's API.
func (c *call) translate(out *http.Response, streams bool) error {
	if streams && !c.exchange.Stream() {
		c.bad(ClassServer, 0, false)
		return c.fail(ClassServer, "", errAnswerShape)
	}
	if streams {
		var framing dialect.Framing
		if f, ok := c.offer.from.Kind.(Framer); ok {
			framing = f.Framing()
		}
		out.Body = &translated{src: out.Body, call: c, stream: c.exchange.NewStream(framing)}
		out.ContentLength = -1
		out.Header.Set("Content-Type", "text/event-stream")
		out.Header.Set("Cache-Control", "no-cache")
		return nil
	}
	whole, err := io.ReadAll(io.LimitReader(out.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.fail(ClassServer, "", plainly(err))
	case len(whole) > maxAnswer:
		return c.fail(ClassServer, "", errAnswerLong)
	default:
	}
	read, form := c.exchange.Answer, "application/json"
	if c.exchange.Stream() { // some services know no streams, or not of everything
		read, form = c.exchange.AnswerStream, "text/event-stream"
	}
	text, err := read(whole)
	if err != nil {
		c.bad(ClassServer, 0, false)
		return c.fail(ClassServer, "", errAnswerRead)
	}
	out.Body, out.ContentLength = held{bytes.NewReader(text), out.Body}, int64(len(text))
	out.Header.Set("Content-Type", form)
	return nil
}

// translated is a stream in the client's API.
type translated struct {
	src    io.ReadCloser
	call   *call
	stream *dialect.Stream
	out    []byte
	all    []byte
	raw    []byte
	last   error
	failed bool
}

func (b *translated) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.last != nil {
			return 0, b.last
		}
		b.more()
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// more reads on, and translates what there is.
func (b *translated) more() {
	if b.raw == nil {
		b.raw = make([]byte, chunk)
	}
	n, err := b.src.Read(b.raw)
	b.all, b.last = b.stream.Feed(b.all[:0], b.raw[:n])
	switch {
	case b.last != nil:
		b.call.bad(ClassServer, 0, false)
		b.last = errAnswerRead
	case errors.Is(err, io.EOF):
		b.all, b.last = b.stream.Finish(b.all)
		if b.last != nil {
			b.call.bad(ClassServer, 0, false)
		} else {
			b.last = io.EOF
		}
	case err != nil && b.stream.Ended():
		b.last = io.EOF // it had said its last word
	default:
		b.last = err
	}
	if f := b.stream.Failure(); f != nil && !b.failed {
		b.failed = true
		b.call.streamFailed(f)
	}
	b.out = b.all
}

func (b *translated) Close() error { return b.src.Close() }
