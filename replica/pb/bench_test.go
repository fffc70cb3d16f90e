package pb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb"
)

// beat is what a busy router says each beat: its work on some ranks and the prompts of the
// last second, of 500 blocks each.
func beat(ranks, prompts int) *replica.Message {
	m := &replica.Message{Version: replica.Version, Router: "gateway-7", Epoch: 1 << 60, Seq: 12_345, Full: true}
	for i := range ranks {
		m.Loads = append(m.Loads, replica.Load{
			Instance: fmt.Sprintf("vllm-llama-70b-%05d@2f6c1a90b7d34e58", i/8), Rank: i % 8, PrefillRequests: 2, PrefillTokens: 9_000,
			PrefillPairs: 40_000_000, PrefillFor: 300 * time.Millisecond, DecodeRequests: 30, OutputTokens: 12_000, ContextTokens: 400_000,
		})
	}
	for i := range prompts {
		b := replica.Booking{Instance: m.Loads[i%ranks].Instance, Rank: i % 8, TTL: time.Minute}
		for j := range 500 {
			b.Keys = append(b.Keys, kvcache.Key(uint64(i*1000+j)*0x9e3779b97f4a7c15))
		}
		m.Bookings = append(m.Bookings, b)
	}
	return m
}

func sizes(b *testing.B, run func(*testing.B, *replica.Message)) {
	b.Helper()
	for _, s := range []struct{ ranks, prompts int }{{8, 4}, {256, 30}, {replica.MaxLoads, 30}} {
		b.Run(fmt.Sprintf("ranks=%d/prompts=%d", s.ranks, s.prompts), func(b *testing.B) {
			m := beat(s.ranks, s.prompts)
			data, err := pb.Marshal(m)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b, m)
			b.ReportMetric(float64(len(data)), "bytes/message")
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	sizes(b, func(b *testing.B, m *replica.Message) {
		b.Helper()
		for b.Loop() {
			if _, err := pb.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	sizes(b, func(b *testing.B, m *replica.Message) {
		b.Helper()
		data, err := pb.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := pb.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
