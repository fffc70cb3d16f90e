package steer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// pace predicts a millisecond for each token, own and ahead.
type pace struct{}

func (pace) Predict(in []steer.Features, out []steer.Prediction) {
	for i := range in {
		own := time.Duration(in[i].Uncached) * time.Millisecond
		out[i] = steer.Prediction{TTFT: own + time.Duration(in[i].AheadTokens)*time.Millisecond, Externality: own}
	}
}

func hit(blocks int32) kvcache.Hit {
	return kvcache.Hit{Blocks: blocks, Tiers: [kvcache.NumTiers]int32{kvcache.TierGPU: blocks}}
}

func TestCacheCountsAsFarAsItIsTrusted(t *testing.T) {
	t.Parallel()
	prompt := steer.Prompt{Model: "m", API: "chat", Tokens: 100}
	estimated, bypass := prompt, prompt
	estimated.Estimated, bypass.Bypass = true, true
	for name, c := range map[string]struct {
		prompt  steer.Prompt
		place   steer.Place
		trust   kvcache.Trust
		cached  int
		indexed int
	}{
		"exact":       {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Exact}, kvcache.Exact, 30, 30},
		"resyncing":   {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Resyncing}, kvcache.Resyncing, 30, 30},
		"suspect":     {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Suspect}, kvcache.Suspect, 0, 30},
		"blind":       {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Blind}, kvcache.Blind, 0, 30},
		"approximate": {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Approximate}, kvcache.Approximate, 30, 30},
		"silent":      {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Exact, Silent: true}, kvcache.Approximate, 30, 30},
		"estimated":   {estimated, steer.Place{Hit: hit(3), Trust: kvcache.Exact}, kvcache.Approximate, 30, 30},
		"bypass":      {bypass, steer.Place{Hit: hit(3), Trust: kvcache.Exact}, kvcache.Exact, 0, 30},
		"whole":       {prompt, steer.Place{Hit: hit(10), Trust: kvcache.Exact}, kvcache.Exact, 90, 90},
		"speculative": {prompt, steer.Place{Hit: hit(3), Trust: kvcache.Exact, Speculative: true}, kvcache.Exact, 20, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.place.BlockSize = 10
			var r steer.Round
			r.Add(&c.prompt, &c.place)
			require.Equal(t, c.trust, r.Candidates[0].Trust)
			require.Equal(t, c.cached, r.Candidates[0].CachedTokens)
			require.Equal(t, c.cached, r.Features[0].Cached)
			require.Equal(t, 100-c.cached, r.Features[0].Uncached)
			require.Equal(t, c.indexed, r.Indexed[0])
		})
	}
}

// The engine reports all cached tokens, wherever they lie; what they save differs.
func TestTiersAreWorthLess(t *testing.T) {
	t.Parallel()
	weights := kvcache.TierWeights{kvcache.TierGPU: 1, kvcache.TierDisk: 0.5}
	r := steer.Round{Weights: &weights}
	mixed := kvcache.Hit{Blocks: 8, Tiers: [kvcache.NumTiers]int32{kvcache.TierGPU: 4, kvcache.TierDisk: 2, kvcache.TierRemote: 2}}
	r.Add(&steer.Prompt{Tokens: 100}, &steer.Place{Hit: mixed, BlockSize: 10, Trust: kvcache.Exact})
	require.Equal(t, 80, r.Indexed[0])
	c, f := r.Candidates[0], r.Features[0]
	require.Equal(t, []int{80, 8, 50}, []int{c.CachedTokens, c.CachedBlocks, c.CachedWorth})
	require.Equal(t, mixed.Tiers, c.CachedTiers)
	require.Equal(t, []int{50, 50}, []int{f.Cached, f.Uncached})
}

func TestOneRound(t *testing.T) {
	t.Parallel()
	q := steer.Prompt{Model: "m", API: "chat", Tokens: 100}
	var r steer.Round
	for range 2 { // the second with the memory of the first
		r.Reset()
		r.Add(&q, &steer.Place{
			Name: "busy", Instance: "busy@1", Class: "h100", BlockSize: 10, Hit: hit(5), Trust: kvcache.Exact,
			Prefilling: 2, PrefillTokens: 300, PrefillPairs: 7, Decoding: 3, OtherWaiting: 4, OtherRunning: 5,
			KVUsage: 0.5, ReportAge: time.Second,
		})
		r.Add(&q, &steer.Place{Name: "idle", Rank: 1, BlockSize: 10, Trust: kvcache.Exact})
		r.Predict(pace{})
		r.Choose(&q, policy.Default{})
		require.Equal(t, []int{1, 0}, r.Plan.Order)
	}
	c, f := r.Candidates[0], r.Features[0]
	require.Equal(t, []int{5, 300, 6, 8, 5}, []int{c.InFlight, c.PrefillAhead, c.Queued, c.Running, c.CachedBlocks})
	require.Equal(t, 350*time.Millisecond, c.PredictedTTFT)
	require.Equal(t, 40*time.Millisecond, c.Externality, "eight answers under way count as 0.8")
	require.Equal(t, steer.Features{
		Model: "m", Class: "h100", Worker: "busy", Uncached: 50, Cached: 50, AheadTokens: 300, AheadPairs: 7,
		Waiting: 4, Decoding: 8, KVUsage: 0.5, ReportAge: time.Second,
	}, f)
	require.Equal(t, 1, r.Candidates[1].Rank)
}

// A Policy that leaves the plan alone rejects, whatever the last request got.
func TestNoPlanIsLeftOver(t *testing.T) {
	t.Parallel()
	q := steer.Prompt{Tokens: 1}
	var r steer.Round
	r.Add(&q, &steer.Place{BlockSize: 16})
	r.Choose(&q, policy.Default{})
	require.Len(t, r.Plan.Order, 1)
	r.Reset()
	r.Add(&q, &steer.Place{BlockSize: 16})
	r.Choose(&q, idle{})
	require.Empty(t, r.Plan.Order)
	require.Empty(t, r.Plan.Rule)
}

type idle struct{}

func (idle) Evaluate(*policy.Request, []policy.Candidate, *policy.Plan) {}

func TestRoundAllocatesNothing(t *testing.T) {
	q := steer.Prompt{Model: "m", Tokens: 1000}
	places := make([]steer.Place, 64)
	for i := range places {
		places[i] = steer.Place{BlockSize: 16, Trust: kvcache.Exact, Hit: hit(int32(i))}
	}
	var r steer.Round
	run := func() {
		r.Reset()
		for i := range places {
			r.Add(&q, &places[i])
		}
		r.Predict(pace{})
	}
	run()
	require.Zero(t, testing.AllocsPerRun(100, run))
}

func TestPace(t *testing.T) {
	t.Parallel()
	require.Equal(t, 10*time.Millisecond, steer.Pace(70*time.Millisecond, 8))
	require.Zero(t, steer.Pace(70*time.Millisecond, 7), "too short to tell")
	require.Zero(t, steer.Pace(-time.Second, 100), "a clock that was set back")
}

func TestSurprised(t *testing.T) {
	t.Parallel()
	f := steer.Features{Uncached: 600, AheadTokens: 400}
	require.False(t, f.Surprised(0))
	require.False(t, f.Surprised(100))
	require.True(t, f.Surprised(101))
	nothing := steer.Features{}
	require.False(t, nothing.Surprised(0), "as without other routers")
	require.True(t, nothing.Surprised(1))
}
