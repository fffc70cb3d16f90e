package steer_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// honest and wrong are answers of an engine with blocks of 16 tokens.
func honest() *steer.Comparison {
	return &steer.Comparison{Reported: 160, Expected: 160, Sure: 160, Prompt: 200, Counted: 200, Block: 16}
}

func wrong() *steer.Comparison {
	return &steer.Comparison{Reported: 96, Expected: 160, Sure: 160, Prompt: 200, Counted: 200, Block: 16}
}

func none() *steer.Comparison {
	return &steer.Comparison{Expected: 160, Sure: 160, Prompt: 200, Counted: 200, Block: 16}
}

// audited is an Audit of an owner that events say is known so well.
type audited struct {
	steer.Audit

	known kvcache.Trust
	turns map[steer.Turn]int
}

func newAudited(trust kvcache.Trust) *audited {
	return &audited{known: trust, turns: map[steer.Turn]int{}}
}

// trust is what the owner is trusted as.
func (a *audited) trust() kvcache.Trust {
	if a.Doubted() {
		return steer.Suspected(a.known)
	}
	return a.known
}

func (a *audited) record(n int, c *steer.Comparison) {
	for range n {
		if turn := a.Record(c, a.known); turn != steer.Goes {
			a.turns[turn]++
		}
	}
}

// until records what draw returns until the turn comes, and returns how many that took;
// most if it does not come.
func (a *audited) until(turn steer.Turn, most int, draw func() *steer.Comparison) int {
	for n := 1; n < most; n++ {
		if a.record(1, draw()); a.turns[turn] > 0 {
			return n
		}
	}
	return most
}

func TestAudit(t *testing.T) {
	t.Parallel()
	for _, trust := range []kvcache.Trust{kvcache.Exact, kvcache.Resyncing} {
		a := newAudited(trust)
		a.record(11, wrong())
		require.Equal(t, trust, a.trust())
		a.record(1, wrong())
		require.Equal(t, kvcache.Suspect, a.trust())
		require.Equal(t, map[steer.Turn]int{steer.Doubted: 1}, a.turns)
		a.record(12, wrong())
		require.Equal(t, map[steer.Turn]int{steer.Doubted: 1, steer.Confirmed: 1}, a.turns)
		a.record(10, honest())
		require.Equal(t, kvcache.Suspect, a.trust())
		a.record(1, honest())
		require.Equal(t, trust, a.trust(), "back to what it was")
		a.record(11, wrong())
		require.Equal(t, trust, a.trust(), "what was before is forgotten")
	}
}

// Neither a gap, nor a reconnection, nor that everything was dropped meanwhile ends doubts.
func TestDoubtOutlastsWhatEventsSay(t *testing.T) {
	t.Parallel()
	a := newAudited(kvcache.Exact)
	a.record(12, wrong())
	for _, known := range []kvcache.Trust{kvcache.Resyncing, kvcache.Blind, kvcache.Approximate, kvcache.Exact} {
		a.known = known
		require.Equal(t, steer.Suspected(known), a.trust(), known)
		a.record(1, honest())
		require.Equal(t, steer.Suspected(known), a.trust(), known)
	}
	require.Equal(t, kvcache.Suspect, a.trust())
	a.Forget()
	require.Equal(t, kvcache.Exact, a.trust())
	a.record(11, wrong())
	require.Equal(t, kvcache.Exact, a.trust(), "it begins anew")
}

// Siblings that are computed side by side find nothing of one another. What is only booked
// is no evidence; what events have confirmed is, and so is more than was expected.
func TestAuditOfSiblings(t *testing.T) {
	t.Parallel()
	part := func(reported int) *steer.Comparison {
		return &steer.Comparison{Reported: reported, Expected: 160, Sure: 64, Prompt: 200, Counted: 200, Block: 16}
	}
	a := newAudited(kvcache.Exact)
	for _, reported := range []int{49, 64, 96, 160, 175} {
		a.record(100, part(reported))
	}
	a.record(100, &steer.Comparison{Expected: 160, Prompt: 200, Counted: 200, Block: 16})
	require.Empty(t, a.turns)
	for _, reported := range []int{0, 48, 176} {
		a = newAudited(kvcache.Exact)
		a.record(12, part(reported))
		require.Equal(t, kvcache.Suspect, a.trust(), reported)
		a.record(100, &steer.Comparison{Expected: 160, Prompt: 200, Counted: 200, Block: 16})
		require.Equal(t, kvcache.Suspect, a.trust(), "nothing that was sure, nothing found: no agreement either")
	}
	a = newAudited(kvcache.Approximate)
	a.record(100, &steer.Comparison{Expected: 160, Prompt: 200, Counted: 200, Block: 16})
	require.Empty(t, a.turns)
}

