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

// A bound of the index makes it lose what the engine holds. Then it says so.
func ExampleIndex_Standing() {
	index := kvcache.NewIndex(kvcache.Options{MaxOrphans: 1})
	owner := index.Join("worker-0")
	index.SetStanding(owner, kvcache.Standing{Trust: kvcache.Exact})
	fmt.Println(index.Standing(owner))

	// Two blocks after one that nobody announced: there is room for one to wait.
	index.Apply(owner, &kvcache.Event{
		Kind: kvcache.Stored, Hashes: []kvcache.EngineHash{111, 222}, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2,
		Parent: 99, HasParent: true,
	})
	fmt.Println(index.Standing(owner))

	// The engine removes the other one: nothing is missing any more.
	index.Apply(owner, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{222}})
	fmt.Println(index.Standing(owner))
	// Output:
	// {exact }
	// {resyncing orphan bound reached}
	// {exact }
}

// A follower records how far it has come; another process goes on from there.
func ExampleIndex_SetPosition() {
	old := kvcache.NewIndex(kvcache.Options{})
	owner := old.Join("worker-0")
	old.Apply(owner, &kvcache.Event{
		Kind: kvcache.Stored, Hashes: []kvcache.EngineHash{111}, Tokens: []uint32{1, 2}, BlockSize: 2,
	})
	old.SetPosition(owner, kvcache.Position{Seq: 41, Proof: 0xfeed, Whole: true})
	var snapshot bytes.Buffer
	if err := old.Export(&snapshot); err != nil {
		fmt.Println(err)
	}

	index := kvcache.NewIndex(kvcache.Options{})
	owner = index.Join("worker-0")
	if _, err := index.Import(&snapshot, nil); err != nil {
		fmt.Println(err)
	}
	at, ok := index.Position(owner)
	fmt.Println("ask the publisher for message", at.Seq, "and those after it:", ok)
	// Output: ask the publisher for message 41 and those after it: true
}
