//go:build cgo

package zmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"

	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

const (
	// neverAgain keeps libzmq from connecting again behind our back, which would
	// hide a loss. -1 would do so too, but then libzmq throws away what arrived
	// before the connection was lost.
	neverAgain = 24 * time.Hour
	// drainBatch is how many messages are read before the monitor and the waker
	// are looked at again.
	drainBatch = 256

	// A dead host is noticed after idle + interval x probes, in seconds.
	keepaliveIdle     = 15
	keepaliveInterval = 5
	keepaliveProbes   = 3
)

// serve is the source of all connections. The goroutine that runs it owns all
// sockets but one (see waker).
func (t *Transport) serve(ctx context.Context, job eventstream.Job, sink *eventstream.Sink) error {
	zctx, name, err := t.shared.acquire()
	if err != nil {
		return err
	}
	defer t.shared.release()
	w, err := newWaker(ctx, zctx, name)
	if err != nil {
		return fmt.Errorf("zmq: wake-up sockets: %w", err)
	}
	defer w.close()

	p, err := t.connect(ctx, zctx, name+"-monitor", w, job, sink)
	if err != nil {
		return err
	}
	defer p.close()
	return p.receive(ctx, sink)
}

// connect tries until it succeeds or ctx ends. Every attempt has a socket of its
// own, so that nothing of a failed one lingers.
func (t *Transport) connect(ctx context.Context, zctx *zmq4.Context, name string, w *waker,
	job eventstream.Job, sink *eventstream.Sink,
) (*peer, error) {
	backoff := eventstream.Backoff{Min: t.RetryMin, Max: t.RetryMax}
	for attempt := 0; ; attempt++ {
		p, err := t.open(zctx, fmt.Sprintf("%s-%d", name, attempt), w, job)
		if err == nil {
			if err = p.establish(ctx, positive(t.HandshakeTimeout, DefaultHandshakeTimeout), job); err == nil {
				sink.Connected()
				return p, nil
			}
			p.close()
		}
		sink.Failed(err)
		if err := backoff.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// peer is one socket with its monitor.
type peer struct {
	socket, monitor *zmq4.Socket
	waker           *waker
	poller          *zmq4.Poller
}

func (p *peer) close() {
	for _, s := range []*zmq4.Socket{p.socket, p.monitor} {
		if s != nil {
			_ = s.Close()
		}
	}
}

// open makes the socket and its monitor and starts to connect.
func (t *Transport) open(zctx *zmq4.Context, name string, w *waker, job eventstream.Job) (*peer, error) {
	kind := zmq4.SUB
	if job.Replay {
		kind = zmq4.DEALER
	}
	p := &peer{waker: w, poller: zmq4.NewPoller()}
	var err error
	if p.socket, err = newSocket(zctx, kind); err != nil {
		return nil, err
	}
	if p.monitor, err = newSocket(zctx, zmq4.PAIR); err != nil {
		p.close()
		return nil, err
	}
	if err := firstError(
		func() error { return t.configure(p.socket, job) },
		func() error { return p.socket.Monitor(name, zmq4.EVENT_ALL) },
		func() error { return p.monitor.Connect(name) },
		func() error { return p.socket.Connect(job.Address.URI) },
	); err != nil {
		p.close()
		return nil, err
	}
	p.poller.Add(p.socket, zmq4.POLLIN)
	p.poller.Add(p.monitor, zmq4.POLLIN)
	p.poller.Add(w.wait, zmq4.POLLIN)
	return p, nil
}

func (t *Transport) configure(s *zmq4.Socket, job eventstream.Job) error {
	hwm := t.HWM
	if hwm <= 0 {
		hwm = DefaultHWM
	}
	steps := []func() error{
		func() error { return s.SetRcvhwm(hwm) },
		func() error { return s.SetMaxmsgsize(positive(t.MaxMessage, DefaultMaxMessage)) },
		func() error { return s.SetReconnectIvl(neverAgain) },
		func() error { return s.SetHandshakeIvl(positive(t.HandshakeTimeout, DefaultHandshakeTimeout)) },
		// No heartbeats: see Transport.
		func() error { return s.SetTcpKeepalive(1) },
		func() error { return s.SetTcpKeepaliveIdle(keepaliveIdle) },
		func() error { return s.SetTcpKeepaliveIntvl(keepaliveInterval) },
		func() error { return s.SetTcpKeepaliveCnt(keepaliveProbes) },
	}
	if strings.Contains(job.Address.Target, "[") {
		steps = append(steps, func() error { return s.SetIpv6(true) })
	}
	if !job.Replay {
		steps = append(steps, func() error { return s.SetSubscribe(job.Topic) })
	}
	return firstError(steps...)
}

// establish waits for the handshake and says what the job is.
func (p *peer) establish(ctx context.Context, timeout time.Duration, job eventstream.Job) error {
	deadline := time.Now().Add(timeout)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("zmq: no handshake within %v", timeout)
		}
		if err := p.wait(left); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		event, err := p.event()
		switch {
		case err != nil:
			return err
		case event == zmq4.EVENT_HANDSHAKE_SUCCEEDED && job.Replay:
			_, err = p.socket.SendMessageDontwait([]byte{}, eventstream.SeqFrame(job.From))
			return err
		case event == zmq4.EVENT_HANDSHAKE_SUCCEEDED:
			return nil // a SUB socket sends its subscriptions by itself
		case lost(event):
			return fmt.Errorf("zmq: connecting failed (%v)", event)
		default:
		}
	}
}

