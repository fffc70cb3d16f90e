package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// HubScheme starts every address of a [Hub].
const HubScheme = "inproc://"

// ErrAddress is returned by a [Hub] for an address that is not its own. Correct
// the endpoint's configuration.
var ErrAddress = errors.New("follow: not an address of the form " + HubScheme + "name")

// ErrNameTaken is returned by [Hub.Open] when the name is in use. Close the
// other Pipe first, or choose another name.
var ErrNameTaken = errors.New("follow: a pipe of this name is open")

// Hub is a [Transport] within one process: named publishers ([Pipe]s) register
// in it, and Dial finds them at "inproc://name". It behaves as a PUB socket
// with a replay socket does, down to its faults: a late subscriber misses what
// came before, a slow one loses messages silently, a replay returns only what
// the ring still holds. It serves tests, fake engines, and engines that live in
// the router's process. It is safe for concurrent use; it starts no goroutine.
type Hub struct {
	mu    sync.Mutex
	pipes map[string]*Pipe
	// waiting holds connections dialled before their publisher was opened.
	waiting map[string]map[*hubConn]struct{}
}

var _ Transport = (*Hub)(nil)

// NewHub returns an empty Hub.
func NewHub() *Hub {
	return &Hub{
		pipes:   make(map[string]*Pipe),
		waiting: make(map[string]map[*hubConn]struct{}),
	}
}

// Open registers a publisher under name, which is not empty and free.
// Connections that were dialled before are joined to it.
func (h *Hub) Open(name string, opts PipeOptions) (*Pipe, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: empty name", ErrAddress)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pipes[name] != nil {
		return nil, fmt.Errorf("%w: %s", ErrNameTaken, name)
	}
	p := newPipe(h, name, opts)
	for c := range h.waiting[name] {
		p.conns[c] = struct{}{}
		c.pipe = p
		close(c.joined)
	}
	delete(h.waiting, name)
	h.pipes[name] = p
	return p, nil
}

// Dial implements [Transport]. ep.Replay, if not empty, is normally the same
// address as ep.Events. A name that nobody has opened yet is not an error: as
// with sockets, the connection waits for its publisher.
func (h *Hub) Dial(ctx context.Context, ep Endpoint) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := hubName(ep.Events)
	if err != nil {
		return nil, err
	}
	c := &hubConn{
		hub: h, name: name, topic: ep.Topic,
		wake: make(chan struct{}, 1), done: make(chan struct{}), joined: make(chan struct{}),
	}
	if ep.Replay != "" {
		if c.replay, err = hubName(ep.Replay); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pipes[name]; p != nil {
		c.pipe = p
		p.conns[c] = struct{}{}
		close(c.joined)
		return c, nil
	}
	if h.waiting[name] == nil {
		h.waiting[name] = make(map[*hubConn]struct{})
	}
	h.waiting[name][c] = struct{}{}
	return c, nil
}

func hubName(addr string) (string, error) {
	name, ok := strings.CutPrefix(addr, HubScheme)
	if !ok || name == "" {
		return "", fmt.Errorf("%w: %q", ErrAddress, addr)
	}
	return name, nil
}

// hubConn is one subscription. Its fields below wake are guarded by hub.mu.
type hubConn struct {
	hub    *Hub
	name   string
	replay string
	topic  string
	wake   chan struct{} // capacity 1: something below changed
	done   chan struct{} // closed by Close
	joined chan struct{} // closed when the publisher was found

	pipe   *Pipe // nil while the publisher is away
	queue  []Message
	broken bool // ErrDisconnected once queue is empty
	closed bool
}

func (c *hubConn) Recv(ctx context.Context) (Message, error) {
	for {
		c.hub.mu.Lock()
		switch {
		case c.closed:
			c.hub.mu.Unlock()
			return Message{}, ErrClosed
		case len(c.queue) > 0:
			m := c.queue[0]
			c.queue[0] = Message{}
			c.queue = c.queue[1:]
			c.hub.mu.Unlock()
			return m, nil
		case c.broken:
			c.hub.mu.Unlock()
			return Message{}, ErrDisconnected
		}
		c.hub.mu.Unlock()
		select {
		case <-c.wake:
		case <-c.done:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}

func (c *hubConn) Replay(ctx context.Context, from uint64, fn func(Message) error) error {
	if c.replay == "" {
		return ErrNoReplay
	}
	c.hub.mu.Lock()
	closed, p := c.closed, c.hub.pipes[c.replay]
	var batch []Message
	if p != nil {
		batch = p.replayLocked(from)
	}
	mute := p != nil && p.mute
	c.hub.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case mute:
		select {
		case <-c.done:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	case p == nil:
		return ErrDisconnected
	}
	for _, m := range batch {
		select {
		case <-c.done:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		m.Payload = append([]byte(nil), m.Payload...)
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

// errNobody is why a hubConn is not up.
var errNobody = errors.New("nobody has opened a pipe of this name")

func (c *hubConn) Link() Link {
	select {
	case <-c.joined:
		return Link{Up: true}
	default:
		return Link{Err: errNobody, Changed: c.joined}
	}
}

func (c *hubConn) Close() error {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.queue = nil
	close(c.done)
	if c.pipe != nil {
		delete(c.pipe.conns, c)
		c.pipe = nil
	}
	if w := c.hub.waiting[c.name]; w != nil {
		delete(w, c)
		if len(w) == 0 {
			delete(c.hub.waiting, c.name)
		}
	}
	return nil
}

// signal tells Recv to look again.
func (c *hubConn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
