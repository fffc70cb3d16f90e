package dns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// udpSize is the longest answer over UDP that we ask for: what passes every
	// network in one piece.
	udpSize = 1232
	// udpBuffer takes what servers send that don't care.
	udpBuffer = 64 << 10
)

// dial opens a connection that ends with the deadline or with ctx, whichever is
// sooner.
func (r *resolver) dial(ctx context.Context, network, server string) (conn net.Conn, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	conn, err = new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return conn, func() {
		stop()
		cancel()
		_ = conn.Close() // nothing is lost with it
	}, nil
}

func newID() uint16 {
	var b [2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint16(b[:])
}

// udp asks once over UDP, and waits for the answer to this very question: what
// else comes may be forged.
func (r *resolver) udp(ctx context.Context, server string, n name, t dnsmessage.Type, edns bool) (*message, error) {
	id := newID()
	q, err := query(id, n, t, edns)
	if err != nil {
		return nil, err
	}
	conn, done, err := r.dial(ctx, "udp", server)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err = conn.Write(q); err != nil {
		return nil, err
	}
	buf := make([]byte, udpBuffer)
	foreign := 0
	for {
		size, err := conn.Read(buf)
		if err != nil {
			return nil, r.silence(err, foreign)
		}
		m, err := parse(buf[:size], id, n, t)
		if !errors.Is(err, errForeign) {
			return m, err
		}
		foreign++
	}
}

// silence explains why no answer was read.
func (r *resolver) silence(err error, foreign int) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout() && foreign > 0:
		return fmt.Errorf("no answer within %v, but %d messages that are none: %w", r.timeout, foreign, context.DeadlineExceeded)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer within %v: %w", r.timeout, context.DeadlineExceeded)
	default:
		return err
	}
}

// tcp asks once over TCP, which takes answers of any length.
func (r *resolver) tcp(ctx context.Context, server string, n name, t dnsmessage.Type) (*message, error) {
	id := newID()
	q, err := query(id, n, t, true)
	if err != nil {
		return nil, err
	}
	conn, done, err := r.dial(ctx, "tcp", server)
	if err != nil {
		return nil, fmt.Errorf("its answer needs TCP: %w", err)
	}
	defer done()
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(q)))
	if _, err = conn.Write(append(framed, q...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err = io.ReadFull(conn, size[:]); err != nil {
		return nil, r.silence(err, 0)
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err = io.ReadFull(conn, buf); err != nil {
		return nil, r.silence(err, 0)
	}
	m, err := parse(buf, id, n, t)
	if err == nil && m.header.Truncated {
		err = errors.New("its answer over TCP is cut")
	}
	return m, err
}
