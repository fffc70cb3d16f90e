package kvcache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// manyOwners is an index with more owners than Match keeps on the stack, each
// with a prompt's first blocks: as many as its place among ten.
func manyOwners(n int) (*kvcache.Index, []kvcache.Owner, []kvcache.Key) {
	x := kvcache.NewIndex(kvcache.Options{})
	tokens := randomTokens(rand.New(rand.NewPCG(21, 22)), 16*10)
	owners := make([]kvcache.Owner, n)
	for i := range owners {
		owners[i] = x.Join("o")
		for _, e := range chainEvents(tokens[:16*(i%10+1)], 16, 4, uint64(i)) {
			x.Apply(owners[i], &e)
		}
	}
	return x, owners, kvcache.Hasher{BlockSize: 16}.Keys(nil, tokens, kvcache.Scope{}, nil)
}

func TestMatchOfManyOwners(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 64, 513, 3000} {
		x, owners, keys := manyOwners(n)
		require.NoError(t, x.Check())
		gone := owners[0]
		x.Leave(gone)
		owners = append(owners, owners[n-1], kvcache.Owner{}, kvcache.MakeOwner(1<<40|5), kvcache.MakeOwner(77))
		hits := make([]kvcache.Hit, len(owners)+3)
		hits[len(owners)].Blocks = 9
		for range 2 {
			x.Match(keys, owners, hits)
			for i := 1; i < n; i++ {
				require.EqualValues(t, i%10+1, hits[i].Blocks, "owner %d of %d", i, n)
			}
			assert.Zero(t, hits[0])
			assert.Equal(t, hits[n-1], hits[n], "an owner asked for twice")
			assert.Zero(t, hits[n+1])
			assert.Zero(t, hits[n+2])
			assert.Zero(t, hits[n+3])
			assert.EqualValues(t, 9, hits[n+4].Blocks, "beyond what was asked for")
		}
		assert.NotEqual(t, gone, x.Join("next"))
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools allocate")
	}
	for _, n := range []int{64, 600} {
		x, owners, keys := manyOwners(n)
		x.Book(owners[0], keys, time.Hour)
		hits := make([]kvcache.Hit, n)
		x.Match(keys, owners, hits)
		assert.Zero(t, testing.AllocsPerRun(100, func() { x.Match(keys, owners, hits) }), "%d owners", n)
	}
}

// Once tables have grown, storing and removing allocates nothing either.
func TestApplyDoesNotAllocate(t *testing.T) {
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("o")
	events := chainEvents(randomTokens(rand.New(rand.NewPCG(23, 24)), 16*64), 16, 64, 0)
	removal := kvcache.Event{Kind: kvcache.Removed, Hashes: events[0].Hashes}
	keep := chainEvents(randomTokens(rand.New(rand.NewPCG(25, 26)), 16*640), 16, 640, 0)
	x.Apply(o, &keep[0])
	assert.Less(t, testing.AllocsPerRun(100, func() {
		x.Apply(o, &events[0])
		x.Apply(o, &removal)
	}), 1.0)
}

// Booking the same prompt over and over must not pile anything up.
func TestBookingAgainKeepsMemoryFlat(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	x := kvcache.NewIndex(kvcache.Options{Now: func() time.Time { return now }})
	o, p := x.Join("o"), x.Join("p")
	keys := kvcache.Hasher{BlockSize: 1}.Keys(nil, randomTokens(rand.New(rand.NewPCG(27, 28)), 900), kvcache.Scope{}, nil)
	for i := range 5000 {
		x.Book(o, keys[:1+i%900], time.Hour+time.Duration(i%7)*time.Minute)
		x.Book(p, keys[:3], time.Hour)
		now = now.Add(time.Second)
	}
	assert.LessOrEqual(t, x.Stretches(), 903)
	require.NoError(t, x.Check())
	now = now.Add(2 * time.Hour)
	assert.Zero(t, x.Stats().Provisional)
	assert.Zero(t, x.Stats().Pairs)
	require.NoError(t, x.Check())
}

// A Match ends bookings whose time has come, without any other call.
func TestMatchSeesBookingsEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	x := kvcache.NewIndex(kvcache.Options{Now: func() time.Time { return now }})
	o := x.Join("o")
	keys := kvcache.Hasher{BlockSize: 1}.Keys(nil, []uint32{1, 2, 3}, kvcache.Scope{}, nil)
	x.Book(o, keys, time.Second)
	x.Book(o, keys, 1<<62) // longer than the clock can count
	hits := make([]kvcache.Hit, 1)
	now = now.Add(time.Hour)
	x.Match(keys, []kvcache.Owner{o}, hits)
	assert.Equal(t, kvcache.Hit{Blocks: 3, Tiers: [kvcache.NumTiers]int32{3}}, hits[0])
	x.Clear(o)
	x.Book(o, keys, time.Second)
	now = now.Add(time.Second)
	x.Match(keys, []kvcache.Owner{o}, hits)
	assert.Zero(t, hits[0])
}

func TestNames(t *testing.T) {
	t.Parallel()
	for v := kvcache.Ignored; v <= kvcache.Orphaned; v++ {
		assert.NotEqual(t, "unknown", v.String())
	}
	assert.Equal(t, "unknown", (kvcache.Orphaned + 1).String())
	seen := map[string]bool{}
	for r := range kvcache.Reason(kvcache.NumReasons) {
		assert.False(t, seen[r.String()], r)
		seen[r.String()] = true
	}
	assert.Equal(t, "unknown reason", kvcache.Reason(kvcache.NumReasons).String())
	seen = map[string]bool{}
	for s := kvcache.Blind; s <= kvcache.Exact; s++ {
		assert.False(t, seen[s.String()], s)
		seen[s.String()] = true
	}
	assert.EqualValues(t, 5, kvcache.MakeOwner(5).ID())
	assert.True(t, kvcache.Owner{}.IsZero())
}
