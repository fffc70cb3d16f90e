package kvsteer_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func TestStatsSayWhatHappened(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithQueue(kvsteer.QueueOptions{MaxWaiting: 7})}})
	require.Same(t, r.fleet, r.router.Fleet())
	r.waitTrust(kvcache.Exact)

	before := r.router.Stats()
	require.Equal(t, 7, before.MaxWaiting)
	require.Len(t, before.Caches, 2)
	require.Equal(t, "w0", before.Caches[0].Worker)
	require.Len(t, before.Caches[0].Ranks, 1)
	require.Len(t, before.Caches[0].Streams, 1)

	sel, err := r.router.Select(t.Context(), chatRequest("what is counted", false))
	require.NoError(t, err)
	require.Equal(t, 1, r.router.Stats().InFlight)
	sel.Done(kvsteer.Usage{})

	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody("what is counted again", false)).status)
	require.Eventually(t, func() bool {
		stored := uint64(0)
		for _, c := range r.router.Stats().Caches {
			stored += c.Ranks[0].Stored
		}
		return stored == r.router.Stats().Index.Stored
	}, 30*time.Second, time.Millisecond, "the index is the sum of its owners")

	after := r.router.Stats()
	require.Zero(t, after.InFlight)
	asked := after.Prompts.Sources[prompt.SourceTokenize]
	require.GreaterOrEqual(t, asked.Served, before.Prompts.Sources[prompt.SourceTokenize].Served+2)
	require.Positive(t, asked.Took)
}

func TestStatsOfNothing(t *testing.T) {
	r := newRig(t, rigConfig{})
	s := r.router.Stats()
	require.Empty(t, s.Caches)
	require.Zero(t, s.MaxWaiting)
	require.NoError(t, r.router.Close())
	require.Zero(t, r.router.Stats().InFlight)
}
