package zmtp

import (
	"runtime"
	"testing"
)

// BenchmarkReceive is one message of 4 KiB from Publish to Recv over the
// loopback interface, many in flight.
func BenchmarkReceive(b *testing.B) {
	const (
		size   = 4 << 10
		window = 512
	)
	p, err := NewPublisher(PublisherConfig{History: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	var tr Transport
	c, err := tr.Dial(b.Context(), p.Endpoint())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for p.Subscribers() == 0 {
		runtime.Gosched()
	}
	payload := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	sent := 0
	for received := range b.N {
		for ; sent < b.N && sent < received+window; sent++ {
			if _, err := p.Publish("kv", payload); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := c.Recv(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
