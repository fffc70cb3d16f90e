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

// Job is what one socket is for.
type Job struct {
	Address Address
	// Replay: ask for the messages from From on (DEALER). Otherwise subscribe to
	// Topic (SUB).
	Replay bool
	From   uint64
	Topic  string
}

// A Source does a job with one socket: it connects, trying until it succeeds or
// ctx ends, gives the sink each message that arrives, and returns once the sink
// wants no more, an established connection is lost, or ctx ends. It has released
// everything when it returns.
type Source func(ctx context.Context, job Job, sink *Sink) error

// Dial checks ep's addresses and starts to subscribe with source. buffer bounds
// each stream's buffer in bytes; 0 means DefaultBuffer.
func Dial(ctx context.Context, ep follow.Endpoint, buffer int64, source Source) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	events, err := ParseDial(ep.Events)
	if err != nil {
		return nil, err
	}
	var replay Address
	if ep.Replay != "" {
		if replay, err = ParseDial(ep.Replay); err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	}
	if buffer <= 0 {
		buffer = DefaultBuffer
	}
	life, cancel := context.WithCancel(context.Background())
	c := &Conn{source: source, replayAt: replay, buffer: buffer, ctx: life, cancel: cancel}
	job := Job{Address: events, Topic: ep.Topic}
	c.live = newSink(job, buffer, &c.malformed)
	c.run(life, c.live)
	return c, nil
}

// Conn implements [follow.Conn] over a source. Every replay gets a socket, and so
// a connection, of its own: replies to a request that was given up can't reach a
// later one.
type Conn struct {
	source    Source
	replayAt  Address // zero: no replay
	buffer    int64
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

// run starts the source in a goroutine that Close waits for. It reports false after
// Close; otherwise the returned channel is closed when the source has returned.
func (c *Conn) run(ctx context.Context, sink *Sink) (<-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	done := make(chan struct{})
	c.running.Go(func() {
		defer close(done)
		sink.finish(c.source(ctx, sink.job, sink))
	})
	return done, true
}

// Recv implements [follow.Conn]. What arrived before a disconnection is
// delivered before it is reported.
func (c *Conn) Recv(ctx context.Context) (follow.Message, error) {
	m, ok, err := c.next(ctx, c.live)
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
	if c.replayAt.Network == "" {
		return follow.ErrNoReplay
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	sink := newSink(Job{Address: c.replayAt, Replay: true, From: from}, c.buffer, &c.malformed)
	running, cancel := context.WithCancel(c.ctx)
	defer cancel()
	done, ok := c.run(running, sink)
	if !ok {
		return follow.ErrClosed
	}
	defer func() {
		cancel()
		<-done
	}()
	for {
		m, more, err := c.next(ctx, sink)
		if err != nil || !more {
			return err
		}
		if err := fn(m); err != nil {
			return err
		}
	}
}

// next waits for a message. It reports false at the end of a complete stream.
func (c *Conn) next(ctx context.Context, sink *Sink) (follow.Message, bool, error) {
	for {
		// Close wins over everything, and ctx over what is buffered, so that a
		// caller who gave up never gets a message that he won't look at.
		if c.ctx.Err() != nil {
			return follow.Message{}, false, follow.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			if why := sink.whyNot(); why != nil {
				//nolint:errorlint // ctx's error is what callers test for, the reason is for people
				err = fmt.Errorf("%w: not connected to %s: %v", err, sink.job.Address.URI, why)
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
	return fmt.Errorf("%w: %v", follow.ErrDisconnected, Brief(cause)) //nolint:errorlint // io.EOF and the like must not show through
}

// Link implements [follow.Conn].
func (c *Conn) Link() follow.Link { return c.live.link() }

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
