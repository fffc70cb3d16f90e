package eventstream

import (
	"bytes"
	"errors"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Sequencer is what publishers have in common: it numbers messages, keeps them for
// replay and hands them to the transport, one at a time, so that they are sent in
// the order of their numbers. It is safe for concurrent use.
type Sequencer struct {
	// History has the messages kept for replay.
	History *History

	send   func(frames [][]byte) error
	closed error // what the methods return once closed

	mu   sync.Mutex
	over bool
	next uint64
}

// NewSequencer makes one that keeps the latest history messages, 0 for
// DefaultHistory. send is called for each message, one call at a time and none once
// Close has been called; after that, methods return closed.
func NewSequencer(history int, closed error, send func(frames [][]byte) error) *Sequencer {
	return &Sequencer{History: NewHistory(history), send: send, closed: closed}
}

// Publish sends a message under the next sequence number, which it returns. payload
// is copied.
func (s *Sequencer) Publish(topic string, payload []byte) (seq uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := follow.Message{Topic: topic, Seq: s.next, Payload: payload}
	return m.Seq, s.both(m)
}

// Send sends m under its own sequence number, which the next Publish follows.
func (s *Sequencer) Send(m follow.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.both(m)
}

// Record keeps m for replay without sending it: to a subscriber it is a message that
// got lost.
func (s *Sequencer) Record(m follow.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(m)
}

// SendFrames sends any frames at all, kept for no replay.
func (s *Sequencer) SendFrames(frames [][]byte) error {
	if len(frames) == 0 {
		return errors.New("publisher: a message has at least one frame")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.closed
	}
	return s.send(frames)
}

func (s *Sequencer) both(m follow.Message) error {
	if err := s.record(m); err != nil {
		return err
	}
	return s.send([][]byte{[]byte(m.Topic), SeqFrame(m.Seq), m.Payload})
}

func (s *Sequencer) record(m follow.Message) error {
	if s.over {
		return s.closed
	}
	m.Payload = bytes.Clone(m.Payload)
	s.next = m.Seq + 1
	s.History.Add(m)
	return nil
}

// Close ends it. No message is being sent any more when it returns. It is
// idempotent.
func (s *Sequencer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
