//go:build cgo

package zmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pebbe/zmq4"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

// ErrPublisherClosed is returned by a Publisher's methods after Close.
var ErrPublisherClosed = errors.New("zmq: publisher closed")

// Publisher publishes events with libzmq as an engine does: a PUB socket and, if
// asked for, a ROUTER that replays. It is safe for concurrent use. Close
// releases it.
type Publisher struct {
	cfg      PublisherConfig
	endpoint follow.Endpoint
	history  *eventstream.History
	zctx     *zmq4.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex // gives the PUB socket one user at a time
	pub    *zmq4.Socket
	next   uint64
	closed bool
}

// NewPublisher starts a Publisher.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	events, replay, err := eventstream.ParsePublisher(cfg.Events, cfg.Replay)
	if err != nil {
		return nil, fmt.Errorf("zmq: %w", err)
	}
	if cfg.HWM <= 0 {
		cfg.HWM = eventstream.DefaultHWM
	}
	zctx, err := newContext()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{cfg: cfg, history: eventstream.NewHistory(cfg.History), zctx: zctx, cancel: cancel}
	if err := p.start(ctx, events, replay); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("zmq: publisher: %w", err)
	}
	return p, nil
}

func (p *Publisher) start(ctx context.Context, events, replay eventstream.Address) error {
	var err error
	if p.pub, p.endpoint.Events, err = p.bind(zmq4.PUB, events); err != nil || replay.Network == "" {
		return err
	}
	router, at, err := p.bind(zmq4.ROUTER, replay)
	if err != nil {
		return err
	}
	p.endpoint.Replay = at
	w, err := newWaker(ctx, p.zctx, "inproc://replay-waker")
	if err != nil {
		_ = router.Close()
		return err
	}
	p.running.Go(func() { p.serveReplay(ctx, router, w) })
	return nil
}

// bind returns a bound socket and the address to dial.
func (p *Publisher) bind(kind zmq4.Type, addr eventstream.Address) (*zmq4.Socket, string, error) {
	s, err := newSocket(p.zctx, kind)
	if err != nil {
		return nil, "", err
	}
	at := ""
	err = firstError(
		func() error { return s.SetSndhwm(p.cfg.HWM) },
		func() error { return s.SetIpv6(strings.Contains(addr.Target, "[")) },
		func() error { return s.Bind(addr.URI) },
		func() (err error) { at, err = s.GetLastEndpoint(); return err },
	)
	if err != nil {
		_ = s.Close()
		return nil, "", err
	}
	at = strings.Replace(at, "//0.0.0.0:", "//127.0.0.1:", 1)
	at = strings.Replace(at, "//[::]:", "//127.0.0.1:", 1)
	return s, at, nil
}

// Endpoint returns the addresses to dial; a wildcard host becomes the loopback
// address.
func (p *Publisher) Endpoint() follow.Endpoint { return p.endpoint }

// Publish sends a message under the next sequence number, which it returns.
// payload is copied. It never waits: a subscriber whose queue is full misses the
// message.
func (p *Publisher) Publish(topic string, payload []byte) (seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := follow.Message{Topic: topic, Seq: p.next, Payload: payload}
	return m.Seq, p.send(m)
}

// Send sends m under its own sequence number, which the next Publish follows.
func (p *Publisher) Send(m follow.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.send(m)
}

// Record keeps m for replay without sending it: to a subscriber it is a message
// that got lost.
func (p *Publisher) Record(m follow.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record(m)
}

// SendFrames sends any frames at all, kept for no replay. The first one is
// matched with the subscriptions.
func (p *Publisher) SendFrames(frames ...[]byte) error {
	if len(frames) == 0 {
		return errors.New("zmq: a message has at least one frame")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broadcast(frames...)
}

// send, record and broadcast are called with mu held, which keeps the order of
// messages that of their sequence numbers.
func (p *Publisher) send(m follow.Message) error {
	if err := p.record(m); err != nil {
		return err
	}
	return p.broadcast([]byte(m.Topic), eventstream.SeqFrame(m.Seq), m.Payload)
}

func (p *Publisher) record(m follow.Message) error {
	if p.closed {
		return ErrPublisherClosed
	}
	m.Payload = bytes.Clone(m.Payload)
	p.next = m.Seq + 1
	p.history.Add(m)
	return nil
}

func (p *Publisher) broadcast(frames ...[]byte) error {
	if p.closed {
		return ErrPublisherClosed
	}
	return sendFrames(p.pub, frames)
}

// Close disconnects everyone, waits for the publisher's goroutines and libzmq's
// threads, and frees the addresses. It is idempotent.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.cancel()
	p.running.Wait()
	if p.pub != nil {
		_ = p.pub.Close()
	}
	return p.zctx.Term()
}

// serveReplay owns the ROUTER socket and answers requests until ctx ends.
func (p *Publisher) serveReplay(ctx context.Context, router *zmq4.Socket, w *waker) {
	defer w.close()
	defer func() { _ = router.Close() }()
	poller := zmq4.NewPoller()
	poller.Add(router, zmq4.POLLIN)
	poller.Add(w.wait, zmq4.POLLIN)
	for {
		if _, err := poller.Poll(-1); err != nil || ctx.Err() != nil {
			return
		}
		frames, err := router.RecvMessageBytes(zmq4.DONTWAIT)
		if again(err) {
			continue
		}
		if err != nil {
			return
		}
		var request eventstream.Parts
		for _, f := range frames[1:] {
			request.Add(f)
		}
		from, ok := request.Requested()
		if !ok || p.cfg.Mute {
			continue
		}
		for _, m := range p.history.From(from) {
			if sendReply(router, frames[0], eventstream.Reply(m, p.cfg.ReplayTopic)) != nil {
				return
			}
		}
		if sendReply(router, frames[0], eventstream.End(p.cfg.ReplayTopic)) != nil {
			return
		}
	}
}

// sendReply sends to one client; a ROUTER drops what a client who went away, or
// who is slower than the high-water mark, can't take.
func sendReply(router *zmq4.Socket, identity []byte, frames [][]byte) error {
	return sendFrames(router, append([][]byte{identity}, frames...))
}

func sendFrames(s *zmq4.Socket, frames [][]byte) error {
	for i, f := range frames {
		flags := zmq4.DONTWAIT
		if i < len(frames)-1 {
			flags |= zmq4.SNDMORE
		}
		if _, err := s.SendBytes(f, flags); err != nil {
			return err
		}
	}
	return nil
}
