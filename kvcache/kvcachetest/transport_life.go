package kvcachetest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

func lifeCases() []transportCase {
	return []transportCase{
		{"Addresses", testAddresses},
		{"Context", testContext},
		{"LatePublisher", testLatePublisher},
		{"Link", testLink},
		{"CloseUnblocks", testCloseUnblocks},
		{"CloseIdempotent", testCloseIdempotent},
		{"Restart", testRestart},
		{"Drop", testDrop},
		{"DeadPeer", testDeadPeer},
	}
}

// testAddresses: an address that can't be dialled is an error at once, not a
// connection that never delivers.
func testAddresses(b *bench) {
	const good = "tcp://127.0.0.1:5557"
	for _, address := range []string{
		"", "5557", "127.0.0.1:5557", "tcp://", "tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557",
		"tcp://:5557", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:port", "tcp://127.0.0.1:70000",
		"tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://fd00::7:5557", "ipc://", "http://127.0.0.1:5557", "tcp:/127.0.0.1:5557",
	} {
		eps := []follow.Endpoint{{Events: address}}
		if address != "" { // an empty replay address means none
			eps = append(eps, follow.Endpoint{Events: good, Replay: address})
		}
		for _, ep := range eps {
			c, err := b.Transport.Dial(b.ctx(), ep)
			if err == nil {
				b.Errorf("Dial(%+v) succeeded, want an error", ep)
				b.close(c)
			}
		}
	}
}

// testContext: contexts are obeyed, and giving up once spoils nothing.
func testContext(b *bench) {
	const short = 50 * time.Millisecond
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if c, err := b.Transport.Dial(ended, follow.Endpoint{Events: "tcp://127.0.0.1:5557"}); !errors.Is(err, context.Canceled) {
		b.Errorf("Dial with an ended context returned %v, want its error", err)
		if err == nil {
			b.close(c)
		}
	}

	nobody := b.dial(follow.Endpoint{Events: freeAddress(b)})
	if _, err := b.recvErr(nobody, short); !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("Recv with nobody there returned %v, want the context's error", err)
	}

	p := b.publisher(zmtp.PublisherConfig{})
	dialled, cancelDial := context.WithCancel(context.Background())
	c, err := b.Transport.Dial(dialled, p.Endpoint())
	if err != nil {
		b.Fatalf("Dial: %v", err)
	}
	defer b.close(c)
	b.settle(p, c, "")
	cancelDial() // bounds the dialling only
	for range 3 {
		if _, err := b.recvErr(c, short); !errors.Is(err, context.DeadlineExceeded) {
			b.Fatalf("Recv with nothing to receive returned %v, want the context's error", err)
		}
	}
	b.sendRange(p, 0, 9)
	b.wantUpTo(c, 9)
}

// testLatePublisher: a router may start before its engines.
func testLatePublisher(b *bench) {
	address := freeAddress(b)
	c := b.dial(follow.Endpoint{Events: address})
	const short = 50 * time.Millisecond
	if _, err := b.recvErr(c, short); !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("Recv before there is a publisher returned %v, want the context's error", err)
	}
	p := b.publisher(zmtp.PublisherConfig{Events: address})
	b.settle(p, c, "")
	b.sendRange(p, 0, 9)
	b.wantUpTo(c, 9)
}

// testCloseUnblocks: Close ends what is waiting, and what comes later.
func testCloseUnblocks(b *bench) {
	p := b.replaying(zmtp.PublisherConfig{Mute: true})
	c := b.subscribed(p, p.Endpoint())
	ctx, cancel := context.WithTimeout(context.Background(), 2*b.Timeout)
	defer cancel()
	var recvErr, replayErr error
	var waiting sync.WaitGroup
	waiting.Go(func() { _, recvErr = c.Recv(ctx) })
	waiting.Go(func() { replayErr = c.Replay(ctx, 0, ignore) })
	b.close(c)
	b.await("Recv and Replay after Close", closed(&waiting))
	for what, err := range map[string]error{"pending Recv": recvErr, "pending Replay": replayErr} {
		if !errors.Is(err, follow.ErrClosed) {
			b.Errorf("%s returned %v after Close, want ErrClosed", what, err)
		}
	}
	if _, err := b.recvErr(c, b.Timeout); !errors.Is(err, follow.ErrClosed) {
		b.Errorf("Recv after Close returned %v, want ErrClosed", err)
	}
	if err := b.replayErr(c, b.Timeout, 0, ignore); !errors.Is(err, follow.ErrClosed) {
		b.Errorf("Replay after Close returned %v, want ErrClosed", err)
	}
}

