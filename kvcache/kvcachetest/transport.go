package kvcachetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// TransportHarness tells [TestTransport] what to test and against what.
type TransportHarness struct {
	// Transport is the transport under test. It should retry fast (every 100 ms
	// or so) so that the suite is fast.
	Transport follow.Transport
	// Publisher starts a publisher for the transport to dial. Its addresses are
	// tcp:// ones, since the suite puts relays in between.
	Publisher func(zmtp.PublisherConfig) (TransportPublisher, error)
	// Buffer is the most, in bytes, that one connection of Transport may hold for
	// a receiver who doesn't come. The suite sends several times as much and
	// expects that some is missing. 0 means 64 MiB.
	Buffer int64
	// DeadPeer is the time within which Transport must notice that an established
	// connection has gone silent for good. 0 leaves that out.
	DeadPeer time.Duration
	// Timeout bounds every wait for something that must happen. 0 means 10 s.
	Timeout time.Duration
}

// TransportPublisher is the engine's end of the wire, as far as the suite needs
// it; [zmtp.Publisher] is one.
type TransportPublisher interface {
	// Endpoint returns the addresses to dial.
	Endpoint() follow.Endpoint
	// Send sends m under its own sequence number and keeps it for replay.
	Send(m follow.Message) error
	// SendFrames sends arbitrary frames, kept for no replay.
	SendFrames(frames ...[]byte) error
	// Close disconnects everyone and frees the addresses.
	Close() error
}

// TestTransport checks that a transport keeps the contract of
// [follow.Transport] and [follow.Conn]. Each rule is a subtest of its own. It
// needs about 200 MiB of memory and counts goroutines, so tests that start some
// must not run in parallel with it.
func TestTransport(t *testing.T, h TransportHarness) {
	t.Helper()
	if h.Timeout <= 0 {
		h.Timeout = defaultTimeout
	}
	if h.Buffer <= 0 {
		h.Buffer = defaultBuffer
	}
	for _, c := range transportCases() {
		t.Run(c.name, func(t *testing.T) {
			c.run(&bench{T: t, TransportHarness: h})
		})
	}
}

const (
	defaultTimeout = 10 * time.Second
	defaultBuffer  = 64 << 20
	grace          = time.Second
	mib            = 1 << 20
	// warmSeq numbers the messages that only show that a subscription is in
	// force, far from those that tests send.
	warmSeq = 1 << 62
)

type transportCase struct {
	name string
	run  func(*bench)
}

func transportCases() []transportCase {
	var all []transportCase
	all = append(all, deliveryCases()...)
	all = append(all, replayCases()...)
	all = append(all, lifeCases()...)
	return append(all, loadCases()...)
}

// bench is one subtest with its helpers.
type bench struct {
	*testing.T
	TransportHarness
}

// publisher starts a publisher that the subtest closes.
func (b *bench) publisher(cfg zmtp.PublisherConfig) TransportPublisher {
	b.Helper()
	p, err := b.Publisher(cfg)
	if err != nil {
		b.Fatalf("starting a publisher: %v", err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Errorf("closing the publisher: %v", err)
		}
	})
	return p
}

// replaying starts a publisher with a replay address.
func (b *bench) replaying(cfg zmtp.PublisherConfig) TransportPublisher {
	b.Helper()
	cfg.Replay = "tcp://127.0.0.1:0"
	return b.publisher(cfg)
}

// ctx is bounded by the harness's timeout.
func (b *bench) ctx() context.Context {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	b.Cleanup(cancel)
	return ctx
}

// dial opens a connection that the subtest closes.
func (b *bench) dial(ep follow.Endpoint) follow.Conn {
	b.Helper()
	c, err := b.Transport.Dial(b.ctx(), ep)
	if err != nil {
		b.Fatalf("Dial(%+v): %v", ep, err)
	}
	b.Cleanup(func() { b.close(c) })
	return c
}

// close closes c, failing if that doesn't return in time.
func (b *bench) close(c follow.Conn) {
	b.Helper()
	if err := b.within("Close", c.Close); err != nil {
		b.Errorf("Close: %v", err)
	}
}

// within runs f and returns its error. It ends the test if f takes longer than
// the timeout, plus some grace for an f that keeps the timeout itself; f is left
// running then, so it must not use b.
func (b *bench) within(what string, f func() error) error {
	b.Helper()
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = f()
	}()
	b.await(what, done)
	return err
}

func (b *bench) await(what string, done <-chan struct{}) {
	b.Helper()
	timer := time.NewTimer(b.Timeout + grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		b.Fatalf("%s did not return within %v", what, b.Timeout)
	}
}

