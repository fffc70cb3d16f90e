package dialect

import (
	"io"

	"github.com/kvsteer/kvsteer/internal/sse"
)

// Framing takes a body apart into frames. It is of one stream.
type Framing interface {
	// Feed takes the next bytes, in any split, and calls frame for each frame that they
	// complete, with the event's name ("" for none) and its data (nil for a mere sign of
	// life). It stops at frame's first error, and returns that.
	Feed(p []byte, frame func(name string, data []byte) error) error
	// End is called when the body ended as HTTP has it. What is left may be a last frame.
	End(frame func(name string, data []byte) error) error
}

// BodyEnder is a StreamDecoder of an API whose services don't all say the last word. BodyEnd
// is called where the body ended without it, but as HTTP has it: a decoder that has seen the
// answer's end emits what it held back, and End.
type BodyEnder interface {
	BodyEnd(emit func(*Event))
}

// Stream translates a streamed answer as it comes. However the input is split, the outputs
// are the same bytes in total. It is not safe for concurrent use.
type Stream struct {
	framing Framing
	decoder StreamDecoder
	encoder StreamEncoder
	// frame and emit are methods, bound once.
	frame   func(name string, data []byte) error
	emit    func(*Event)
	out     []byte
	err     error
	failure *Failure
	usage   Usage
	ended   bool
}

// NewStream starts to translate a streamed answer. A nil framing is server-sent events.
func (x *Exchange) NewStream(f Framing) *Stream {
	if f == nil {
		f = newSSEFraming(x.maxEvent)
	}
	s := &Stream{framing: f, decoder: x.service.NewStreamDecoder(), encoder: x.client.NewStreamEncoder(&x.answer)}
	s.frame, s.emit = s.onFrame, s.onEvent
	return s
}

// Feed takes the service's next bytes and appends what they are for the client to dst. After
// an error, which is a *[BodyError], the stream is broken; what came before it is in dst.
func (s *Stream) Feed(dst, p []byte) ([]byte, error) {
	return s.run(dst, func() error { return s.framing.Feed(p, s.frame) })
}

// Finish is called when the service's body ended as HTTP has it, and appends what is left to
// say. The error is io.ErrUnexpectedEOF if the answer isn't whole: the client's stream must
// then break off, too. After a broken connection don't call it.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	return s.run(dst, func() error {
		if err := s.framing.End(s.frame); err != nil {
			return err
		}
		if e, ok := s.decoder.(BodyEnder); ok && !s.ended && s.failure == nil {
			e.BodyEnd(s.emit)
		}
		if !s.ended && s.failure == nil {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
}

func (s *Stream) run(dst []byte, step func() error) ([]byte, error) {
	if s.err != nil {
		return dst, s.err
	}
	s.out = dst
	s.err = step()
	dst, s.out = s.out, nil
	return dst, s.err
}

// Failure is the error that the service put into its stream; nil for none so far.
func (s *Stream) Failure() *Failure { return s.failure }

// Usage is what the service said last.
func (s *Stream) Usage() Usage { return s.usage }

// Ended reports whether the service has said that its answer is whole.
func (s *Stream) Ended() bool { return s.ended }

func (s *Stream) onFrame(name string, data []byte) error {
	switch {
	case s.ended || s.failure != nil:
		return nil // what follows the last word
	case data == nil:
		s.onEvent(&Event{Kind: Keep})
		return nil
	default:
		return s.decoder.Decode(name, data, s.emit)
	}
}

func (s *Stream) onEvent(ev *Event) {
	if s.ended || s.failure != nil {
		return
	}
	switch ev.Kind {
	case End:
		s.ended = true
	case Fail:
		s.failure = ev.Failure
	case Begin, Finish, Tally:
		if ev.Usage.Known {
			s.usage = ev.Usage
		}
	default:
	}
	s.out = s.encoder.Append(s.out, ev)
}

// sseFraming is that of server-sent events.
type sseFraming struct {
	scanner sse.Scanner
	name    string
	frame   func(name string, data []byte) error
	err     error
}

func newSSEFraming(maxEvent int) *sseFraming {
	return &sseFraming{scanner: sse.Scanner{MaxEvent: maxEvent}}
}

func (f *sseFraming) Feed(p []byte, frame func(name string, data []byte) error) error {
	f.frame = frame
	f.scanner.Feed(p, f.event)
	return f.err
}

func (f *sseFraming) End(frame func(name string, data []byte) error) error {
	f.frame = frame
	f.scanner.Flush(f.event)
	return f.err
}

func (f *sseFraming) event(ev sse.Event) {
	switch {
	case f.err != nil:
	case ev.Oversize:
		f.err = &BodyError{Reason: "has an event that is too long"}
	case ev.HasData:
		if string(ev.Name) != f.name { // names repeat: one string serves
			f.name = string(ev.Name)
		}
		f.err = f.frame(f.name, ev.Data)
	case len(ev.Raw) > 0 && ev.Raw[0] == ':':
		f.err = f.frame("", nil)
	default:
	}
}
