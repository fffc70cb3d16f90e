package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

const (
	readBuffer = 32 << 10
	// writeTimeout bounds what a client writes: subscriptions, requests and
	// heartbeats are a few bytes, so only a dead peer makes them wait.
	writeTimeout = 10 * time.Second
	// frameOverhead is what a frame is reckoned to cost beyond its bytes, so
	// that a message of endless empty frames ends.
	frameOverhead = 16
)

// link is one connection after or during its handshake. One goroutine reads;
// writes may come from others.
type link struct {
	nc         net.Conn
	br         *bufio.Reader
	maxMessage int64
	minor      int

	heartbeat, heartbeatTimeout time.Duration // 0 = none
	writeTimeout                time.Duration // 0 = none

	writeMu sync.Mutex
}

func newLink(nc net.Conn, maxMessage int64) *link {
	l := &link{nc: nc, maxMessage: maxMessage}
	l.br = bufio.NewReaderSize(pulse{l}, readBuffer)
	return l
}

// handshake greets the peer and agrees on the socket types within timeout.
func (l *link) handshake(socketType string, timeout time.Duration) error {
	if err := l.nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if err := l.greet(); err != nil {
		return err
	}
	if err := l.agree(socketType); err != nil {
		return err
	}
	return l.nc.SetDeadline(time.Time{})
}

// greet exchanges greetings.
func (l *link) greet() error {
	if err := l.write(greeting()); err != nil {
		return err
	}
	minor, err := readGreeting(l.br)
	l.minor = minor
	return err
}

// agree exchanges READY commands.
func (l *link) agree(socketType string) error {
	if err := l.write(readyCommand(socketType)); err != nil {
		return err
	}
	flags, body, err := readFrame(l.br, maxCommand)
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 {
		return protocolError("a message where READY was due")
	}
	name, data, err := splitCommand(body)
	switch {
	case err != nil:
		return err
	case name == cmdError:
		return protocolError("peer refused the connection: %.80q", data)
	case name != cmdReady:
		return protocolError("command %.20q where READY was due", name)
	default:
	}
	peer, err := peerType(data)
	if err != nil {
		return err
	}
	if !compatible(socketType, peer) {
		return protocolError("peer is a %.20q socket, which a %s can't talk to; "+
			"are the event and replay addresses exchanged?", peer, socketType)
	}
	return nil
}

// readMessage reads until a message is complete. Commands, which may come
// between its frames, go to onCommand after heartbeats have been answered.
func (l *link) readMessage(onCommand func(name string, data []byte) error) (eventstream.Parts, error) {
	var parts eventstream.Parts
	left := l.maxMessage
	for {
		flags, body, err := readFrame(l.br, left)
		if err != nil {
			return eventstream.Parts{}, err
		}
		if flags&flagCommand != 0 {
			if err := l.command(body, onCommand); err != nil {
				return eventstream.Parts{}, err
			}
			continue
		}
		left -= int64(len(body)) + frameOverhead
		parts.Add(body)
		if flags&flagMore == 0 {
			return parts, nil
		}
	}
}

func (l *link) command(body []byte, onCommand func(string, []byte) error) error {
	name, data, err := splitCommand(body)
	if err != nil {
		return err
	}
	switch name {
	case cmdPing:
		if len(data) < ttlSize {
			return protocolError("PING without a time to live")
		}
		echo := data[ttlSize:]
		return l.write(appendCommand(nil, cmdPong, echo[:min(len(echo), maxContext)]...))
	case cmdError:
		return protocolError("peer reports an error: %.80q", data)
	default:
		if onCommand != nil {
			return onCommand(name, data)
		}
		return nil // PONG, or something newer than we are
	}
}

// write sends whole frames; concurrent writers don't mix.
func (l *link) write(p []byte) error {
	return l.writeBuffers(net.Buffers{p})
}

func (l *link) writeBuffers(bufs net.Buffers) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if l.writeTimeout > 0 {
		if err := l.nc.SetWriteDeadline(time.Now().Add(l.writeTimeout)); err != nil {
			return err
		}
	}
	_, err := bufs.WriteTo(l.nc)
	return err
}

// pulse reads from a link's connection and keeps its heartbeat: when nothing
// comes for the interval it sends a PING, and when nothing comes after that
// either the read fails. A reader that is busy elsewhere never times out, since
// time only counts while it waits here.
type pulse struct{ l *link }

// errSilent ends a link whose peer answers no heartbeat.
var errSilent = errors.New("zmtp: peer answers no heartbeat")

// Read implements io.Reader.
func (p pulse) Read(b []byte) (int, error) {
	l := p.l
	if l.heartbeat <= 0 || l.minor < minorCommands {
		return l.nc.Read(b)
	}
	n, err := p.readWithin(b, l.heartbeat)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if err = l.write(appendCommand(nil, cmdPing, make([]byte, ttlSize)...)); err != nil {
		return 0, fmt.Errorf("%w: %w", errSilent, err)
	}
	n, err = p.readWithin(b, l.heartbeatTimeout)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, fmt.Errorf("%w within %v", errSilent, l.heartbeatTimeout)
	}
	return n, err
}

func (p pulse) readWithin(b []byte, d time.Duration) (int, error) {
	if err := p.l.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return 0, err
	}
	return p.l.nc.Read(b)
}

// closeWith closes nc when ctx ends, which is what unblocks reads and writes.
// The returned function closes it at once and waits for nothing.
func closeWith(ctx context.Context, nc net.Conn) (closeNow func()) {
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	return func() {
		stop()
		_ = nc.Close()
	}
}
