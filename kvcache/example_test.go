package kvcache_test

import (
	"bytes"
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache"
)

func ExampleNewIndex() {
	index := kvcache.NewIndex(kvcache.Options{MaxBytes: 64 << 20})
	owner := index.Join("worker-0/rank-0")

	// The engine says that it has stored two blocks of four tokens.
	index.Apply(owner, &kvcache.Event{
		Kind:      kvcache.Stored,
		Hashes:    []kvcache.EngineHash{111, 222},
		Tokens:    []uint32{1, 2, 3, 4, 5, 6, 7, 8},
		BlockSize: 4,
	})

	// A prompt of ten tokens comes in.
	hasher := kvcache.Hasher{BlockSize: index.BlockSize(owner)}
	keys := hasher.Keys(nil, []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, kvcache.Scope{}, nil)
	hits := make([]kvcache.Hit, 1)
	index.Match(keys, []kvcache.Owner{owner}, hits)

	fmt.Println(hits[0].Blocks, "blocks,", kvcache.CachedTokens(int(hits[0].Blocks), 4, 10, false), "tokens")
	// Output: 2 blocks, 8 tokens
}

func ExampleHasher() {
	h := kvcache.Hasher{BlockSize: 4}
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	base := h.Keys(nil, tokens, kvcache.Scope{}, nil)
	adapter := h.Keys(nil, tokens, kvcache.Scope{Adapter: "my-lora"}, nil)
	fmt.Println(len(base), base[0] == adapter[0])
	fmt.Println(h.Next(h.Root(kvcache.Scope{}), tokens[:4], nil) == base[0])
	// Output:
	// 2 false
	// true
}

func ExampleIndex_Import() {
	old := kvcache.NewIndex(kvcache.Options{})
	old.Apply(old.Join("worker-0"), &kvcache.Event{
		Kind: kvcache.Stored, Hashes: []kvcache.EngineHash{111, 222}, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2,
	})
	var snapshot bytes.Buffer
	if err := old.Export(&snapshot); err != nil {
		fmt.Println(err)
	}

	// A new replica knows its workers already and has heard of no events yet.
	index := kvcache.NewIndex(kvcache.Options{})
	owner := index.Join("worker-0")
	stats, err := index.Import(&snapshot, nil)
	fmt.Println(stats.Owners, stats.Pairs, err)
	fmt.Println(index.Resident(owner), index.Trust(owner))
	// Output:
	// 1 2 <nil>
	// 2 approximate
}
