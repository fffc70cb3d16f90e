package fleettest

import (
	"fmt"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// sockets opens ZeroMQ publishers on loopback ports, the same ones in each life.
type sockets struct {
	topic string

	mu    sync.Mutex
	ranks map[int]follow.Endpoint
}

func (s *sockets) open(rank int) (Publisher, follow.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.ranks[rank]
	if !known {
		const free = "tcp://127.0.0.1:0"
		at = follow.Endpoint{Events: free, Replay: free}
	}
	p, err := zmtp.NewPublisher(zmtp.PublisherConfig{Events: at.Events, Replay: at.Replay})
	if err != nil {
		return nil, follow.Endpoint{}, fmt.Errorf("open event sockets: %w", err)
	}
	at = p.Endpoint()
	at.Rank = rank
	s.ranks[rank] = at
	return &socketPublisher{p: p, topic: s.topic}, at, nil
}

// socketPublisher is a ZeroMQ publisher with the faults of a Pipe.
type socketPublisher struct {
	p     *zmtp.Publisher
	topic string

	mu   sync.Mutex
	next uint64
	lose int
}

// Publish implements Publisher. After Close it only counts, as a dying engine
// does.
func (s *socketPublisher) Publish(payload []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := follow.Message{Topic: s.topic, Seq: s.next, Payload: payload}
	s.next++
	send := s.p.Send
	if s.lose > 0 {
		s.lose--
		send = s.p.Record
	}
	_ = send(m) // fails only after Close
	return m.Seq
}

// Lose makes the next n messages reach no subscriber, but a replay.
func (s *socketPublisher) Lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose += n
}

// Burn uses up a sequence number.
func (s *socketPublisher) Burn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
}

// Close closes the sockets.
func (s *socketPublisher) Close() error { return s.p.Close() }
