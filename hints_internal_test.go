package kvsteer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// Sessions are remembered within bounds.
func TestSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	var s sessions
	at := &fleet.Member{}
	s.moved(0, place{at, 1})
	require.Zero(t, s.home(0), "no session")
	for key := uint64(1); key <= maxSessions+1; key++ {
		s.moved(key, place{at, 1})
		require.LessOrEqual(t, len(s.recent)+len(s.older), maxSessions)
	}
	require.Zero(t, s.home(1))
	require.Equal(t, place{at, 1}, s.home(maxSessions/2+2))
	require.Equal(t, place{at, 1}, s.home(maxSessions+1))
}
