package kvcache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// BenchmarkHasher16k hashes a prompt of 16,000 tokens in blocks of 16.
func BenchmarkHasher16k(b *testing.B) {
	tokens := randomTokens(rand.New(rand.NewPCG(1, 1)), 16000)
	dst := make([]kvcache.Key, 0, 1000)
	h := kvcache.Hasher{BlockSize: 16}
	b.ReportAllocs()
	var took durations
	for b.Loop() {
		start := time.Now()
		dst = h.Keys(dst[:0], tokens, kvcache.Scope{Adapter: "a"}, nil)
		took.add(time.Since(start))
	}
	took.report(b)
}
