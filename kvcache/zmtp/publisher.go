package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

// PublisherConfig says how a Publisher behaves. The zero value publishes on a
// free port of the loopback interface and offers no replay.
type PublisherConfig struct {
	// Events is the address to publish on: tcp://host:port or ipc://path. The
	// host may be "*", the port 0 (any free one). "" means tcp://127.0.0.1:0.
	Events string
	// Replay is the address to answer replays on; "" means none is offered.
	Replay string
	// ReplayTopic puts the topic into replies, as vLLM does from 0.26 on. false
	// is the shape of SGLang and of older vLLM.
	ReplayTopic bool
	// Mute leaves replay requests unanswered, as engines do with those that they
	// don't understand.
	Mute bool
	// History is how many messages are kept for replay; 0 means 10,000, the
	// engines' default of buffer_steps.
	History int
	// HWM is how many messages wait for one slow subscriber before further ones
	// are dropped for it; 0 means 100,000, the engines' default.
	HWM int
}

// ErrPublisherClosed is returned by a Publisher's methods after Close.
var ErrPublisherClosed = errors.New("zmtp: publisher closed")

// Publisher publishes events as an engine does: a PUB socket and, if asked for,
// a ROUTER that replays. It is safe for concurrent use. Close releases it.
type Publisher struct {
	cfg      PublisherConfig
	endpoint follow.Endpoint
	messages *eventstream.Sequencer

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu          sync.Mutex
	listeners   []net.Listener
	subscribers map[*subscriber]struct{}
}

// NewPublisher starts a Publisher.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	events, replay, err := eventstream.ParsePublisher(cfg.Events, cfg.Replay)
	if err != nil {
		return nil, fmt.Errorf("zmtp: %w", err)
	}
	if cfg.HWM <= 0 {
		cfg.HWM = eventstream.DefaultHWM
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		cfg:         cfg,
		cancel:      cancel,
		subscribers: map[*subscriber]struct{}{},
	}
	p.messages = eventstream.NewSequencer(cfg.History, ErrPublisherClosed, p.broadcast)
	p.endpoint.Events, err = p.listen(ctx, events, p.serveSubscriber)
	if err == nil && replay.Network != "" {
		p.endpoint.Replay, err = p.listen(ctx, replay, p.serveReplay)
	}
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("zmtp: publisher: %w", err)
	}
	return p, nil
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

// broadcast is called for one message at a time, which keeps their order.
func (p *Publisher) broadcast(frames [][]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.subscribers) == 0 {
		return nil
	}
	wire, topic := encodeMessage(frames...), string(frames[0])
	for s := range p.subscribers {
		s.offer(topic, wire, p.cfg.HWM)
	}
	return nil
}

// Subscribers returns how many subscribers are connected and have subscribed to
// something.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.subscribers {
		if s.subscribed() {
			n++
		}
	}
	return n
}

// Close disconnects everyone and waits for the publisher's goroutines. It is
// idempotent.
func (p *Publisher) Close() error {
	p.messages.Close()
	p.mu.Lock()
	listeners := p.listeners
	p.listeners = nil
	p.mu.Unlock()
	p.cancel()
	for _, l := range listeners {
		_ = l.Close()
	}
	p.running.Wait()
	return nil
}

// listen accepts connections and serves each in a goroutine until ctx ends. It
// returns the address to dial.
func (p *Publisher) listen(ctx context.Context, addr eventstream.Address, serve func(context.Context, *link)) (string, error) {
	if addr.Network == "unix" {
		removeStale(addr.Target)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, addr.Network, addr.Target)
	if err != nil {
		return "", err
	}
	p.listeners = append(p.listeners, ln) // before any other goroutine knows p
	p.running.Go(func() { p.accept(ctx, ln, serve) })
	return dialable(addr, ln.Addr()), nil
}

func (p *Publisher) accept(ctx context.Context, ln net.Listener, serve func(context.Context, *link)) {
	var backoff eventstream.Backoff
	for {
		nc, err := ln.Accept()
		if err != nil {
			// Out of file descriptors, say: wait instead of spinning.
			if errors.Is(err, net.ErrClosed) || backoff.Wait(ctx) != nil {
				return
			}
			continue
		}
		backoff = eventstream.Backoff{}
		p.running.Go(func() {
			defer closeWith(ctx, nc)()
			serve(ctx, newLink(nc, DefaultMaxMessage))
		})
	}
}

// serveSubscriber reads subscriptions while a second goroutine writes.
func (p *Publisher) serveSubscriber(ctx context.Context, l *link) {
	if l.handshake(typePub, DefaultHandshakeTimeout) != nil {
		return
	}
	s := &subscriber{link: l, topics: map[string]int{}, wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.subscribers[s] = struct{}{}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.writeLoop(ctx)
	}()
	s.readLoop()
	cancel()
	_ = l.nc.Close() // unblocks the writer
	<-done
	p.mu.Lock()
	delete(p.subscribers, s)
	p.mu.Unlock()
}

// serveReplay answers requests until the client goes away.
func (p *Publisher) serveReplay(_ context.Context, l *link) {
	if l.handshake(typeRouter, DefaultHandshakeTimeout) != nil {
		return
	}
	for {
		parts, err := l.readMessage(nil)
		if err != nil {
			return
		}
		from, ok := parts.Requested()
		if !ok || p.cfg.Mute {
			continue
		}
		if p.messages.History.Answer(from, p.cfg.ReplayTopic, func(frames [][]byte) error {
			return l.write(encodeMessage(frames...))
		}) != nil {
			return
		}
	}
}

// removeStale removes the socket that a killed publisher left behind.
func removeStale(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path)
	}
}

// dialable returns the address that reaches a listener.
func dialable(asked eventstream.Address, got net.Addr) string {
	tcp, ok := got.(*net.TCPAddr)
	if !ok {
		return asked.URI
	}
	dial := *tcp
	if dial.IP.IsUnspecified() {
		dial.IP = net.IPv4(127, 0, 0, 1)
	}
	return "tcp://" + dial.String()
}
