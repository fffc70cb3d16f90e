package eventstream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// perMessage is what a buffered message is reckoned to cost beyond its bytes, so
// that a flood of empty messages is bounded too.
const perMessage = 128

// Sink is the bounded buffer between the goroutine that owns a socket and the
// one that receives. When it is full the socket is not read, so the pressure
// reaches the publisher, which drops: the sequence numbers then show a gap.
//
// One goroutine pushes, one pops; all methods are safe for concurrent use.
type Sink struct {
	job       Job
	limit     int64
	malformed *atomic.Int64

	mu    sync.Mutex
	queue []follow.Message
	head  int
	bytes int64
	note  error
	up    bool
	// changed, if not nil, is closed when note or up change.
	changed chan struct{}
	ended   bool
	end     error

	ready chan struct{} // capacity 1: something to pop, or the end
	space chan struct{} // capacity 1: something was popped
}

func newSink(job Job, limit int64, malformed *atomic.Int64) *Sink {
	return &Sink{
		job:       job,
		limit:     limit,
		malformed: malformed,
		ready:     make(chan struct{}, 1),
		space:     make(chan struct{}, 1),
	}
}

// Connected records that the peer speaks the protocol and has been asked for
// messages.
func (s *Sink) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note, s.up = nil, true
	s.change()
}

// Failed records why an attempt to connect failed.
func (s *Sink) Failed(err error) {
	err = Brief(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note != nil && s.note.Error() == err.Error() {
		return // an attempt like the last one is no news
	}
	s.note = err
	s.change()
}

// change tells who asked for the link. s.mu is held.
func (s *Sink) change() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// link says how far the stream has got.
func (s *Sink) link() follow.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return follow.Link{Up: true}
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return follow.Link{Err: s.note, Changed: s.changed}
}

// ErrComplete ends a source whose job is done.
var ErrComplete = errors.New("eventstream: complete")

// Take gives the sink a message, waiting for space until ctx ends. An error ends
// the source: ErrComplete after a replay's end marker, or ctx's. What makes no
// sense is counted and skipped.
func (s *Sink) Take(ctx context.Context, parts *Parts) error {
	var m follow.Message
	var ok, end bool
	if s.job.Replay {
		m, end, ok = parts.Replayed()
	} else {
		m, ok = parts.Live()
	}
	switch {
	case !ok:
		s.malformed.Add(1)
		return nil
	case end:
		return ErrComplete
	case !s.job.Replay && !strings.HasPrefix(m.Topic, s.job.Topic):
		return nil // a publisher that doesn't filter is no reason to fail
	default:
		return s.push(ctx, m)
	}
}

// push appends m, waiting for space until ctx ends. A message larger than the
// whole buffer is taken when the buffer is empty.
func (s *Sink) push(ctx context.Context, m follow.Message) error {
	size := cost(m)
	for {
		s.mu.Lock()
		if s.bytes == 0 || s.bytes+size <= s.limit {
			s.queue = append(s.queue, m)
			s.bytes += size
			s.mu.Unlock()
			signal(s.ready)
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish ends the stream.
func (s *Sink) finish(err error) {
	if errors.Is(err, ErrComplete) {
		err = nil
	}
	s.mu.Lock()
	s.ended, s.end = true, err
	s.mu.Unlock()
	signal(s.ready)
}

// take pops a message if there is one; ended reports that there never will be.
func (s *Sink) take() (m follow.Message, ok, ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == len(s.queue) {
		return follow.Message{}, false, s.ended, s.end
	}
	m = s.queue[s.head]
	s.queue[s.head] = follow.Message{} // let go of the payload
	s.head++
	s.bytes -= cost(m)
	switch {
	case s.head == len(s.queue):
		s.queue, s.head = s.queue[:0], 0
	case s.head >= len(s.queue)/2 && s.head > 64:
		// A reader that never quite catches up must not make the slice grow.
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	default:
	}
	signal(s.space)
	return m, true, false, nil
}

// whyNot returns what kept the stream from being established, nil if nothing is
// known or it was.
func (s *Sink) whyNot() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note
}

func cost(m follow.Message) int64 {
	return int64(len(m.Payload)+len(m.Topic)) + perMessage
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
