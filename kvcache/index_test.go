package kvcache_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

// Long runs of the comparison with the model:
//
//	go test ./kvcache -run TestIndexAgainstModel -kvcache.ops 10000000 -timeout 0
var (
	modelOps  = flag.Int("kvcache.ops", 200_000, "random operations to compare with the model")
	modelSeed = flag.Uint64("kvcache.seed", 1, "seed of the random operations")
)

func newIndex(o kvcache.Options) kvcachetest.IndexLike { return kvcache.NewIndex(o) }

func TestIndexSuite(t *testing.T) {
	t.Parallel()
	kvcachetest.TestIndex(t, newIndex)
}

// Half of the operations on short prompts with much branching, the other half on
// prompts that are longer than anything the index stores in one piece.
func TestIndexAgainstModel(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]kvcachetest.RandomIndex{
		"wide": {Seed: *modelSeed, Ops: *modelOps * 9 / 10},
		"deep": {Seed: *modelSeed, Ops: *modelOps / 10, Deep: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, kvcachetest.CompareIndex(newIndex, r))
		})
	}
}
