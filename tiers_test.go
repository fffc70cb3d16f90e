package kvsteer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Blocks that an engine moved out of GPU memory are worth less, and are still
// expected to be reported as cached.
func TestTiersAreWeighed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		medium  string
		options []kvsteer.Option
		tier    kvcache.Tier
		worth   float64 // of a block
	}{
		"CPU memory": {"CPU", nil, kvcache.TierCPU, 0.8},
		"disk":       {"STORAGE", nil, kvcache.TierDisk, 0.4},
		"elsewhere":  {"SOMETHING", nil, kvcache.TierRemote, 0.2},
		"own weights": {
			"CPU",
			[]kvsteer.Option{kvsteer.WithTierWeights(kvcache.TierWeights{kvcache.TierGPU: 1, kvcache.TierCPU: 0.5})},
			kvcache.TierCPU, 0.5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 1, unseen: true, options: c.options})
			r.waitTrust(kvcache.Exact)
			text := fleettest.Text(1, 640)
			r.post("/v1/chat/completions", chatBody(text, false))
			look := func() *kvsteer.DecisionCandidate {
				d, err := r.router.Explain(t.Context(), chatRequest(text, false))
				require.NoError(t, err)
				return d.Winner()
			}
			before := look()
			require.Positive(t, before.CachedTokens)
			require.Equal(t, before.CachedTokens, before.CachedWorth)
			require.EqualValues(t, before.CachedBlocks, before.CachedTiers[kvcache.TierGPU])

			require.Positive(t, r.engines[0].Offload(0, c.medium))
			require.Eventually(t, func() bool { return int(look().CachedTiers[c.tier]) == before.CachedBlocks }, wait, tick)
			after := look()
			require.Equal(t, before.CachedTokens, after.CachedTokens, "the engine will report them all")
			require.EqualValues(t, before.CachedBlocks, after.CachedTiers[c.tier])
			require.InDelta(t, c.worth*float64(after.CachedTokens), after.CachedWorth, 1)
			require.Greater(t, after.PredictedTTFT, before.PredictedTTFT)
			d, err := r.router.Explain(t.Context(), chatRequest(text, false))
			require.NoError(t, err)
			require.Contains(t, d.String(), "as they lie")

			// The audit compares with all blocks, wherever they lie.
			n := r.observed.outcomeCount()
			r.post("/v1/chat/completions", chatBody(text, false))
			o := r.observed.nextOutcome(t, n)
			require.Equal(t, o.Usage.CacheRead, o.CachedPredicted)
			require.Positive(t, o.CachedPredicted)
		})
	}
}

// A worker that has the prompt in GPU memory goes before one that has it on disk.
func TestFasterTierWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, unseen: true})
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(1, 2000)
	for i := range r.engines { // both hold it
		direct := chatBody(text, false)
		status := postTo(t, r.engines[i].URL(), direct)
		require.Equal(t, 200, status)
	}
	holders := func(tier kvcache.Tier) (n int) {
		d, err := r.router.Explain(t.Context(), chatRequest(text, false))
		require.NoError(t, err)
		for i := range d.Candidates {
			if d.Candidates[i].CachedTiers[tier] > 100 {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return holders(kvcache.TierGPU) == 2 }, wait, tick)
	require.Positive(t, r.engines[1].Offload(0, "STORAGE"))
	require.Eventually(t, func() bool { return holders(kvcache.TierDisk) == 1 }, wait, tick)
	for range 10 {
		d, err := r.router.Explain(t.Context(), chatRequest(text, false))
		require.NoError(t, err)
		require.Equal(t, "w0", d.Winner().Name)
	}
}

func TestTierWeightsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	for _, w := range []float64{-0.1, 1.1} {
		_, err := kvsteer.New(kvsteer.WithFleet(r.fleet), kvsteer.WithTierWeights(kvcache.TierWeights{1, w}))
		require.ErrorContains(t, err, "the weight of tier 1")
	}
}
