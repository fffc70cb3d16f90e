package kvsteer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// Hashing a long prompt takes longer than all the rest: it must be over before
// the lock that every pick takes.
func TestPromptsAreHashedBeforeTheLock(t *testing.T) {
	t.Parallel()
	e := fleettest.New(t, fleettest.Config{Name: "e", Model: "m"})
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(
			fleet.Worker{Name: "a", URL: e.URL(), Models: []string{"m"}, BlockSize: 16},
			fleet.Worker{Name: "b", URL: e.URL(), Models: []string{"m"}, BlockSize: 64},
			fleet.Worker{Name: "c", URL: e.URL(), Models: []string{"m"}, BlockSize: 16},
		),
		ProbeInterval: time.Hour, ScrapeInterval: -1,
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == 3 }, 10*time.Second, time.Millisecond)
	r, err := New(WithFleet(f))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, f.Close())
	})
	s, err := r.prepare(t.Context(), &Request{API: Completions, Model: "m", TokenIDs: make([]uint32, 1000)})
	require.NoError(t, err)
	ev := new(evaluation)
	r.hash(s)
	require.Equal(t, 2, s.keys.used, "one for each block size")
	r.look(s, ev)
	require.Equal(t, 2, s.keys.used, "nothing was left to hash")
	require.Len(t, ev.Candidates, 3)
	s.forget()
	next, err := r.prepare(t.Context(), &Request{API: Completions, Model: "m", TokenIDs: make([]uint32, 1000)})
	require.NoError(t, err)
	r.hash(next)
	require.Equal(t, 2, next.keys.used, "the next request's keys are its own")
}
