package trtllm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// errTorn is why a connection is lost although polls succeed again.
var errTorn = errors.New("an answer was cut off, and no event since tells whether any is missing")

// conn is one rank's subscription.
type conn struct {
	source *source
	rank   int
	lane   *lane
	wake   chan struct{} // capacity 1: the lane changed
	closed chan struct{} // closed by Close
	once   sync.Once
}

// Recv implements [follow.Conn].
func (c *conn) Recv(ctx context.Context) (follow.Message, error) {
	for {
		select {
		case <-c.closed:
			return follow.Message{}, follow.ErrClosed
		default:
		}
		if m, ok, err := c.take(); ok || err != nil {
			return m, err
		}
		select {
		case <-c.wake:
		case <-c.closed:
		case <-ctx.Done():
			return follow.Message{}, ctx.Err()
		}
	}
}

// take returns the next event that is there, or the error that ended the lane.
func (c *conn) take() (m follow.Message, ok bool, err error) {
	s, l := c.source, c.lane
	s.mu.Lock()
	if len(l.queue) == 0 {
		broken := l.broken
		l.queue = nil // with the room that a burst took
		s.mu.Unlock()
		if broken != nil {
			return m, false, fmt.Errorf("%w: %w", follow.ErrDisconnected, broken)
		}
		return m, false, nil
	}
	it := l.queue[0]
	l.queue[0] = item{}
	l.queue = l.queue[1:]
	l.bytes -= it.size
	s.mu.Unlock()
	return it.Message, true, nil
}

// Replay implements [follow.Conn]: there is none.
func (c *conn) Replay(ctx context.Context, _ uint64, _ func(follow.Message) error) error {
	select {
	case <-c.closed:
		return follow.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return follow.ErrNoReplay
}

// Link implements [follow.Conn]: it is up once a poll has been answered.
func (c *conn) Link() follow.Link {
	s := c.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return follow.Link{Up: true}
	}
	return follow.Link{Err: s.fault, Changed: s.changed}
}

// Close implements [follow.Conn]. The last connection of an address ends its
// polling and waits for that, unless the Transport has a Linger.
func (c *conn) Close() error {
	s := c.source
	c.once.Do(func() {
		close(c.closed)
		s.t.mu.Lock()
		defer s.t.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(c.rank, c.lane)
	})
	// A second call waits as well. Others may still use the source.
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		<-s.done
	}
	return nil
}

// Malformed is the number of elements of the address's answers that could not be
// numbered.
func (c *conn) Malformed() int64 { return c.source.malformed.Load() }

// Foreign is the number of events of ranks of the address without a connection.
func (c *conn) Foreign() int64 { return c.source.foreign.Load() }
