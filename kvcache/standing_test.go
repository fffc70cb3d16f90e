package kvcache_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

func TestStanding(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{MaxOrphans: 2})
	o := x.Join("a")
	assert.Equal(t, kvcache.Standing{}, x.Standing(o))
	gap := kvcache.Standing{Trust: kvcache.Resyncing, Reason: "gap"}
	x.SetStanding(o, gap)
	assert.Equal(t, gap, x.Standing(o))
	for range 20 { // the table grows
		x.Join("b")
	}
	assert.Equal(t, gap, x.Standing(o))
	s := x.OwnerStats(o)
	assert.Equal(t, gap.Trust, s.Trust)
	assert.Equal(t, gap.Reason, s.TrustReason)

	x.SetTrust(o, kvcache.Exact)
	assert.Equal(t, kvcache.Standing{Trust: kvcache.Exact}, x.Standing(o))
	orphans := testChain(3)
	orphans.HasParent, orphans.Parent = true, 99
	x.Apply(o, orphans)
	bound := kvcache.Standing{Trust: kvcache.Resyncing, Reason: "orphan bound reached"}
	assert.Equal(t, bound, x.Standing(o))
	assert.Equal(t, kvcache.Resyncing, x.Trust(o))
	assert.Equal(t, kvcache.ReasonOrphanBound, x.Short(o))
	assert.Equal(t, 1, x.OwnerStats(o).Missing)
	assert.Equal(t, 1, x.Stats().Short)
	x.SetTrust(o, kvcache.Exact)
	assert.Equal(t, bound, x.Standing(o), "saying so does not bring it back")
	x.SetStanding(o, gap)
	assert.Equal(t, gap, x.Standing(o), "what was said stands where it is no better")
	x.SetTrust(o, kvcache.Approximate)
	assert.Equal(t, kvcache.Approximate, x.Trust(o))
	x.SetTrust(o, kvcache.Exact)
	// The engine removes the one that there was no room for.
	x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{3}})
	assert.Equal(t, kvcache.Standing{Trust: kvcache.Exact}, x.Standing(o))

	x.Apply(o, &kvcache.Event{Kind: kvcache.Stored, BlockSize: 2, Tokens: []uint32{9, 9}, Hashes: []kvcache.EngineHash{3}, HasParent: true, Parent: 99})
	assert.Equal(t, kvcache.Resyncing, x.Trust(o))
	x.Leave(o)
	assert.Equal(t, kvcache.Standing{}, x.Standing(o))
	assert.Equal(t, kvcache.NoReason, x.Short(o))
	p := x.Join("a")
	assert.Equal(t, kvcache.NoReason, x.Short(p), "nothing is inherited")
	assert.Zero(t, x.Stats().Short)
}

// Removals that nobody announced the blocks of must not make an owner look whole.
func TestShortIsNotFooled(t *testing.T) {
	t.Parallel()
	x := kvcache.NewIndex(kvcache.Options{MaxOrphans: 1})
	o := x.Join("a")
	remove := func(h kvcache.EngineHash, tier kvcache.Tier) {
		x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{h}, Tier: tier})
	}
	lose := func() {
		x.Clear(o)
		orphans := testChain(2)
		orphans.HasParent, orphans.Parent = true, 99
		x.Apply(o, orphans)
		require.Equal(t, kvcache.ReasonOrphanBound, x.Short(o))
	}
	lose()
	remove(77, kvcache.TierGPU)
	assert.Equal(t, kvcache.ReasonOrphanBound, x.Short(o), "another block")
	remove(2, kvcache.TierGPU)
	assert.Equal(t, kvcache.ReasonOrphanBound, x.Short(o), "the sum is off for good")
	lose()
	remove(2, kvcache.TierCPU)
	assert.Equal(t, kvcache.ReasonOrphanBound, x.Short(o), "another tier")
	lose()
	// A copy elsewhere of a block that was lost has to go as well.
	x.Apply(o, &kvcache.Event{Kind: kvcache.Stored, Hashes: []kvcache.EngineHash{2}, Tier: kvcache.TierCPU})
	remove(2, kvcache.TierGPU)
	assert.Equal(t, kvcache.ReasonOrphanBound, x.Short(o))
	remove(2, kvcache.TierCPU)
	assert.Equal(t, kvcache.NoReason, x.Short(o))
	lose()
	x.Apply(o, &kvcache.Event{Kind: kvcache.Cleared})
	assert.Equal(t, kvcache.NoReason, x.Short(o))
	remove(77, kvcache.TierGPU)
	assert.Equal(t, kvcache.NoReason, x.Short(o), "as after a late start")
}

