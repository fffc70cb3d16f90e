//go:build cgo

package zmq_test

import (
	"context"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmq"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// BenchmarkReceive is one message of 4 KiB from a libzmq publisher to Recv over
// the loopback interface, many in flight.
func BenchmarkReceive(b *testing.B) {
	b.Run("libzmq", func(b *testing.B) { receive(b, &zmq.Transport{}) })
	b.Run("pure Go", func(b *testing.B) { receive(b, &zmtp.Transport{}) })
}

func receive(b *testing.B, transport follow.Transport) {
	b.Helper()
	const (
		size   = 4 << 10
		window = 512
	)
	p, err := zmq.NewPublisher(zmq.PublisherConfig{History: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	c, err := transport.Dial(b.Context(), p.Endpoint())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	publish := func(payload []byte) {
		if _, err := p.Publish("kv", payload); err != nil {
			b.Fatal(err)
		}
	}
	for warm := false; !warm; {
		publish(nil)
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Millisecond)
		_, err := c.Recv(ctx)
		cancel()
		warm = err == nil
	}
	payload := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	sent := 0
	for received := range b.N {
		for ; sent < b.N && sent < received+window; sent++ {
			publish(payload)
		}
		if _, err := c.Recv(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
