package kvsteer_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/providers"
)

func TestOutlookSaysWhatARequestWouldFind(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2, worker: func(i int, w *fleet.Worker) {
		if i == 1 {
			w.Events = nil
		}
	}})
	require.Eventually(t, func() bool { return r.router.Outlook()[0].Trust == kvcache.Exact }, wait, time.Millisecond)
	sight := r.router.Outlook()
	require.Len(t, sight, 2)
	require.Equal(t, "w0", sight[0].Worker)
	require.Empty(t, sight[0].TrustReason)
	require.Zero(t, sight[0].Wait, "nothing to do")
	require.Equal(t, kvcache.Approximate, sight[1].Trust)
	require.Equal(t, "the worker publishes no KV events", sight[1].TrustReason)

	sel, err := r.router.Select(t.Context(), chatRequest("a prompt of some length, which takes time to compute", true))
	require.NoError(t, err)
	at := map[string]int{"w0": 0, "w1": 1}[sel.Target().Worker]
	sight = r.router.Outlook()
	require.Positive(t, sight[at].Wait)
	require.Zero(t, sight[1-at].Wait)
	sel.Done(kvsteer.Usage{})
	require.Zero(t, r.router.Outlook()[at].Wait)
}

func TestHotPrefixesOfTheRouter(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2})
	r.waitTrust(kvcache.Exact)
	require.Empty(t, r.router.HotPrefixes(10))
	body := chatBody("a prompt that comes again and again and is long enough for some blocks of the cache "+
		"so that it is held by somebody and found by those that come later, whoever they are and whatever they want of it", false)
	require.Eventually(t, func() bool {
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body).status)
		hot := r.router.HotPrefixes(10)
		return len(hot) > 0 && len(hot[0].Holders) > 0
	}, wait, time.Millisecond)
	hot := r.router.HotPrefixes(10)[0]
	require.Positive(t, hot.Lookups)
	require.Positive(t, hot.Blocks)
	require.Equal(t, 16, hot.BlockSize)
	require.LessOrEqual(t, hot.Holders[0].Blocks, hot.Blocks)
}

func TestProvidersOfTheRouter(t *testing.T) {
	set, err := providers.New(nil, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	require.Same(t, set, newRig(t, rigConfig{options: []kvsteer.Option{kvsteer.WithProviders(set)}}).router.Providers())
	require.Nil(t, newRig(t, rigConfig{}).router.Providers())
}

// To ask what would be done is no request, and a request that is tried twice is one.
func TestHotPrefixesCountRequests(t *testing.T) {
	r := newRig(t, rigConfig{engines: 2})
	r.waitTrust(kvcache.Exact)
	require.Empty(t, r.router.HotPrefixes(10))
	ask := func() *kvsteer.Request {
		return chatRequest("a prompt that comes again and again and is long enough for some blocks of the cache so that "+
			"it is held by somebody and found by those that come later, whoever they are and whatever they want of it", false)
	}
	for range 2 { // the first finds nothing
		sel, err := r.router.Select(t.Context(), ask())
		require.NoError(t, err)
		sel.Done(kvsteer.Usage{})
	}
	for range 50 {
		_, err := r.router.Explain(t.Context(), ask())
		require.NoError(t, err)
	}
	hot := r.router.HotPrefixes(10)
	require.Len(t, hot, 1)
	require.LessOrEqual(t, hot[0].Lookups, 1.0)

	sel, err := r.router.Select(t.Context(), ask())
	require.NoError(t, err)
	first := sel.Decision()
	require.Zero(t, first.Previous)
	require.NoError(t, sel.Next(t.Context(), errors.New("broken")))
	require.Equal(t, first.ID, sel.Decision().Previous)
	require.NotEqual(t, first.ID, sel.Decision().ID)
	sel.Done(kvsteer.Usage{})
	require.LessOrEqual(t, r.router.HotPrefixes(10)[0].Lookups, 2.0)
}
