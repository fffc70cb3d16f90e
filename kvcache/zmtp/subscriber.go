package zmtp

import (
	"context"
	"strings"
	"sync"
)

// maxQueued bounds, in bytes, what waits for one subscriber, whatever the
// high-water mark allows.
const maxQueued = 256 << 20

// maxTopics bounds one subscriber's prefixes.
const maxTopics = 1024

// subscriber is one connection of a Publisher.
type subscriber struct {
	link *link
	wake chan struct{} // capacity 1: there is something to write

	mu     sync.Mutex
	topics map[string]int // prefix -> how often subscribed
	queue  [][]byte
	bytes  int
}

// offer queues a message if the subscriber wants it and has room for it.
func (s *subscriber) offer(topic string, wire []byte, hwm int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wants(topic) || len(s.queue) >= hwm || (s.bytes > 0 && s.bytes+len(wire) > maxQueued) {
		return
	}
	s.queue = append(s.queue, wire)
	s.bytes += len(wire)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) wants(topic string) bool {
	for prefix := range s.topics {
		if strings.HasPrefix(topic, prefix) {
			return true
		}
	}
	return false
}

func (s *subscriber) subscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.topics) > 0
}

// subscribe counts a prefix up or down. Prefixes beyond maxTopics are ignored.
func (s *subscriber) subscribe(prefix string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.topics[prefix]; !known && len(s.topics) >= maxTopics {
		return
	}
	s.topics[prefix] += by
	if s.topics[prefix] <= 0 {
		delete(s.topics, prefix)
	}
}

// readLoop takes subscriptions, as commands (3.1) or as messages (3.0).
func (s *subscriber) readLoop() {
	for {
		parts, err := s.link.readMessage(func(name string, data []byte) error {
			switch name {
			case cmdSubscribe:
				s.subscribe(string(data), 1)
			case cmdCancel:
				s.subscribe(string(data), -1)
			default:
			}
			return nil
		})
		if err != nil {
			return
		}
		if on, prefix, ok := parts.Subscription(); ok {
			s.subscribe(prefix, on)
		}
	}
}

// writeLoop writes one message at a time, so that what is queued stays counted
// until it is on its way.
func (s *subscriber) writeLoop(ctx context.Context) {
	for {
		wire := s.pop()
		if wire == nil {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if s.link.write(wire) != nil {
			_ = s.link.nc.Close() // unblocks the reader, which ends this connection
			return
		}
	}
}

func (s *subscriber) pop() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	wire := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.bytes -= len(wire)
	return wire
}
