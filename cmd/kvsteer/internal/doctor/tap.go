package doctor

import (
	"context"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// tap is a follow.Transport that notes what passes on its way to a Follower.
type tap struct {
	follow.Transport

	mu   sync.Mutex
	seen observed
}

// observed is what passed.
type observed struct {
	// topics that messages had, few of them.
	topics map[string]bool
	// live and replayed are messages by number; a message may be both.
	live, replayed map[uint64]bool
}

// maxTopics bounds what is kept of topics that never repeat.
const maxTopics = 16

func newTap(t follow.Transport) *tap {
	return &tap{Transport: t, seen: observed{
		topics: map[string]bool{}, live: map[uint64]bool{}, replayed: map[uint64]bool{},
	}}
}

// peek returns what f makes of what was seen.
func peek[T any](t *tap, f func(*observed) T) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f(&t.seen)
}

func (t *tap) note(m *follow.Message, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Topic != "" && len(t.seen.topics) < maxTopics {
		t.seen.topics[m.Topic] = true
	}
	if live {
		t.seen.live[m.Seq] = true
	} else {
		t.seen.replayed[m.Seq] = true
	}
}

// Dial implements follow.Transport.
func (t *tap) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	c, err := t.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, err
	}
	return &tappedConn{Conn: c, tap: t}, nil
}

type tappedConn struct {
	follow.Conn

	tap *tap
}

// Recv implements follow.Conn.
func (c *tappedConn) Recv(ctx context.Context) (follow.Message, error) {
	m, err := c.Conn.Recv(ctx)
	if err == nil {
		c.tap.note(&m, true)
	}
	return m, err
}

// Replay implements follow.Conn.
func (c *tappedConn) Replay(ctx context.Context, from uint64, fn func(follow.Message) error) error {
	return c.Conn.Replay(ctx, from, func(m follow.Message) error {
		c.tap.note(&m, false)
		return fn(m)
	})
}
