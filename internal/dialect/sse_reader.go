package dialect

import (
	"errors"
	"io"
)

// Reader is the client's stream, translated from the service's as it is read. It ends with
// io.EOF if the answer, or an error in its place, is whole, and else with what broke the
// service's off: io.ErrUnexpectedEOF where the body just ended. It is not safe for concurrent
// use but for Close, which closes the service's body.
func (s *Stream) Reader(body io.ReadCloser) io.ReadCloser {
	return &streamReader{s: s, body: body}
}

// readSize is what is read from a service at once, in bytes.
const readSize = 16 << 10

type streamReader struct {
	s    *Stream
	body io.ReadCloser
	in   []byte
	out  []byte // what is left of buf
	buf  []byte
	err  error
}

func (r *streamReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// fill reads once. What came before an error is still handed on.
func (r *streamReader) fill() {
	if r.in == nil {
		r.in = make([]byte, readSize)
	}
	n, err := r.body.Read(r.in)
	r.buf = r.buf[:0]
	if n > 0 {
		r.buf, r.err = r.s.Feed(r.buf, r.in[:n])
	}
	switch {
	case r.err != nil || err == nil:
	case errors.Is(err, io.EOF):
		if r.buf, r.err = r.s.Finish(r.buf); r.err == nil {
			r.err = io.EOF
		}
	case r.s.Ended() || r.s.Failure() != nil: // the client has all there is
		r.err = io.EOF
	default:
		r.err = err
	}
	r.out = r.buf
}

func (r *streamReader) Close() error { return r.body.Close() }