// pause lets time pass in which something wrong could happen; nothing that must
// happen is waited for this way.
func (b *bench) pause(d time.Duration) {
	b.Helper()
	<-time.After(d)
}

// subscribed dials ep and returns when messages on topic demonstrably arrive and
// none is on its way.
func (b *bench) subscribed(p TransportPublisher, ep follow.Endpoint) follow.Conn {
	b.Helper()
	c := b.dial(ep)
	b.settle(p, c, ep.Topic)
	return c
}

func (b *bench) settle(p TransportPublisher, c follow.Conn, topic string) {
	b.Helper()
	const patience = 20 * time.Millisecond
	deadline := time.Now().Add(b.Timeout)
	for seq := uint64(warmSeq); ; seq++ {
		b.frames(p, []byte(topic), seqFrame(seq), []byte("warm"))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := c.Recv(ctx)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			b.Fatalf("Recv before the first message: %v", err)
		}
		if time.Now().After(deadline) {
			b.Fatalf("no message arrived within %v of dialling: %v", b.Timeout, err)
		}
	}
	b.frames(p, []byte(topic), seqFrame(warmSeq), []byte("ready"))
	for ready := false; !ready; {
		ready = string(b.recv(c).Payload) == "ready"
	}
}

func (b *bench) send(p TransportPublisher, m follow.Message) {
	b.Helper()
	if err := p.Send(m); err != nil {
		b.Fatalf("publishing: %v", err)
	}
}

// sendRange publishes messages first to last under the topic "kv".
func (b *bench) sendRange(p TransportPublisher, first, last uint64) {
	b.Helper()
	for seq := first; seq <= last; seq++ {
		b.send(p, message("kv", seq))
	}
}

func (b *bench) frames(p TransportPublisher, frames ...[]byte) {
	b.Helper()
	if err := p.SendFrames(frames...); err != nil {
		b.Fatalf("publishing: %v", err)
	}
}

// recv waits for a message. It fails if Recv hangs past its context.
func (b *bench) recv(c follow.Conn) follow.Message {
	b.Helper()
	m, err := b.recvErr(c, b.Timeout)
	if err != nil {
		b.Fatalf("Recv: %v", err)
	}
	return m
}

// recvErr is Recv with a timeout of its own.
func (b *bench) recvErr(c follow.Conn, timeout time.Duration) (follow.Message, error) {
	b.Helper()
	var m follow.Message
	err := b.within("Recv", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		m, err = c.Recv(ctx)
		return err
	})
	return m, err
}

// wantUpTo receives messages 0 to last of the topic "kv", in order.
func (b *bench) wantUpTo(c follow.Conn, last uint64) {
	b.Helper()
	for seq := range last + 1 {
		b.want(b.recv(c), message("kv", seq))
	}
}

func (b *bench) want(got, want follow.Message) {
	b.Helper()
	if got.Topic != want.Topic || got.Seq != want.Seq || !bytes.Equal(got.Payload, want.Payload) {
		b.Fatalf("got message %s, want %s", describe(got), describe(want))
	}
}

// replay collects a whole replay.
func (b *bench) replay(c follow.Conn, from uint64) []follow.Message {
	b.Helper()
	var got []follow.Message
	err := b.replayErr(c, b.Timeout, from, func(m follow.Message) error {
		got = append(got, m)
		return nil
	})
	if err != nil {
		b.Errorf("Replay(%d): %v", from, err)
	}
	return got
}

// replayErr is Replay with a timeout of its own.
func (b *bench) replayErr(c follow.Conn, timeout time.Duration, from uint64, fn func(follow.Message) error) error {
	b.Helper()
	return b.within("Replay", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return c.Replay(ctx, from, fn)
	})
}

// ignore is a replay callback that takes everything.
func ignore(follow.Message) error { return nil }

// wantReplay checks that a replay consists of messages first to last; topic is
// "" when the publisher's replies carry none.
func (b *bench) wantReplay(got []follow.Message, topic string, first, last uint64) {
	b.Helper()
	if n := int(last + 1 - first); len(got) != n {
		b.Fatalf("the replay has %d messages, want %d", len(got), n)
	}
	for i, m := range got {
		want := message("", first+uint64(i))
		want.Topic = topic
		b.want(m, want)
	}
}

// message is the message with that number; its payload depends on the number
// alone.
func message(topic string, seq uint64) follow.Message {
	return follow.Message{Topic: topic, Seq: seq, Payload: fmt.Appendf(nil, "payload of %d", seq)}
}

func describe(m follow.Message) string {
	const shown = 40
	p := m.Payload
	if len(p) > shown {
		p = p[:shown]
	}
	return fmt.Sprintf("{topic %q, seq %d, %d bytes %q}", m.Topic, m.Seq, len(m.Payload), p)
}
