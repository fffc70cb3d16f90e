package zmq

import (
	"context"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

// Defaults of Transport.
const (
	DefaultBuffer           = eventstream.DefaultBuffer // 64 MiB
	DefaultHWM              = 128
	DefaultMaxMessage       = 256 << 20
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultRetryMin         = eventstream.DefaultRetryMin // 100 ms
	DefaultRetryMax         = eventstream.DefaultRetryMax // 2 s
)

// AddressError is returned for an address that can't be used; it says what to
// write instead.
type AddressError = eventstream.AddressError

// Transport subscribes to engines with libzmq. The zero value works. It is safe
// for concurrent use and must be neither copied nor changed once used. It holds
// libzmq's context and threads only while connections are open.
//
// Each connection, and each replay while it runs, costs one goroutine that holds
// an operating system thread while it waits.
//
// A host that dies or is cut off is noticed by TCP keep-alive, after about 30 s.
// A process that hangs with its connection open is not: libzmq's heartbeats
// would notice it, but they abort our own process when a peer goes away while a
// slow receiver holds the stream up (seen with 4.3.4; libzmq issues 4364 and
// 4767). Package kvcache/zmtp notices both.
type Transport struct {
	// Buffer bounds, in bytes, the messages that one connection holds for its
	// receiver, beside HWM messages inside libzmq; a running replay has as much
	// again. When both are full the socket is not read and the publisher comes to
	// drop messages, which shows as a gap in the sequence numbers.
	// 0 means DefaultBuffer.
	Buffer int64
	// HWM is libzmq's receive high-water mark in messages. 0 means DefaultHWM.
	HWM int
	// MaxMessage bounds one frame in bytes. A larger one ends the connection.
	// 0 means DefaultMaxMessage.
	MaxMessage int64
	// HandshakeTimeout bounds connecting and the handshake of one attempt.
	// 0 means DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// RetryMin and RetryMax bound the pause between attempts to connect.
	// 0 means DefaultRetryMin and DefaultRetryMax.
	RetryMin, RetryMax time.Duration

	shared sharedContext
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
	if err := supported(); err != nil {
		return nil, err
	}
	c, err := eventstream.Dial(ctx, ep, t.Buffer, t.serve)
	if err != nil {
		return nil, fmt.Errorf("zmq: %w", err)
	}
	return c, nil
}
