package kvcache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// BenchmarkBook books prompts of 1,000 blocks, a thousand of them by turns, as a
// router does for every pick: at a worker that holds all of it; that holds all but
// the last 16 blocks, the usual case of a warm one; where all of it is booked
// already, as where there are no events; and where all is new.
func BenchmarkBook(b *testing.B) {
	const prompts = 1000
	r := rand.New(rand.NewPCG(33, 34))
	tokens := make([][]uint32, prompts)
	keys := make([][]kvcache.Key, prompts)
	for i := range keys {
		tokens[i] = randomTokens(r, benchBlocks*benchSize)
		keys[i] = kvcache.Hasher{BlockSize: benchSize}.Keys(nil, tokens[i], kvcache.Scope{}, nil)
	}
	for _, c := range []struct {
		name           string
		stored, booked int
		anew           bool
	}{
		{"resident", benchBlocks, 0, false},
		{"warm", benchBlocks - 16, 0, false},
		{"booked", 0, benchBlocks, false},
		{"new", 0, 0, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := &benchFleet{index: kvcache.NewIndex(kvcache.Options{MaxProvisional: 2 * prompts * benchBlocks})}
			o := f.index.Join("w")
			for i := range keys {
				f.store(o, tokens[i], keys[i], c.stored)
				f.index.Book(o, keys[i][:c.booked], time.Minute)
			}
			var took durations
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.anew && i%prompts == 0 {
					f.index.Clear(o)
				}
				start := time.Now()
				f.index.Book(o, keys[i%prompts], time.Minute)
				took.add(time.Since(start))
			}
			took.report(b)
		})
	}
}
