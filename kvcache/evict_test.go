package kvcache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// skipUnderRace leaves out long tests of one goroutine, in which the race detector
// has nothing to find.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine, and long")
	}
}

// A flood of prompts that never come again passes through a budget that holds a
// small part of them. The bound holds at every moment, and a prompt that is asked
// for now and then stays.
func TestBudgetKeepsWhatIsHot(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const size, workers, budget = 2, 32, 8 << 20
	prompts := 1_000_000
	if testing.Short() {
		prompts = 200_000
	}
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: budget})
	r := rand.New(rand.NewPCG(11, 12))
	owners := make([]kvcache.Owner, workers)
	for i := range owners {
		owners[i] = x.Join("w")
	}
	hot := make([][]uint32, 50)
	for i := range hot {
		hot[i] = randomTokens(r, 20*size)
		for _, e := range chainEvents(hot[i], size, 20, 0) {
			x.Apply(owners[i%workers], &e)
		}
	}
	h := kvcache.Hasher{BlockSize: size}
	hits := make([]kvcache.Hit, workers)
	var keys []kvcache.Key
	highest := int64(0)
	for p := range prompts {
		tokens := randomTokens(r, size*(1+r.IntN(3)))
		for _, e := range chainEvents(tokens, size, 8, 0) {
			out := x.Apply(owners[p%workers], &e)
			require.Equal(t, kvcache.Applied, out.Verdict)
			require.Zero(t, out.Missed)
		}
		if p%50 == 0 {
			i := p / 50 % len(hot)
			keys = h.Keys(keys[:0], hot[i], kvcache.Scope{}, nil)
			x.Match(keys, owners, hits)
			require.EqualValues(t, 20, hits[i%workers].Blocks, "hot prompt %d after %d others", i, p)
		}
		if p%1000 == 0 {
			s := x.Stats()
			highest = max(highest, s.Bytes)
			require.LessOrEqual(t, s.Bytes, s.Budget)
		}
	}
	s := x.Stats()
	assert.Greater(t, highest, int64(budget*3/4), "the budget is there to be used")
	assert.Greater(t, s.Pairs, 40_000)
	assert.Equal(t, s.Stored, uint64(s.Pairs)+s.Evicted)
	require.NoError(t, x.Check())
}

// Under pressure the index forgets, but never makes anything up.
func TestBudgetNeverOvercounts(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const size, workers = 2, 4
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	r := rand.New(rand.NewPCG(13, 14))
	h := kvcache.Hasher{BlockSize: size}
	owners := make([]kvcache.Owner, workers)
	truth := make([]map[kvcache.Key]bool, workers)
	for i := range owners {
		owners[i], truth[i] = x.Join("w"), map[kvcache.Key]bool{}
	}
	stem := randomTokens(r, 3000*size)
	hits := make([]kvcache.Hit, workers)
	for step := range 600 {
		w := r.IntN(workers)
		tokens := append(append([]uint32{}, stem[:r.IntN(3000)*size]...), randomTokens(r, r.IntN(900)*size)...)
		keys := h.Keys(nil, tokens, kvcache.Scope{}, nil)
		events := chainEvents(tokens, size, 1+r.IntN(400), 0)
		for i := range events {
			x.Apply(owners[w], &events[i])
		}
		for _, k := range keys {
			truth[w][k] = true
		}
		if len(events) > 0 && r.IntN(2) == 0 {
			for _, e := range events[r.IntN(len(events)):] {
				x.Apply(owners[w], &kvcache.Event{Kind: kvcache.Removed, Hashes: e.Hashes})
			}
		}
		if r.IntN(3) == 0 {
			x.Book(owners[w], keys, time.Hour)
		}
		x.Match(keys, owners, hits)
		for i, hit := range hits {
			for _, k := range keys[:hit.Blocks] {
				require.True(t, truth[i][k], "owner %d never had that block", i)
			}
		}
		if step%100 == 0 {
			require.NoError(t, x.Check())
			s := x.Stats()
			require.LessOrEqual(t, s.Bytes, s.Budget)
		}
	}
	assert.Positive(t, x.Stats().Evicted)
	for _, o := range owners {
		x.Clear(o)
	}
	require.NoError(t, x.Check())
	assert.Zero(t, x.Stats().Pairs)
}

// A long prompt whose start is shared by everyone loses its end, not its start.
func TestEvictionCutsTheEnd(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const size = 1
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	o := x.Join("w")
	r := rand.New(rand.NewPCG(15, 16))
	long := randomTokens(r, 400)
	for _, e := range chainEvents(long, size, 100, 0) {
		x.Apply(o, &e)
	}
	keys := kvcache.Hasher{BlockSize: size}.Keys(nil, long, kvcache.Scope{}, nil)
	hits := make([]kvcache.Hit, 1)
	for range 2000 {
		for _, e := range chainEvents(randomTokens(r, 400), size, 100, 0) {
			x.Apply(o, &e)
		}
		x.Match(keys[:60], []kvcache.Owner{o}, hits)
		require.EqualValues(t, 60, hits[0].Blocks)
	}
	x.Match(keys, []kvcache.Owner{o}, hits)
	assert.EqualValues(t, 60, hits[0].Blocks)
	out := x.Apply(o, &kvcache.Event{
		Kind: kvcache.Stored, BlockSize: 1, Tokens: []uint32{1}, Hashes: []kvcache.EngineHash{1},
		HasParent: true, Parent: chainEvents(long, size, 400, 0)[0].Hashes[399],
	})
	assert.Equal(t, kvcache.Orphaned, out.Verdict)
	assert.Equal(t, kvcache.ReasonEvicted, out.Reason)
	require.NoError(t, x.Check())
}

// Small prompts leave small gaps. A long one that comes among them must find
// room without everything else having to go.
func TestBudgetWithGapsOfAllSizes(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const size = 1
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: 6 << 20})
	r := rand.New(rand.NewPCG(19, 20))
	h := kvcache.Hasher{BlockSize: size}
	owners := []kvcache.Owner{x.Join("a"), x.Join("b"), x.Join("c")}
	hot := randomTokens(r, 10)
	for _, e := range chainEvents(hot, size, 10, 0) {
		x.Apply(owners[0], &e)
	}
	hits := make([]kvcache.Hit, len(owners))
	full := 0
	for step := range 5000 {
		n := 1 + r.IntN(4)
		if step >= 4000 || step >= 2000 && step%20 == 0 {
			n = 300 + r.IntN(1500)
		}
		for range 20 {
			o := owners[r.IntN(3)]
			for _, e := range chainEvents(randomTokens(r, n), size, 700, uint64(step)) {
				before := x.Stats().Pairs
				out := x.Apply(o, &e)
				require.Zero(t, out.Missed)
				after := x.Stats().Pairs
				full = max(full, before)
				require.Greater(t, after, full*2/3, "%d blocks made everything leave", len(e.Hashes))
			}
			if n > 4 {
				break
			}
		}
		x.Match(h.Keys(nil, hot, kvcache.Scope{}, nil), owners, hits)
		require.EqualValues(t, 10, hits[0].Blocks)
	}
	require.NoError(t, x.Check())
	assert.Greater(t, full, 60_000)
}
