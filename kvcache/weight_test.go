package kvcache_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/kvcache"
)

func TestWorth(t *testing.T) {
	def := kvcache.DefaultTierWeights()
	even := kvcache.TierWeights{1, 1, 1, 1}
	for name, c := range map[string]struct {
		hit     kvcache.Hit
		weights kvcache.TierWeights
		want    float64
	}{
		"nothing":    {kvcache.Hit{}, def, 0},
		"gpu":        {kvcache.Hit{Blocks: 7, Tiers: [kvcache.NumTiers]int32{7}}, def, 7},
		"cpu":        {kvcache.Hit{Blocks: 10, Tiers: [kvcache.NumTiers]int32{0, 10}}, def, 8},
		"each":       {kvcache.Hit{Blocks: 4, Tiers: [kvcache.NumTiers]int32{1, 1, 1, 1}}, def, 2.4},
		"all equal":  {kvcache.Hit{Blocks: 9, Tiers: [kvcache.NumTiers]int32{2, 3, 4, 0}}, even, 9},
		"no weights": {kvcache.Hit{Blocks: 9, Tiers: [kvcache.NumTiers]int32{9}}, kvcache.TierWeights{}, 0},
	} {
		assert.InDelta(t, c.want, c.hit.Worth(&c.weights), 1e-12, name)
	}
}

func TestDefaultTierWeights(t *testing.T) {
	w := kvcache.DefaultTierWeights()
	assert.InDelta(t, 1, w[kvcache.TierGPU], 0)
	for i := range w {
		assert.Positive(t, w[i])
		if i > 0 {
			assert.Less(t, w[i], w[i-1], "slower tiers are worth less")
		}
	}
}

// What lies behind the first missing block is worth nothing.
func TestWorthOfLeadingBlocks(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("a")
	x.Apply(o, testChain(6))
	x.Apply(o, &kvcache.Event{Kind: kvcache.Stored, Hashes: []kvcache.EngineHash{2}, Tier: kvcache.TierCPU})
	x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{2, 4}})
	hits, owners, keys, w := make([]kvcache.Hit, 1), []kvcache.Owner{o}, testKeys(6), kvcache.DefaultTierWeights()
	var worth float64
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		x.Match(keys, owners, hits)
		worth = hits[0].Worth(&w)
	}))
	assert.InDelta(t, 2.8, worth, 1e-12)
}
