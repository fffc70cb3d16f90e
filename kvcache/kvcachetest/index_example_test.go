package kvcachetest_test

import (
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

// An implementation's own test is one line:
//
//	func TestMine(t *testing.T) { kvcachetest.TestIndex(t, newMine) }
//
// CheckIndex does the same outside of a test.
func ExampleCheckIndex() {
	err := kvcachetest.CheckIndex(func(o kvcache.Options) kvcachetest.IndexLike {
		return kvcache.NewIndex(o)
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCompareIndex() {
	err := kvcachetest.CompareIndex(func(o kvcache.Options) kvcachetest.IndexLike {
		return kvcache.NewIndex(o)
	}, kvcachetest.RandomIndex{Seed: 42, Ops: 1000})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleNewModel() {
	m := kvcachetest.NewModel(kvcache.Options{})
	o := m.Join("worker-0")
	out := m.Apply(o, &kvcache.Event{
		Kind: kvcache.Stored, BlockSize: 2, Tokens: []uint32{1, 2}, Hashes: []kvcache.EngineHash{7},
	})
	fmt.Println(out.Verdict, m.Stats().Pairs)
	// Output: applied 1
}
