package kvcachetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// firstCut is long enough for a handshake on the loopback interface. The next cut
// comes after twice the time, since on a machine that is slow it is not.
const firstCut = 100 * time.Millisecond

func replayCases() []transportCase {
	return []transportCase{
		{"ReplayWithTopic", func(b *bench) { testReplay(b, true) }},
		{"ReplayWithoutTopic", func(b *bench) { testReplay(b, false) }},
		{"ReplayWrap", testReplayWrap},
		{"ReplayStop", testReplayStop},
		{"ReplayNone", testReplayNone},
		{"ReplayMute", testReplayMute},
		{"ReplayDisconnect", testReplayDisconnect},
		{"ReplayConcurrent", testReplayConcurrent},
	}
}

// testReplay: everything from a number on, in order, in either shape of reply;
// nothing of one replay in the next.
func testReplay(b *bench, withTopic bool) {
	const last = 299
	p := b.replaying(zmtp.PublisherConfig{ReplayTopic: withTopic})
	b.sendRange(p, 0, last)
	c := b.subscribed(p, p.Endpoint())
	topic := ""
	if withTopic {
		topic = "kv"
	}
	b.wantReplay(b.replay(c, 0), topic, 0, last)
	b.wantReplay(b.replay(c, 256), topic, 256, last)
	b.wantReplay(b.replay(c, last), topic, last, last)
	b.wantReplay(b.replay(c, last+1), topic, last+1, last)
	b.sendRange(p, last+1, last+1)
	b.wantReplay(b.replay(c, last), topic, last, last+1)
}

// testReplayWrap: where history is lost the replay starts later, which its
// sequence numbers show; it is no error.
func testReplayWrap(b *bench) {
	p := b.replaying(zmtp.PublisherConfig{History: 10, ReplayTopic: true})
	b.sendRange(p, 0, 24)
	c := b.dial(p.Endpoint())
	b.wantReplay(b.replay(c, 0), "kv", 15, 24)
}

// testReplayStop: an error of the callback stops the replay and comes back, and
// the rest of it never shows up later.
func testReplayStop(b *bench) {
	const last = 999
	p := b.replaying(zmtp.PublisherConfig{ReplayTopic: true})
	b.sendRange(p, 0, last)
	c := b.dial(p.Endpoint())
	stop := errors.New("enough")
	for range 5 {
		calls := 0
		err := b.replayErr(c, b.Timeout, 0, func(follow.Message) error {
			calls++
			return stop
		})
		if !errors.Is(err, stop) {
			b.Errorf("Replay returned %v, want the callback's error", err)
		}
		if calls != 1 {
			b.Fatalf("the callback was called %d times after it failed, want no more", calls-1)
		}
		b.wantReplay(b.replay(c, last-5), "kv", last-5, last)
	}
}

// testReplayNone: without a replay address there is an error that says so.
func testReplayNone(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.dial(p.Endpoint())
	if err := b.replayErr(c, b.Timeout, 0, ignore); !errors.Is(err, follow.ErrNoReplay) {
		b.Errorf("Replay without an address returned %v, want ErrNoReplay", err)
	}
}

// testReplayMute: a publisher that doesn't answer costs the caller his deadline
// and nothing else.
func testReplayMute(b *bench) {
	const short = 200 * time.Millisecond
	p := b.replaying(zmtp.PublisherConfig{Mute: true})
	c := b.subscribed(p, p.Endpoint())
	for range 2 {
		if err := b.replayErr(c, short, 0, ignore); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("Replay without an answer returned %v, want the context's error", err)
		}
	}
	b.sendRange(p, 0, 0)
	b.wantUpTo(c, 0)
}

// testReplayDisconnect: a replay whose connection is lost fails, rather than
// wait for an end marker that can't come.
func testReplayDisconnect(b *bench) {
	p := b.replaying(zmtp.PublisherConfig{Mute: true})
	r := b.relay(p.Endpoint().Replay)
	ep := p.Endpoint()
	ep.Replay = r.address()
	c := b.subscribed(p, ep)
	done := make(chan struct{})
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), 2*b.Timeout)
	defer cancel()
	go func() {
		defer close(done)
		err = c.Replay(ctx, 0, ignore)
	}()
	// Until the connection stands, losing it is no reason to give up, so it is
	// cut again and again.
	pause := firstCut
	cut := time.NewTimer(pause)
	defer cut.Stop()
	deadline := time.After(b.Timeout)
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-cut.C:
			r.drop()
			pause *= 2
			cut.Reset(pause)
		case <-deadline:
			b.Fatalf("Replay did not return within %v of losing its connection", b.Timeout)
		}
	}
	if !errors.Is(err, follow.ErrDisconnected) {
		b.Errorf("Replay over a lost connection returned %v, want ErrDisconnected", err)
	}
	b.sendRange(p, 0, 0)
	b.wantUpTo(c, 0)
}

// testReplayConcurrent: live messages flow while a replay runs, even within its
// callback.
func testReplayConcurrent(b *bench) {
	const last = 499
	p := b.replaying(zmtp.PublisherConfig{})
	b.sendRange(p, 0, last)
	c := b.subscribed(p, p.Endpoint())

	ctx := b.ctx()
	received := make(chan struct{})
	var recvErr error
	go func() {
		defer close(received)
		for seq := uint64(last + 1); seq <= 2*last && recvErr == nil; seq++ {
			m, err := c.Recv(ctx)
			if recvErr = err; err == nil && m.Seq != seq {
				recvErr = fmt.Errorf("got %s, want number %d", describe(m), seq)
			}
		}
	}()
	var got []follow.Message
	err := b.replayErr(c, b.Timeout, 0, func(m follow.Message) error {
		got = append(got, m)
		if len(got) > 1 {
			return nil
		}
		for seq := uint64(last + 1); seq <= 2*last; seq++ {
			if err := p.Send(message("kv", seq)); err != nil {
				return err
			}
		}
		<-received // inside the callback on purpose
		return nil
	})
	if err != nil || recvErr != nil {
		b.Fatalf("Replay beside Recv: %v; Recv beside Replay: %v", err, recvErr)
	}
	if len(got) < last+1 {
		b.Fatalf("the replay has %d messages, want at least %d", len(got), last+1)
	}
	b.wantReplay(got[:last+1], "", 0, last)
}
