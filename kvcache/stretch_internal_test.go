package kvcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Prompts begin at their start, so Book never renews the middle of a stretch alone.
// If it did, the three parts would have ends and ages of their own.
func TestStretchMiddle(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	x := NewIndex(Options{Now: func() time.Time { return now }})
	o := x.Join("o")
	tokens := make([]uint32, 300)
	keys := Hasher{BlockSize: 1}.Keys(nil, tokens, Scope{}, nil)
	x.Book(o, keys, time.Minute)
	renew := func(from, to int, ttl time.Duration) {
		x.mu.Lock()
		defer x.mu.Unlock()
		require.True(t, x.open(x.owner(o), x.findHead(keys[0]), false))
		require.True(t, x.bookStretch(&x.cur, from, to, now.Add(ttl).UnixNano()))
		x.flush()
		x.setDue()
	}
	renew(100, 200, time.Hour)
	require.NoError(t, x.Check())
	assert.Equal(t, 4, x.Stretches(), "a look at the budget divides what is new")
	assert.Equal(t, 300, x.Resident(o))
	// The oldest leave first: the end, then the start, the middle last.
	x.SetCapacity(o, 190)
	require.NoError(t, x.Check())
	hits := make([]Hit, 1)
	x.Match(keys, []Owner{o}, hits)
	assert.EqualValues(t, 90, hits[0].Blocks)
	now = now.Add(time.Minute)
	assert.Equal(t, 100, x.Stats().Provisional)
	require.NoError(t, x.Check())
	renew(0, 150, time.Hour) // what is not there yet is added
	assert.Equal(t, 200, x.Stats().Provisional)
	require.NoError(t, x.Check())
	renew(50, 200, time.Minute) // the end of one
	assert.Equal(t, 200, x.Stats().Provisional)
	require.NoError(t, x.Check())
	now = now.Add(time.Minute)
	assert.Equal(t, 50, x.Stats().Provisional)
	require.NoError(t, x.Check())
	now = now.Add(time.Hour)
	assert.Zero(t, x.Stats().Provisional)
	assert.Zero(t, x.Stats().Pairs)
	assert.Zero(t, x.Stretches())
	require.NoError(t, x.Check())
}