// exactOwner is an engine, what the index holds of it, and what it should hold.
type exactOwner struct {
	index, model kvcache.Owner
	held         [][]kvcache.Event // the prompts that the engine holds
}

// Memory is refused now and then, so that blocks are evicted or never stored. An
// owner of which the index says Exact all the same holds exactly what its engine
// does, at every step; and all are exact again once the engines have let go of
// everything that was lost.
func TestExactMeansExact(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const size, owners, steps = 2, 4, 4000
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 51))
		x := &starved{Index: kvcache.NewIndex(kvcache.Options{}), t: t, r: r}
		m := kvcachetest.NewModel(kvcache.Options{})
		all := make([]exactOwner, owners)
		for i := range all {
			all[i] = exactOwner{index: x.Join("o"), model: m.Join("o")}
			x.SetTrust(all[i].index, kvcache.Exact)
		}
		apply := func(o *exactOwner, e *kvcache.Event) {
			x.Apply(o.index, e)
			m.Apply(o.model, e)
		}
		stem := randomTokens(r, 60*size)
		var prompts [][]kvcache.Key
		seen := map[kvcache.Trust]int{}
		for step := range steps {
			o := &all[r.IntN(owners)]
			if n := len(o.held); n == 0 || n < 12 && r.IntN(2) > 0 {
				tokens := append(slices.Clone(stem[:r.IntN(60)*size]), randomTokens(r, (1+r.IntN(12))*size)...)
				events := chainEvents(tokens, size, 1+r.IntN(30), uint64(r.IntN(2))) // by one of two names
				prompts = append(prompts, kvcache.Hasher{BlockSize: size}.Keys(nil, tokens, kvcache.Scope{}, nil))
				if r.IntN(3) == 0 { // its start comes late
					slices.Reverse(events)
				}
				o.held = append(o.held, events)
				for i := range events {
					apply(o, &events[i])
				}
			} else {
				i := r.IntN(n)
				for _, e := range slices.Backward(o.held[i]) {
					apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: e.Hashes})
				}
				o.held = slices.Delete(o.held, i, i+1)
			}
			for range 2 {
				compareExact(t, x.Index, m, all, prompts[r.IntN(len(prompts))], seen)
			}
			if step%checkEvery == 0 {
				require.NoError(t, x.Check())
			}
		}
		assert.Greater(t, seen[kvcache.Exact], 1000)
		assert.Greater(t, seen[kvcache.Resyncing], 1000)
		for i := range all {
			o := &all[i]
			for _, events := range o.held {
				for _, e := range events {
					apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: e.Hashes})
				}
			}
			assert.Equal(t, kvcache.Exact, x.Trust(o.index), "nothing is left that could be missing")
			assert.Zero(t, x.OwnerStats(o.index).Missing)
			assert.Zero(t, x.Resident(o.index))
		}
	}
}

func compareExact(t *testing.T, x *kvcache.Index, m *kvcachetest.Model, all []exactOwner, keys []kvcache.Key, seen map[kvcache.Trust]int) {
	t.Helper()
	for _, o := range all {
		var got, want [1]kvcache.Hit
		trust := x.Trust(o.index)
		seen[trust]++
		x.Match(keys, []kvcache.Owner{o.index}, got[:])
		m.Match(keys, []kvcache.Owner{o.model}, want[:])
		if trust == kvcache.Exact {
			require.Equal(t, want, got)
		}
		require.LessOrEqual(t, got[0].Blocks, want[0].Blocks)
	}
}
