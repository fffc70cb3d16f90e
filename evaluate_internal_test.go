package kvsteer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
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
		ProbeInterval: time.Hour, ProbeTimeout: 30 * time.Second, ScrapeInterval: -1,
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == 3 }, 30*time.Second, time.Millisecond)
	r, err := New(WithFleet(f))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, f.Close())
	})
	s := &Selection{router: r}
	require.NoError(t, r.prepare(t.Context(), s, &Request{API: Completions, Model: "m", TokenIDs: make([]uint32, 1000)}))
	ev := new(evaluation)
	r.hash(s)
	require.Equal(t, 2, s.keys.used, "one for each block size")
	r.look(s, ev)
	require.Equal(t, 2, s.keys.used, "nothing was left to hash")
	require.Len(t, ev.Candidates, 3)
	s.forget()
	next := &Selection{router: r}
	require.NoError(t, r.prepare(t.Context(), next, &Request{API: Completions, Model: "m", TokenIDs: make([]uint32, 1000)}))
	r.hash(next)
	require.Equal(t, 2, next.keys.used, "the next request's keys are its own")
}

// An engine always computes the last token, so a block that ends with the prompt is
// never found; and of a hybrid it is not where windows are kept.
func TestWhatAnEngineMayFind(t *testing.T) {
	t.Parallel()
	index := kvcache.NewIndex(kvcache.Options{})
	plain, hybrid := index.Join("plain"), index.Join("hybrid")
	store := kvcache.Event{Kind: kvcache.Stored, BlockSize: 16, Hashes: []kvcache.EngineHash{1}, Tokens: make([]uint32, 16)}
	index.Apply(plain, &store)
	window := store
	window.Attention, window.Group, window.Window = kvcache.WindowAttention, 1, 32
	index.Apply(hybrid, &store)
	index.Apply(hybrid, &window)
	require.True(t, index.Hybrid(hybrid))
	require.False(t, index.Hybrid(plain))

	r := &Router{index: index}
	for _, c := range []struct{ tokens, found, all int }{{64, 3, 4}, {65, 4, 4}, {16, 0, 1}, {1, 0, 0}} {
		s := &Selection{router: r, keys: new(keys), views: []view{{enc: prompt.Encoding{
			Source: prompt.SourceCaller, Tokens: make([]uint32, c.tokens), Count: c.tokens,
		}}}}
		set := s.keys.of(s, 0, 16, "")
		require.Len(t, s.found(set), c.found)
		require.Len(t, r.booked(s, set, hybrid), c.found)
		require.Len(t, r.booked(s, set, plain), c.all)
	}
	s := &Selection{router: r, keys: new(keys), views: []view{{enc: prompt.Encoding{
		Source: prompt.SourceBytes, Bytes: make([]byte, 4096), Count: 1024,
	}}}}
	set := s.keys.of(s, 0, 16, "")
	require.Equal(t, s.keys.sets[set].keys, s.found(set), "bytes say nothing about the last token")

	s = &Selection{router: r, keys: new(keys), views: []view{{enc: prompt.Encoding{
		Source: prompt.SourcePrefix, Tokens: make([]uint32, 64), Count: 700,
	}}}}
	set = s.keys.of(s, 0, 16, "")
	require.Len(t, s.found(set), 4, "more follows")
	require.Len(t, r.booked(s, set, plain), 4)
	require.Empty(t, r.booked(s, set, hybrid), "windows are kept where the prompt ends")
}
