package bedrock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

const (
	preludeLen = 12 // total length, length of the headers, checksum of both
	minMessage = 16
	// maxMessage bounds one message, in bytes. The service's are some kB.
	maxMessage = 16 << 20
	// keepBuffer is the most memory that is held on to between messages.
	keepBuffer = 64 << 10
)

// errorEvent is the name of frames that are errors without a name of their own.
const errorEvent = "error"

// frames takes an event stream apart. The checksums are checked.
type frames struct {
	decoder *eventstream.Decoder
	buf     []byte
	payload []byte
	reader  bytes.Reader
}

func newFrames() *frames { return &frames{decoder: eventstream.NewDecoder()} }

func broken(reason string) error { return &dialect.BodyError{Field: "event stream", Reason: reason} }

// Feed takes the next bytes.
func (f *frames) Feed(p []byte, fn func(name string, data []byte) error) error {
	w := p
	held := len(f.buf) > 0
	if held {
		f.buf = append(f.buf, p...)
		w = f.buf
	}
	rest, err := f.messages(w, fn)
	switch {
	case err != nil || len(rest) == 0:
		f.buf = f.buf[:0]
	case held:
		f.buf = f.buf[:copy(f.buf, rest)]
	default:
		f.buf = append(f.buf[:0], rest...)
	}
	if len(f.buf) == 0 && cap(f.buf) > keepBuffer {
		f.buf = nil
	}
	return err
}

// messages hands over the whole messages in w and returns the rest.
func (f *frames) messages(w []byte, fn func(name string, data []byte) error) ([]byte, error) {
	for len(w) >= preludeLen {
		n := int64(binary.BigEndian.Uint32(w))
		if n < minMessage || n > maxMessage {
			return nil, broken("has a message of a length that none has")
		}
		if n > int64(len(w)) {
			break
		}
		if err := f.message(w[:n], fn); err != nil {
			return nil, err
		}
		w = w[n:]
	}
	return w, nil
}

func (f *frames) message(raw []byte, fn func(name string, data []byte) error) error {
	f.reader.Reset(raw)
	m, err := f.decoder.Decode(&f.reader, f.payload[:0])
	if err != nil || f.reader.Len() > 0 {
		return malformed(err)
	}
	if cap(m.Payload) <= keepBuffer {
		f.payload = m.Payload
	}
	switch header(m, ":message-type") {
	case "event":
		return fn(header(m, ":event-type"), m.Payload)
	case "exception":
		return fn(header(m, ":exception-type"), m.Payload)
	case "error":
		data := append([]byte(`{"code":`), jsonscan.AppendString(nil, header(m, ":error-code"))...)
		data = append(data, `,"message":`...)
		data = jsonscan.AppendString(data, header(m, ":error-message"))
		return fn(errorEvent, append(data, '}'))
	default:
		return nil
	}
}

// malformed keeps what a decoder's error says, which may quote the message, out of logs.
func malformed(err error) error {
	var sum eventstream.ChecksumError
	if errors.As(err, &sum) {
		return broken("has a message with a wrong checksum")
	}
	return broken("has a malformed message")
}

// header returns a header that is a string.
func header(m eventstream.Message, name string) string {
	v, ok := m.Headers.Get(name).(eventstream.StringValue)
	if !ok {
		return ""
	}
	return string(v)
}

// End is called at the end: a stream may end between two messages only.
func (f *frames) End(func(name string, data []byte) error) error {
	if len(f.buf) > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}
