package kvcachetest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// testHostile: a frame that claims to be larger than any memory ends the
// connection, and neither the process nor its memory.
func testHostile(b *bench) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listener at once
	if err != nil {
		b.Fatalf("listening: %v", err)
	}
	received := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			nc, acceptErr := l.Accept()
			if acceptErr != nil {
				return
			}
			serving.Go(func() { hostile(nc, received) })
		}
	})
	defer serving.Wait()
	defer func() { _ = l.Close() }()

	c := b.dial(follow.Endpoint{Events: "tcp://" + l.Addr().String()})
	defer b.close(c)
	first, err := b.recvErr(c, b.Timeout)
	close(received)
	if err != nil {
		b.Fatalf("Recv: %v", err)
	}
	b.want(first, message("kv", 1))
	if _, err := b.recvErr(c, b.Timeout); !errors.Is(err, follow.ErrDisconnected) {
		b.Errorf("Recv of a frame of 4 EiB returned %v, want ErrDisconnected", err)
	}
}

// hostile speaks as much ZMTP as a publisher must, byte by byte, sends one good
// message, and, when that has been received, the start of an impossible one.
func hostile(nc net.Conn, received <-chan struct{}) {
	defer func() { _ = nc.Close() }()
	greeting := "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL" + strings.Repeat("\x00", 48)
	m := message("kv", 1)
	ready := "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	if _, err := io.WriteString(nc, greeting+ready); err != nil {
		return
	}
	// Nothing may be said before the client's greeting and READY have come.
	const header = 2
	said := make([]byte, len(greeting)+header)
	if _, err := io.ReadFull(nc, said); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, nc, int64(said[len(said)-1])); err != nil {
		return
	}
	wire := append([]byte("\x01\x02kv\x01\x08"), seqFrame(m.Seq)...)
	wire = append(append(wire, 0, byte(len(m.Payload))), m.Payload...)
	if _, err := nc.Write(wire); err != nil {
		return
	}
	<-received
	wire = []byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00and so on")
	if _, err := nc.Write(wire); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, nc) // until the client has had enough
}