// receive hands over messages until the connection is lost or ctx ends.
func (p *peer) receive(ctx context.Context, sink *eventstream.Sink) error {
	for {
		if err := p.wait(-1); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// The monitor is asked before the last messages are read, so that all
		// that arrived before a loss is delivered before it is reported.
		gone, err := p.gone()
		if err != nil {
			return err
		}
		for n, more := 0, true; more && (gone || n < drainBatch); n++ {
			if more, err = p.next(ctx, sink); err != nil {
				return err
			}
		}
		if gone {
			return errors.New("zmq: connection lost")
		}
	}
}

// gone reads the monitor's events and reports whether one means a loss.
func (p *peer) gone() (bool, error) {
	gone := false
	for {
		event, err := p.event()
		if err != nil || event == 0 {
			return gone, err
		}
		gone = gone || lost(event)
	}
}

// next hands over one message if there is one.
func (p *peer) next(ctx context.Context, sink *eventstream.Sink) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	frames, err := p.socket.RecvMessageBytes(zmq4.DONTWAIT)
	if again(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var parts eventstream.Parts
	for _, f := range frames {
		parts.Add(f)
	}
	return true, sink.Take(ctx, &parts)
}

// wait polls until something is readable; a negative timeout means for ever.
func (p *peer) wait(timeout time.Duration) error {
	_, err := p.poller.Poll(timeout)
	return err
}

// event returns the monitor's next event, 0 if there is none.
func (p *peer) event() (zmq4.Event, error) {
	event, _, _, err := p.monitor.RecvEvent(zmq4.DONTWAIT)
	if again(err) {
		return 0, nil
	}
	return event, err
}

// lost reports an event that ends a connection or an attempt at one.
func lost(e zmq4.Event) bool {
	const ends = zmq4.EVENT_DISCONNECTED | zmq4.EVENT_CLOSED | zmq4.EVENT_CONNECT_RETRIED |
		zmq4.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq4.EVENT_HANDSHAKE_FAILED_PROTOCOL |
		zmq4.EVENT_HANDSHAKE_FAILED_AUTH | zmq4.EVENT_MONITOR_STOPPED
	return e&ends != 0
}

func again(err error) bool {
	return err != nil && zmq4.AsErrno(err) == zmq4.Errno(syscall.EAGAIN)
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// positive returns v, or def if v is not positive.
func positive[T ~int64](v, def T) T {
	if v > 0 {
		return v
	}
	return def
}