// testCloseIdempotent: Close may be called by anyone, any number of times,
// whatever state the connection is in.
func testCloseIdempotent(b *bench) {
	const closers = 8
	p := b.publisher(zmtp.PublisherConfig{})
	for _, c := range []follow.Conn{
		b.dial(follow.Endpoint{Events: freeAddress(b)}),
		b.dial(p.Endpoint()),
		b.subscribed(p, p.Endpoint()),
	} {
		var closing sync.WaitGroup
		errs := make([]error, closers)
		for i := range errs {
			closing.Go(func() { errs[i] = c.Close() })
		}
		b.await("Close", closed(&closing))
		if err := errors.Join(errs...); err != nil {
			b.Errorf("Close: %v", err)
		}
		b.close(c)
	}
}

// testRestart: an engine that goes away is reported once what it said has been
// delivered, and its successor at the same address is found by dialling again.
func testRestart(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	ep := p.Endpoint()
	c := b.subscribed(p, ep)
	b.sendRange(p, 0, 9)
	b.wantUpTo(c, 9)
	if err := p.Close(); err != nil {
		b.Fatalf("closing the publisher: %v", err)
	}
	for range 2 { // it stays that way
		if _, err := b.recvErr(c, b.Timeout); !errors.Is(err, follow.ErrDisconnected) {
			b.Fatalf("Recv after the publisher went away returned %v, want ErrDisconnected", err)
		}
	}
	b.close(c)
	again := b.publisher(zmtp.PublisherConfig{Events: ep.Events})
	c = b.subscribed(again, ep)
	b.sendRange(again, 0, 9)
	b.wantUpTo(c, 9)
}

// testDrop: a connection lost under a publisher that lives on is reported too;
// to connect again silently would hide the messages lost between.
func testDrop(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	ep := p.Endpoint()
	r := b.relay(ep.Events)
	ep.Events = r.address()
	c := b.subscribed(p, ep)
	r.drop()
	deadline := time.Now().Add(b.Timeout)
	for seq := uint64(0); ; seq++ {
		b.send(p, message("kv", seq))
		const patience = 20 * time.Millisecond
		m, err := b.recvErr(c, patience)
		switch {
		case errors.Is(err, follow.ErrDisconnected):
			return
		case err == nil && m.Seq > 0:
			b.Fatalf("received message %d over a new connection, want ErrDisconnected first", m.Seq)
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			b.Fatalf("Recv after losing the connection returned %v, want ErrDisconnected", err)
		case time.Now().After(deadline):
			b.Fatalf("the lost connection was not reported within %v", b.Timeout)
		default:
		}
	}
}

// testDeadPeer: a peer that stops without a word is noticed.
func testDeadPeer(b *bench) {
	if b.DeadPeer <= 0 {
		b.Skip("the harness names no time for it")
	}
	p := b.publisher(zmtp.PublisherConfig{})
	ep := p.Endpoint()
	r := b.relay(ep.Events)
	ep.Events = r.address()
	c := b.subscribed(p, ep)
	// Silence alone is no fault as long as the peer answers.
	if _, err := b.recvErr(c, b.DeadPeer); !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("Recv from a silent but live peer returned %v, want the context's error", err)
	}
	r.freeze()
	if _, err := b.recvErr(c, b.DeadPeer); !errors.Is(err, follow.ErrDisconnected) {
		b.Errorf("Recv from a dead peer returned %v after %v, want ErrDisconnected", err, b.DeadPeer)
	}
}

// closed returns a channel that is closed when wg's goroutines have ended.
func closed(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	return done
}

// freeAddress returns an address where nobody listens.
func freeAddress(b *bench) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listener at once
	if err != nil {
		b.Fatalf("finding a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return "tcp://" + l.Addr().String()
}
