//go:build cgo

package zmq

import (
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
	messages *eventstream.Sequencer
	zctx     *zmq4.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	pub      *zmq4.Socket // used by messages, then by Close
	closing  sync.Once
	closeErr error
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
	p := &Publisher{cfg: cfg, zctx: zctx, cancel: cancel}
	p.messages = eventstream.NewSequencer(cfg.History, ErrPublisherClosed, p.broadcast)
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
	return p.messages.Publish(topic, payload)
}

// Send sends m under its own sequence number, which the next Publish follows.
func (p *Publisher) Send(m follow.Message) error { return p.messages.Send(m) }

// Record keeps m for replay without sending it: to a subscriber it is a message
// that got lost.
func (p *Publisher) Record(m follow.Message) error { return p.messages.Record(m) }

// SendFrames sends any frames at all, one or more, kept for no replay. The first one
// is matched with the subscriptions.
func (p *Publisher) SendFrames(frames ...[]byte) error { return p.messages.SendFrames(frames) }

// broadcast is called for one message at a time, as the socket demands.
func (p *Publisher) broadcast(frames [][]byte) error { return sendFrames(p.pub, frames) }

// Close disconnects everyone, waits for the publisher's goroutines and libzmq's
// threads, and frees the addresses. It is idempotent.
func (p *Publisher) Close() error {
	p.closing.Do(func() {
		p.messages.Close()
		p.cancel()
		p.running.Wait()
		if p.pub != nil {
			_ = p.pub.Close()
		}
		p.closeErr = p.zctx.Term()
	})
	return p.closeErr
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
		if p.messages.History.Answer(from, p.cfg.ReplayTopic, func(answer [][]byte) error {
			return sendReply(router, frames[0], answer)
		}) != nil {
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
