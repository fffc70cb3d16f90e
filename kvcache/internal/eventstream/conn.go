package eventstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// DefaultBuffer bounds, in bytes, what a Conn buffers of messages that nobody
// has received yet: seconds of a busy engine's events.
const DefaultBuffer = 64 << 20

// A Source owns one socket: it connects (again and again until it succeeds or
// ctx ends), pushes what arrives into the sink, and returns once an established
// connection is lost, ctx ends, or, for a replay, the end marker was seen (nil).
// It has released everything when it returns.
type Source func(ctx context.Context, sink *Sink) error

// Config describes a Conn.
type Config struct {
	// Events is the address in errors.
	Events string
	// Live is the source of published messages.
	Live Source
	// Replay makes the source of one replay; nil if there is no replay address.
	Replay func(from uint64) Source
	// Buffer is the bound of each stream's buffer in bytes; 0 means DefaultBuffer.
	Buffer int64
}

// Conn implements [follow.Conn] over sources. Every replay gets a source, and so
// a connection, of its own: replies to a request that was given up can't reach a
// later one.
type Conn struct {
	cfg       Config
	live      *Sink
	malformed atomic.Int64

	ctx    context.Context //nolint:containedctx // the connection's life, ended by Close
	cancel context.CancelFunc

	mu     sync.Mutex // orders running.Add before Close's Wait
	closed bool
	// running counts the goroutines that run sources.
	running sync.WaitGroup
}

var _ follow.Conn = (*Conn)(nil)

// New starts to receive.
func New(cfg Config) *Conn {
	if cfg.Buffer <= 0 {
		cfg.Buffer = DefaultBuffer
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{cfg: cfg, ctx: ctx, cancel: cancel}
	c.live = newSink(cfg.Buffer, &c.malformed)
	c.run(ctx, cfg.Live, c.live)
	return c
}

// run starts source in a goroutine that Close waits for. It reports false after
// Close; otherwise the returned channel is closed when the source has returned.
func (c *Conn) run(ctx context.Context, source Source, sink *Sink) (<-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	done := make(chan struct{})
	c.running.Go(func() {
		defer close(done)
		sink.finish(source(ctx, sink))
	})
	return done, true
}

// Recv implements [follow.Conn]. What arrived before a disconnection is
// delivered before it is reported.
func (c *Conn) Recv(ctx context.Context) (follow.Message, error) {
	m, ok, err := c.next(ctx, c.live, c.cfg.Events)
	if err == nil && !ok {
		err = follow.ErrDisconnected
	}
	return m, err
}

// Replay implements [follow.Conn].
func (c *Conn) Replay(ctx context.Context, from uint64, fn func(follow.Message) error) error {
	if c.ctx.Err() != nil {
		return follow.ErrClosed
	}
	if c.cfg.Replay == nil {
		return follow.ErrNoReplay
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	source := c.cfg.Replay(from)
	sink := newSink(c.cfg.Buffer, &c.malformed)
	running, cancel := context.WithCancel(c.ctx)
	defer cancel()
	done, ok := c.run(running, source, sink)
	if !ok {
		return follow.ErrClosed
	}
	defer func() {
		cancel()
		<-done
	}()
	for {
		m, more, err := c.next(ctx, sink, "the replay address of "+c.cfg.Events)
		if err != nil || !more {
			return err
		}
		if err := fn(m); err != nil {
			return err
		}
	}
}

// next waits for a message. It reports false at the end of a complete stream.
func (c *Conn) next(ctx context.Context, sink *Sink, peer string) (follow.Message, bool, error) {
	for {
		// Close wins over everything, and ctx over what is buffered, so that a
		// caller who gave up never gets a message that he won't look at.
		if c.ctx.Err() != nil {
			return follow.Message{}, false, follow.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			if why := sink.whyNot(); why != nil {
				return follow.Message{}, false, fmt.Errorf("%w: not connected to %s: %v", err, peer, why) //nolint:errorlint // one cause is enough
			}
			return follow.Message{}, false, err
		}
		m, ok, ended, err := sink.take()
		switch {
		case ok:
			return m, true, nil
		case ended && err == nil:
			return follow.Message{}, false, nil
		case ended:
			return follow.Message{}, false, disconnected(err)
		default:
		}
		select {
		case <-sink.ready:
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

func disconnected(cause error) error {
	if errors.Is(cause, follow.ErrDisconnected) {
		return cause
	}
	return fmt.Errorf("%w: %v", follow.ErrDisconnected, cause) //nolint:errorlint // io.EOF and the like must not show through
}

// Malformed counts the messages, live and replayed, that were skipped because
// they had too few frames or no sequence number.
func (c *Conn) Malformed() int64 { return c.malformed.Load() }

// Close implements [follow.Conn]. It waits for the connection's goroutines, but
// not for a callback of Replay, so a callback may call it.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	return nil
}
