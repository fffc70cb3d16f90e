package follow

import (
	"context"
	"errors"
)

// Endpoint is where one publisher (one data-parallel rank) of a worker speaks.
type Endpoint struct {
	// Events is the address to subscribe to, for example "tcp://10.0.0.7:5557".
	Events string `json:"events" yaml:"events"`
	// Replay is the address that answers replay requests, "" if there is none.
	Replay string `json:"replay,omitempty" yaml:"replay,omitempty"`
	// Topic is the subscription prefix; "" takes everything.
	Topic string `json:"topic,omitempty" yaml:"topic,omitempty"`
	// Rank is the data-parallel rank; it is used when a batch names none.
	Rank int `json:"rank,omitempty" yaml:"rank,omitempty"`
}

// Message is one event message as it came off the wire.
type Message struct {
	Topic string
	// Seq counts the publisher's messages from 0 at its start.
	Seq uint64
	// Payload is the encoded batch. The receiver owns it.
	Payload []byte
}

// Transport opens connections to publishers. Implementations are safe for
// concurrent use.
type Transport interface {
	// Dial starts to subscribe to ep. It may return before the publisher is
	// reachable, and one that is not reachable yet is no error; a malformed
	// address is an error at once. ctx bounds the dialling only, not the
	// connection's life.
	Dial(ctx context.Context, ep Endpoint) (Conn, error)
}

// Conn is one subscription. Recv and Replay may be called concurrently with each
// other, each from one goroutine at a time; Close from any.
//
// Messages that come while nobody is in Recv, as during a replay, wait in the
// transport up to a bound of its own. Those beyond it are lost, which their
// numbers show.
type Conn interface {
	// Recv waits for the next live message. After ErrDisconnected messages may
	// have been lost and the Conn must be closed and dialled again; other errors
	// are ctx's or ErrClosed.
	Recv(ctx context.Context) (Message, error)
	// Replay asks for the buffered messages from sequence number from on and
	// calls fn for each in order until the publisher's end marker. A non-nil
	// error from fn stops it and is returned. If the publisher goes away before
	// the end marker the error is ErrDisconnected, and if it gives no answer
	// that of ctx: what fn was given until then is good, and more may follow it.
	Replay(ctx context.Context, from uint64, fn func(Message) error) error
	// Link says whether the subscription is in force. It does not block and may be
	// called concurrently with everything.
	Link() Link
	// Close releases the connection and makes a pending Recv or Replay return
	// ErrClosed. It is idempotent.
	Close() error
}

// Link is how far a connection's subscription has got.
type Link struct {
	// Up: the publisher has answered and knows, or will in a moment, what to
	// send. Once up it stays so: it is Recv that reports a loss.
	Up bool
	// Err is why the latest attempt failed; nil if none has, or if Up. It is
	// shown to people: its text is short, the same for the same fault, and has
	// neither the address nor a secret in it.
	Err error
	// Changed is closed once Up or the text of Err differs from this one. nil
	// means that they never will.
	Changed <-chan struct{}
}

// Errors of transports, seen by a Follower and by implementers' tests.
var (
	// ErrDisconnected: the publisher went away; messages may have been lost.
	ErrDisconnected = errors.New("follow: event stream disconnected")
	// ErrClosed: Close was called on this side.
	ErrClosed = errors.New("follow: event stream closed")
	// ErrNoReplay: the endpoint has no replay address.
	ErrNoReplay = errors.New("follow: endpoint has no replay address")
)
