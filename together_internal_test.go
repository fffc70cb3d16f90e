package kvsteer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However many come, only so many a second wait for others.
func TestGatheringIsBounded(t *testing.T) {
	t.Parallel()
	m := &moment{since: time.Now().Add(time.Hour), taken: mostGathered - 1}
	m.coming.Store(10)
	require.True(t, m.arrives(&Selection{coming: true}))
	m.taken++
	require.False(t, m.arrives(&Selection{coming: true}))
	m.since = time.Now().Add(-time.Second)
	require.True(t, m.arrives(&Selection{coming: true}), "a new second has begun")
	require.Zero(t, m.taken)
	require.False(t, m.arrives(&Selection{}), "a second attempt")
	require.EqualValues(t, 7, m.coming.Load())
}

// Who is due does not wait for the lock: whoever has it may be at that very thing, and
// the context must be heard.
func TestDueOnesDontQueue(t *testing.T) {
	t.Parallel()
	r := &Router{moment: &moment{places: map[place]int{}}}
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	r.isDue() // would hang
}

// What has left is not kept alive.
func TestMomentsForgetWhoLeft(t *testing.T) {
	t.Parallel()
	m := &moment{}
	for range 3 {
		m.waiters = append(m.waiters, &gathered{})
	}
	for len(m.waiters) > 0 {
		require.True(t, m.leave(m.waiters[0]))
	}
	require.Equal(t, make([]*gathered, 3), m.waiters[:3])
}
