package kvsteer

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// Sessions are remembered within bounds.
func TestSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	var s sessions
	at := &fleet.Member{}
	s.moved(0, place{member: at, rank: 1})
	require.Zero(t, s.home(0), "no session")
	for key := uint64(1); key <= maxSessions+1; key++ {
		s.moved(key, place{member: at, rank: 1})
		require.LessOrEqual(t, len(s.recent)+len(s.older), maxSessions)
	}
	require.Zero(t, s.home(1))
	require.Equal(t, place{member: at, rank: 1}, s.home(maxSessions/2+2))
	require.Equal(t, place{member: at, rank: 1}, s.home(maxSessions+1))
}

// What is kept of tenants does not depend on how long their names are.
func TestAccountsHaveShortNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for _, tenant := range []string{"", "a", long, long + "y"} {
		require.LessOrEqual(t, len((&hints{tenant: tenant}).account()), 64)
	}
	require.Equal(t, "a", (&hints{tenant: "a"}).account())
	require.NotEqual(t, (&hints{tenant: long}).account(), (&hints{tenant: long + "y"}).account())
}

func TestTwiceNever(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2*time.Second, twice(time.Second))
	require.Equal(t, 48*time.Hour, twice(math.MaxInt64))
}

// What was booked when hours were predicted, as after a jump of the clock, does not stay for
// hours.
func TestUnansweredBookingsEnd(t *testing.T) {
	t.Parallel()
	o := defaultOptions()
	require.Equal(t, time.Minute, o.unanswered(0))
	require.Equal(t, time.Minute, o.unanswered(time.Second))
	require.Equal(t, 4*time.Minute, o.unanswered(2*time.Minute))
	require.Equal(t, 20*time.Minute, o.unanswered(time.Hour))
	require.Equal(t, 20*time.Minute, o.unanswered(math.MaxInt64))
}
