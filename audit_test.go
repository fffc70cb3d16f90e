package kvsteer_test

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestDisagreementMakesSuspectAndAgreementRestores(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(8, 1000)
	r.doubtForGood(text)
	d, err := r.router.Explain(t.Context(), chatRequest(text, false))
	require.NoError(t, err)
	require.Equal(t, "suspect", d.Winner().TrustState)
	require.Zero(t, d.Winner().CachedTokens, "nothing is expected of a suspect cache")
	for range 12 {
		n := r.observed.outcomeCount()
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
		r.observed.nextOutcome(t, n)
	}
	r.waitTrust(kvcache.Exact)
}

// became counts the changes of trust to a state.
func (h *recorder) became(to kvcache.Trust) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, c := range h.trust {
		if c.To == to {
			n++
		}
	}
	return n
}

// Where the events are right and what was made of them is not, reading them anew
// is the remedy: every worker's doubts lead to it once.
func TestDoubtsHaveTheEventsReadAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	r.waitTrust(kvcache.Exact)
	texts := make([]string, 16)
	for i := range texts {
		texts[i] = fleettest.Text(uint64(i), 500)
		require.Equal(t, http.StatusOK, postTo(t, r.engines[0].URL(), chatBody(texts[i], false)))
	}
	cached := func(text string) int {
		d, err := r.router.Explain(t.Context(), chatRequest(text, false))
		require.NoError(t, err)
		return d.Winner().CachedTokens
	}
	require.Eventually(t, func() bool { return cached(texts[15]) > 0 }, wait, tick)
	r.router.ForgetEverything()
	for _, text := range texts[:12] {
		n := r.observed.outcomeCount()
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
		o := r.observed.nextOutcome(t, n)
		require.Positive(t, o.Usage.CacheRead-o.CachedPredicted)
	}
	require.Equal(t, 1, r.observed.became(kvcache.Suspect))
	r.waitTrust(kvcache.Exact)
	require.Positive(t, cached(texts[15]), "it is known again, without a request")
}

// Doubts outlast whatever happens to the events: only reports that agree end them.
func TestDoubtsOutlastAGap(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(8, 1000)
	r.doubtForGood(text)
	r.observed.mu.Lock()
	changes := len(r.observed.trust)
	r.observed.mu.Unlock()
	gaps := r.router.Stats().Caches[0].Streams[0].Gaps
	r.engines[0].Faults().LoseEvents(1)
	stream := func() follow.Stats { return r.router.Stats().Caches[0].Streams[0] }
	for i := uint64(1000); stream().Gaps == gaps; i++ { // the next events show that some were lost
		require.Less(t, i, uint64(1000+10_000))
		n := r.observed.outcomeCount()
		r.prompt(fleettest.Text(i, 400)) // nothing that could agree
		r.observed.nextOutcome(t, n)
	}
	require.Eventually(t, func() bool { return stream().Trust == kvcache.Exact }, 4*wait, tick)
	d, err := r.router.Explain(t.Context(), chatRequest(text, false))
	require.NoError(t, err)
	require.Equal(t, "suspect", d.Winner().TrustState)
	require.Equal(t, kvcache.Suspect, r.router.Stats().Caches[0].Ranks[0].Trust)
	require.Equal(t, kvcache.Suspect, r.router.Outlook()[0].Trust)
	r.observed.mu.Lock()
	defer r.observed.mu.Unlock()
	require.Empty(t, r.observed.trust[changes:], "there is nothing to tell")
}

// Siblings that are sent together find nothing of one another, however often: their
// engine is as honest as any, with events and without.
func TestSiblingsAreNoReasonForDoubt(t *testing.T) {
	t.Parallel()
	for name, trust := range map[string]kvcache.Trust{"events": kvcache.Exact, "no events": kvcache.Approximate} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) {
				if trust == kvcache.Approximate {
					c.Hub = nil
				}
			}})
			r.waitTrust(trust)
			n := r.observed.outcomeCount()
			r.prompt(fleettest.Text(1, 500))
			r.observed.nextOutcome(t, n)
			require.Eventually(t, func() bool { // an engine that announces its blocks is known to
				return trust == kvcache.Approximate || r.router.Stats().Caches[0].Ranks[0].Stored > 0
			}, wait, tick)
			for round := range uint64(3) {
				siblings := make([]*kvsteer.Selection, 32)
				for i := range siblings {
					s, err := r.router.Select(t.Context(), chatRequest(fleettest.Text(100+round, 500), false))
					require.NoError(t, err)
					if siblings[i] = s; i > 0 {
						require.Positive(t, s.Decision().Winner().CachedTokens)
					}
				}
				for _, s := range siblings {
					s.Done(kvsteer.Usage{Uncached: s.Decision().PromptTokens, Output: 1, Known: true, CachedKnown: true})
				}
			}
			require.Zero(t, r.observed.became(kvcache.Suspect))
		})
	}
}

// What the index has no room for is named, not passed over.
func TestWhatTheBudgetTookIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithIndex(kvcache.Options{MaxBytes: kvcache.MinBytes}),
	}, engine: func(_ int, c *fleettest.Config) { c.BlockSize, c.Blocks, c.Speed = 1, 1<<20, math.Inf(1) }})
	r.waitTrust(kvcache.Exact)
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(fleettest.Text(uint64(i), 20_000), false)).status)
		d, err := r.router.Explain(t.Context(), chatRequest("x", false))
		require.NoError(t, err)
		if w := d.Winner(); w.Trust == kvcache.Resyncing && strings.Contains(w.TrustReason, "budget") {
			require.Contains(t, strings.Join(d.Degradations, "\n"), "cache known in part, a lower bound: "+w.TrustReason)
			break
		}
	}
}

// doubtForGood has the engine drop its cache without telling until what it reports has
// made it Suspect twice. The first doubts have its events read anew. That is of no use
// here, as they are what is wrong, and is not done again soon.
func (r *rig) doubtForGood(text string) {
	r.t.Helper()
	r.engines[0].Faults().MuteCleared(true)
	r.prompt(text)
	for i := 0; r.observed.became(kvcache.Suspect) < 2; i++ {
		require.Less(r.t, i, 100)
		resp, err := http.Post(r.engines[0].URL()+"/reset_prefix_cache", "", nil)
		require.NoError(r.t, err)
		require.NoError(r.t, resp.Body.Close())
		n := r.observed.outcomeCount()
		require.Equal(r.t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status, i)
		r.observed.nextOutcome(r.t, n)
	}
}
