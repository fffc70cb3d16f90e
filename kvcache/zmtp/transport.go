package zmtp

import (
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

// Defaults of Transport.
const (
	DefaultBuffer           = eventstream.DefaultBuffer // 64 MiB
	DefaultMaxMessage       = 256 << 20
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultHeartbeat        = 10 * time.Second
	DefaultHeartbeatTimeout = 10 * time.Second
	DefaultRetryMin         = eventstream.DefaultRetryMin // 100 ms
	DefaultRetryMax         = eventstream.DefaultRetryMax // 2 s
)

// AddressError is returned by Dial and Listen for an address that can't be used;
// it says what to write instead.
type AddressError = eventstream.AddressError

// Transport subscribes to engines over ZMTP. The zero value works. It is safe
// for concurrent use and must not be changed once used; it holds no resources of
// its own, so there is nothing to close but the connections.
//
// Each connection costs one goroutine, and one more while a replay runs.
type Transport struct {
	// Buffer bounds, in bytes, the messages that one connection holds for its
	// receiver; a running replay has as much again. When it is full the socket
	// is not read and the publisher comes to drop messages, which shows as a gap
	// in the sequence numbers. 0 means DefaultBuffer.
	Buffer int64
	// MaxMessage bounds one message in bytes, all its frames together. A larger
	// one ends the connection. 0 means DefaultMaxMessage.
	MaxMessage int64
	// HandshakeTimeout bounds connecting and, again, the handshake of one
	// attempt. 0 means DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// Heartbeat is how long a peer may be silent before it is asked for a sign
	// of life. 0 means DefaultHeartbeat, negative means never. Peers older than
	// ZMTP 3.1 (libzmq before 4.3.3) are watched by TCP keep-alive alone.
	Heartbeat time.Duration
	// HeartbeatTimeout is how long the sign of life may take before the
	// connection counts as lost. 0 means DefaultHeartbeatTimeout.
	HeartbeatTimeout time.Duration
	// RetryMin and RetryMax bound the pause between attempts to connect.
	// 0 means DefaultRetryMin and DefaultRetryMax.
	RetryMin, RetryMax time.Duration
	// DialContext opens the connection: network is "tcp" or "unix". nil means a
	// net.Dialer with TCP keep-alive. It lets a caller add TLS or a proxy.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

var _ follow.Transport = (*Transport)(nil)

// Dial implements [follow.Transport]. It checks the addresses, then returns at
// once and connects in the background, trying until the publisher is there;
// once the connection has been lost, the Conn reports it and connects no more.
// ctx is not used beyond the call.
//
// The Conn also has a method Malformed() int64, the number of messages skipped
// because they had too few frames or no sequence number.
func (t *Transport) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	c, err := eventstream.Dial(ctx, ep, t.Buffer, t.serve)
	if err != nil {
		return nil, fmt.Errorf("zmtp: %w", err)
	}
	return c, nil
}

// serve is the source of all connections.
func (t *Transport) serve(ctx context.Context, job eventstream.Job, sink *eventstream.Sink) error {
	l, closeNow, err := t.connect(ctx, job, sink)
	if err != nil {
		return err
	}
	defer closeNow()
	for {
		parts, err := l.readMessage(nil)
		if err != nil {
			return err
		}
		if err := sink.Take(ctx, &parts); err != nil {
			return err
		}
	}
}

// connect tries until it succeeds or ctx ends.
func (t *Transport) connect(ctx context.Context, job eventstream.Job, sink *eventstream.Sink) (*link, func(), error) {
	backoff := eventstream.Backoff{Min: t.RetryMin, Max: t.RetryMax}
	for {
		l, closeNow, err := t.attempt(ctx, job)
		if err == nil {
			sink.Connected()
			return l, closeNow, nil
		}
		sink.Failed(err)
		if err := backoff.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// attempt connects, shakes hands and says what the job is.
func (t *Transport) attempt(ctx context.Context, job eventstream.Job) (*link, func(), error) {
	timeout := positive(t.HandshakeTimeout, DefaultHandshakeTimeout)
	nc, err := t.open(ctx, job.Address, timeout)
	if err != nil {
		return nil, nil, err
	}
	closeNow := closeWith(ctx, nc)
	l := newLink(nc, min(positive(t.MaxMessage, DefaultMaxMessage), math.MaxInt))
	if job.Replay {
		err = l.handshake(typeDealer, timeout)
	} else {
		err = l.handshake(typeSub, timeout)
	}
	if err != nil {
		err = fmt.Errorf("handshake failed: %w", eventstream.Brief(err))
	} else {
		l.writeTimeout = writeTimeout
		if t.Heartbeat >= 0 {
			l.heartbeat = positive(t.Heartbeat, DefaultHeartbeat)
			l.heartbeatTimeout = positive(t.HeartbeatTimeout, DefaultHeartbeatTimeout)
		}
		if job.Replay {
			err = l.write(encodeMessage(nil, eventstream.SeqFrame(job.From)))
		} else {
			err = l.write(appendSubscribe(nil, l.minor, job.Topic))
		}
	}
	if err != nil {
		closeNow()
		return nil, nil, err
	}
	return l, closeNow, nil
}

func (t *Transport) open(ctx context.Context, addr eventstream.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if t.DialContext != nil {
		return t.DialContext(ctx, addr.Network, addr.Target)
	}
	const (
		idle     = 15 * time.Second
		interval = 5 * time.Second
		probes   = 3
	)
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: probes}}
	return d.DialContext(ctx, addr.Network, addr.Target)
}

// appendSubscribe appends a subscription in the form that the peer's version
// expects: a command from 3.1 on, before that a message whose first byte is 1.
func appendSubscribe(dst []byte, minor int, topic string) []byte {
	if minor >= minorCommands {
		return appendCommand(dst, cmdSubscribe, []byte(topic)...)
	}
	return appendFrame(dst, 0, append([]byte{1}, topic...))
}

// positive returns v, or def if v is not positive.
func positive[T ~int64](v, def T) T {
	if v > 0 {
		return v
	}
	return def
}