// What says nothing counts for nothing: neither usage without a hit, nor that more is
// found than a lower bound.
func TestAuditOfWhatTellsNothing(t *testing.T) {
	t.Parallel()
	nothing := &steer.Comparison{Prompt: 200, Counted: 200, Block: 16}
	more := &steer.Comparison{Reported: 160, Expected: 32, Sure: 32, Prompt: 200, Counted: 200, Block: 16}
	for _, trust := range []kvcache.Trust{kvcache.Exact, kvcache.Resyncing, kvcache.Approximate, kvcache.Blind} {
		a := newAudited(trust)
		a.record(1000, nothing)
		if trust != kvcache.Exact {
			a.record(1000, more)
		}
		require.Empty(t, a.turns, trust)
		if trust == kvcache.Exact {
			a.record(11, wrong())
			a.record(1000, nothing)
			a.record(1, wrong())
			require.Equal(t, kvcache.Suspect, a.trust(), "it did not count as agreement either")
		}
	}
	a := newAudited(kvcache.Blind)
	a.record(1000, wrong())
	require.Empty(t, a.turns)
}

// Without events what was evicted is not known: only who never finds anything is doubted.
func TestAuditWithoutEvents(t *testing.T) {
	t.Parallel()
	a := newAudited(kvcache.Approximate)
	a.record(1000, wrong())
	require.Empty(t, a.turns)
	a.until(steer.Doubted, 100, none)
	require.Equal(t, kvcache.Suspect, a.trust())
	a.record(10, none())
	require.Equal(t, kvcache.Suspect, a.trust())
	a.turns = map[steer.Turn]int{}
	require.Less(t, a.until(steer.Restored, 100, wrong), 15, "it found something")
	require.Equal(t, kvcache.Approximate, a.trust())
}

// The rates that the constants were chosen for, measured: seeded, so that they are the
// same each time.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const runs = 500
	measure := func(share float64, before int) (mean, worst int) {
		sum := 0
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 1))
			a := newAudited(kvcache.Exact)
			a.record(before, honest())
			n := a.until(steer.Doubted, 10_000, func() *steer.Comparison {
				if rng.Float64() < share {
					return wrong()
				}
				return honest()
			})
			sum, worst = sum+n, max(worst, n)
		}
		return sum / runs, worst
	}
	for before := range 12 { // wherever the test before stands
		_, worst := measure(1, before)
		require.LessOrEqual(t, worst, 15, "always wrong, after %d that were right", before)
	}
	mean, worst := measure(0.5, 0)
	t.Logf("half wrong: doubted after %d requests, at the latest %d of %d times", mean, worst, runs)
	require.LessOrEqual(t, mean, 40)
	require.LessOrEqual(t, worst, 150)
	mean, worst = measure(0.75, 10)
	t.Logf("three of four wrong: after %d, at the latest %d", mean, worst)
	require.LessOrEqual(t, mean, 25)
	mean, worst = measure(0.3, 0)
	t.Logf("three of ten wrong: after %d, at the latest %d", mean, worst)
	require.Less(t, worst, 10_000)

	a := newAudited(kvcache.Approximate)
	require.Equal(t, 29, a.until(steer.Doubted, 100, none))
}

func TestAuditDoubtsNobodyForHonestRaces(t *testing.T) {
	t.Parallel()
	const requests = 100_000
	for _, trust := range []kvcache.Trust{kvcache.Exact, kvcache.Resyncing} {
		for _, share := range []float64{0.01, 0.03, 0.05} {
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, 2))
				a := newAudited(trust)
				for range requests {
					c := honest()
					if rng.Float64() < share {
						c = wrong()
					}
					a.record(1, c)
				}
				require.Empty(t, a.turns, "%v of the requests, seed %d", share, seed)
			}
		}
	}
	// Of a worker without events half of the prompts may be gone at any time.
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		a := newAudited(kvcache.Approximate)
		for range requests {
			c := honest()
			if rng.Float64() < 0.5 {
				c = none()
			}
			a.record(1, c)
		}
		require.Empty(t, a.turns, "seed %d", seed)
	}
	// Races come together: three siblings, all of whose predictions were off.
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 4))
		a := newAudited(kvcache.Exact)
		for range requests / 3 {
			c := honest()
			if rng.Float64() < 0.02 {
				c = wrong()
			}
			a.record(3, c)
		}
		require.Empty(t, a.turns, "seed %d", seed)
	}
}

// Who is half wrong is not trusted again, but rarely and for a moment; who is right
// with a few races is, soon.
func TestAuditRestoresWhoIsRight(t *testing.T) {
	t.Parallel()
	draw := func(rng *rand.Rand, share float64) func() *steer.Comparison {
		return func() *steer.Comparison {
			if rng.Float64() < share {
				return wrong()
			}
			return honest()
		}
	}
	restored, sum, worst := 0, 0, 0
	const runs = 2000
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 5))
		a := newAudited(kvcache.Exact)
		a.record(12, wrong())
		require.Equal(t, kvcache.Suspect, a.trust())
		half := *a
		half.turns = map[steer.Turn]int{}
		for half.turns[steer.Restored]+half.turns[steer.Confirmed] == 0 {
			half.record(1, draw(rng, 0.5)())
		}
		restored += half.turns[steer.Restored]
		n := a.until(steer.Restored, 10_000, draw(rng, 0.05))
		sum, worst = sum+n, max(worst, n)
	}
	t.Logf("half wrong: restored in %d of %d tests; honest: restored after %d on average, at the latest %d", restored, runs, sum/runs, worst)
	require.LessOrEqual(t, restored, 10, "0.1%% are expected")
	require.LessOrEqual(t, sum/runs, 20)
	require.LessOrEqual(t, worst, 200)
}
