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
