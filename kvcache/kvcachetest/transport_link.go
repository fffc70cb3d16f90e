package kvcachetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// testLink: a connection says whether it is up, why not, and when that changes;
// nobody may take it for up while nobody is there, or while it talks to a socket
// that publishes nothing.
func testLink(b *bench) {
	address := freeAddress(b)
	c := b.dial(follow.Endpoint{Events: address})
	first := b.link(c, func(l follow.Link) bool { return l.Err != nil })
	if strings.Contains(first.Err.Error(), strings.TrimPrefix(address, "tcp://")) {
		b.Errorf("Link's error %q contains the address", first.Err)
	}
	const attempts = 300 * time.Millisecond // several of them, which all fail alike
	b.pause(attempts)
	if l := c.Link(); l.Up || l.Err == nil || l.Err.Error() != first.Err.Error() {
		b.Errorf("with nobody there Link is %+v, want as before %+v", l, first)
	}

	p := b.replaying(zmtp.PublisherConfig{Events: address})
	if l := b.link(c, func(l follow.Link) bool { return l.Up }); l.Err != nil {
		b.Errorf("Link has the error %q although it is up", l.Err)
	}
	b.settle(p, c, "")

	ep := p.Endpoint()
	exchanged := b.dial(follow.Endpoint{Events: ep.Replay, Replay: ep.Events})
	b.link(exchanged, func(l follow.Link) bool { return l.Err != nil })

	if err := p.Close(); err != nil {
		b.Fatalf("closing the publisher: %v", err)
	}
	if _, err := b.recvErr(c, b.Timeout); !errors.Is(err, follow.ErrDisconnected) {
		b.Fatalf("Recv after the publisher went away returned %v, want ErrDisconnected", err)
	}
	if !c.Link().Up {
		b.Error("Link is no longer up after a loss, which Recv reports; want it to stay")
	}
}

// link waits until c's link is as wanted, and relies on Changed for that. A link
// that is up and not wanted to be is an error.
func (b *bench) link(c follow.Conn, wanted func(follow.Link) bool) follow.Link {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	defer cancel()
	for {
		l := c.Link()
		if wanted(l) {
			return l
		}
		if l.Up {
			b.Fatalf("Link is %+v, want it not to be up", l)
		}
		select {
		case <-l.Changed:
		case <-ctx.Done():
			b.Fatalf("Link is still %+v after %v", l, b.Timeout)
		}
	}
}
