package kvcachetest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

func loadCases() []transportCase {
	return []transportCase{
		{"LargePayload", testLargePayload},
		{"SlowConsumer", testSlowConsumer},
		{"StalledLoss", testStalledLoss},
		{"Cycles", testCycles},
	}
}

// testLargePayload: payloads up to 16 MiB arrive whole, live and replayed.
func testLargePayload(b *bench) {
	p := b.replaying(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	var sent []follow.Message
	for i, size := range []int{1, 255, 256, 64 << 10, mib, mib + 1, 4 * mib, 16 * mib} {
		m := follow.Message{Seq: uint64(i), Payload: pattern(size, byte(i))}
		sent = append(sent, m)
		b.send(p, m)
		b.wantLarge(b.recv(c), m)
	}
	got := b.replay(c, 0)
	if len(got) != len(sent) {
		b.Fatalf("the replay has %d messages, want %d", len(got), len(sent))
	}
	for i, m := range got {
		b.wantLarge(m, sent[i])
	}
}

func (b *bench) wantLarge(got, want follow.Message) {
	b.Helper()
	if got.Seq != want.Seq || !bytes.Equal(got.Payload, want.Payload) {
		b.Fatalf("got %s, want number %d with %d bytes", describe(got), want.Seq, len(want.Payload))
	}
}

// pattern fills size bytes so that a shift or a swap shows.
func pattern(size int, seed byte) []byte {
	p := make([]byte, size)
	for i := range p {
		p[i] = seed + byte(i) + byte(i>>8) + byte(i>>16)
	}
	return p
}

// testSlowConsumer: what nobody receives is not collected without end. The
// oldest messages arrive, some later ones are missing or the connection is given
// up, the order holds, and the stream works again afterwards.
func testSlowConsumer(b *bench) {
	const (
		size = 256 << 10
		hwm  = 64
		// slack is for what lies in the publisher's queue, 16 MiB, and in the sockets'
		// buffers of either side, of which Linux lets a receiver's grow to 32 MiB.
		slack = 80 * mib
	)
	p := b.publisher(zmtp.PublisherConfig{HWM: hwm})
	c := b.subscribed(p, p.Endpoint())
	payload := pattern(size, 0)
	rounds := uint64(3*b.Buffer+2*slack) / size
	for seq := range rounds {
		b.send(p, follow.Message{Seq: seq, Payload: payload})
	}
	b.paced(p, rounds, size)

	var received int64
	next := uint64(0)
	for {
		const idle = 2 * time.Second
		m, err := b.recvErr(c, idle)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if errors.Is(err, follow.ErrDisconnected) {
			// Allowed: who stalls for long may be given up, as long as it shows.
			b.close(c)
			c = b.dial(p.Endpoint())
			break
		}
		if err != nil {
			b.Fatalf("Recv by a slow consumer: %v", err)
		}
		if m.Seq < next {
			b.Fatalf("message %d after message %d", m.Seq, next-1)
		}
		next = m.Seq + 1
		received += int64(len(m.Payload))
	}
	if received == 0 {
		b.Fatalf("nothing arrived of what was buffered")
	}
	if limit := b.Buffer + slack; received > limit {
		b.Errorf("%d MiB were held for a receiver who did not come, want at most %d MiB", received/mib, limit/mib)
	}
	b.settle(p, c, "")
	for seq := range uint64(10) { // one by one: the publisher's queue is short
		b.send(p, message("kv", seq))
		b.want(b.recv(c), message("kv", seq))
	}
}

// paced publishes as much again, but no faster than a transport without a bound
// could swallow it: a burst alone would be dropped by the publisher's own queue.
func (b *bench) paced(p TransportPublisher, first uint64, size int) {
	b.Helper()
	payload := pattern(size, 1)
	total := first
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for seq := first; seq < first+total; seq++ {
		<-tick.C
		b.send(p, follow.Message{Seq: seq, Payload: payload})
	}
}

// testStalledLoss: a publisher that goes away while the stream is held up by a
// slow receiver is reported once he comes, after what was buffered.
func testStalledLoss(b *bench) {
	const (
		size = 64 << 10
		// linger is time for what a transport does by the clock, heartbeats say,
		// to go wrong in that state.
		linger = 500 * time.Millisecond
	)
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	payload := pattern(size, 0)
	for seq := range uint64(b.Buffer+32*mib) / size {
		b.send(p, follow.Message{Seq: seq, Payload: payload})
	}
	b.pause(linger)
	if err := p.Close(); err != nil {
		b.Fatalf("closing the publisher: %v", err)
	}
	b.pause(linger)
	next := uint64(0)
	for {
		m, err := b.recvErr(c, b.Timeout)
		if errors.Is(err, follow.ErrDisconnected) {
			break
		}
		if err != nil {
			b.Fatalf("Recv after the publisher went away returned %v, want ErrDisconnected", err)
		}
		if m.Seq != next {
			b.Fatalf("message %d where %d was due", m.Seq, next)
		}
		next++
	}
	if next == 0 {
		b.Errorf("nothing arrived of what was buffered")
	}
}

// testCycles: connections that come and go leave no goroutine behind, and the
// last one works as the first.
func testCycles(b *bench) {
	const cycles = 100
	p := b.replaying(zmtp.PublisherConfig{})
	b.sendRange(p, 0, 9)
	cycle := func() {
		c := b.subscribed(p, p.Endpoint())
		b.wantReplay(b.replay(c, 0), "", 0, 9)
		b.frames(p, []byte("kv"), seqFrame(10), message("kv", 10).Payload)
		b.want(b.recv(c), message("kv", 10))
		b.close(c)
		b.frames(p, []byte("kv"), seqFrame(11), nil) // to nobody
	}
	cycle() // whatever is started lazily exists from here on
	before := b.goroutines(0)
	for range cycles {
		cycle()
	}
	if after := b.goroutines(before); after > before {
		b.Errorf("%d goroutines before %d cycles, %d after", before, cycles, after)
	}
}

// goroutines counts goroutines, waiting for those that are about to end: until
// there are no more than want, or, if want is 0, until the number stands still.
func (b *bench) goroutines(want int) int {
	b.Helper()
	const (
		pause = 20 * time.Millisecond
		still = 5
	)
	deadline := time.Now().Add(b.Timeout)
	last, same := runtime.NumGoroutine(), 0
	for time.Now().Before(deadline) && same < still {
		if want > 0 && last <= want {
			return last
		}
		b.pause(pause)
		n := runtime.NumGoroutine()
		if n == last && want == 0 {
			same++
		} else {
			same = 0
		}
		last = n
	}
	return last
}
