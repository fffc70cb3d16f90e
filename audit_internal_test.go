package kvsteer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// A remedy that doesn't help is tried ever more rarely.
func TestResyncPause(t *testing.T) {
	t.Parallel()
	var a auditor
	start := time.Unix(1_000_000, 0)
	var done []time.Duration
	for at := time.Duration(0); at < 5*time.Hour; at += 30 * time.Second {
		if a.mayResync(start.Add(at)) {
			done = append(done, at/time.Minute)
		}
	}
	require.Equal(t, []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}, done)
	require.True(t, a.mayResync(start.Add(24*time.Hour)))
	require.Equal(t, resyncPause, a.pause, "much later it is another trouble")
}

// What the Follower says of an owner is its alone: the audit neither overwrites it nor
// puts back what was in force when the doubts began.
func TestAuditLeavesTheStandingAlone(t *testing.T) {
	t.Parallel()
	index := kvcache.NewIndex(kvcache.Options{})
	o := index.Join("w")
	var a auditor
	record := func(reported int) (v verdict) {
		c := &steer.Comparison{Reported: reported, Expected: 160, Sure: 160, Prompt: 200, Block: 16}
		for range 12 {
			if v = a.record(index, o, c, 0); v.from != v.to {
				return v
			}
		}
		return v
	}
	lower := kvcache.Standing{Trust: kvcache.Resyncing, Reason: "gap"}
	index.SetStanding(o, lower)
	v := record(0)
	require.Equal(t, []kvcache.Trust{kvcache.Resyncing, kvcache.Suspect}, []kvcache.Trust{v.from, v.to})
	require.True(t, v.doubts)
	require.Equal(t, lower, index.Standing(o))
	index.SetStanding(o, kvcache.Standing{Trust: kvcache.Exact}) // the gap is closed meanwhile
	require.Equal(t, kvcache.Suspect, a.lowers(index.Trust(o)))
	require.True(t, record(0).doubts, "and again")
	v = record(160)
	require.Equal(t, []kvcache.Trust{kvcache.Suspect, kvcache.Exact}, []kvcache.Trust{v.from, v.to}, "not what it was then")
	require.False(t, a.reread(), "nobody had the events read anew")

	require.Equal(t, kvcache.Suspect, record(0).to)
	require.True(t, a.mayResync(time.Unix(1_000_000, 0)))
	require.True(t, a.reread())
	require.Equal(t, kvcache.Exact, a.lowers(index.Trust(o)))
}
