package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
)

func TestInjectedExplainsWhatWasDone(t *testing.T) {
	i := newInjected()
	began := time.Now()
	brokenBy := func(worker string, from, to time.Time) *attempt {
		return &attempt{worker: worker, began: from, ended: to, broken: true}
	}
	require.Empty(t, i.explain(brokenBy("a", began, time.Now())), "nothing was done yet")
	before := time.Now()
	up := i.killing("a")
	require.NotEmpty(t, i.explain(brokenBy("a", began, time.Now())), "it is dead")
	require.Empty(t, i.explain(brokenBy("b", began, time.Now())), "it was another")
	require.Empty(t, i.explain(brokenBy("a", began, before.Add(-time.Nanosecond))), "it had failed before")
	require.Empty(t, i.explain(&attempt{worker: "a", began: began, ended: time.Now(), status: 500}), "it has answered, with an error of its own")
	up()
	require.NotEmpty(t, i.explain(brokenBy("a", began, time.Now())), "it died after it was asked")
	later := time.Now().Add(time.Second)
	require.Empty(t, i.explain(brokenBy("a", later, later)), "it had been up again")
	i.cut("b", 1)
	require.Empty(t, i.explain(brokenBy("b", began, before)), "it had broken off before")
	require.NotEmpty(t, i.explain(brokenBy("b", began, time.Now())))
	require.Empty(t, i.explain(brokenBy("b", began, time.Now())), "only one was cut off")
	require.NotEmpty(t, i.explain(&attempt{worker: "b", confessed: true}))
}

// A request has failed by injection only if all that was tried for it has.
func TestEachAttemptOfAFailureMustBeExplained(t *testing.T) {
	t.Run("nothing was tried", func(t *testing.T) { require.Empty(t, (&trail{}).injury()) })
	t.Run("each by an injection", func(t *testing.T) {
		require.NotEmpty(t, (&trail{tried: 2, failed: []attempt{{cause: "killed"}, {cause: "cut"}}}).injury())
	})
	t.Run("one by none", func(t *testing.T) {
		got := &trail{tried: 2, failed: []attempt{{cause: "killed"}, {worker: "w", status: 500}}}
		require.Empty(t, got.injury())
		require.Len(t, got.unexplained(), 1)
	})
	t.Run("the last one did not fail", func(t *testing.T) {
		require.Empty(t, (&trail{tried: 2, failed: []attempt{{cause: "killed"}}}).injury())
	})
}

// scriptedBody breaks off with an error.
type scriptedBody struct{ err error }

func (b *scriptedBody) Read([]byte) (int, error) { return 0, b.err }
func (b *scriptedBody) Close() error             { return nil }

func TestAnAnswerThatBreaksOffIsSeen(t *testing.T) {
	i := newInjected()
	w := &witness{injected: i}
	read := func(ctx context.Context, err error) *trail {
		tr := &trail{tried: 1}
		s := &sighting{ReadCloser: &scriptedBody{err}, witness: w, trail: tr, ctx: ctx, attempt: attempt{worker: "a", began: time.Now()}}
		for range 2 {
			_, _ = io.ReadAll(s)
		}
		return tr
	}
	require.Empty(t, read(t.Context(), io.EOF).failed, "it was whole")
	tr := read(t.Context(), io.ErrUnexpectedEOF)
	require.Len(t, tr.failed, 1, "it is told of once")
	require.Empty(t, tr.injury(), "nothing was done to the worker")
	require.Contains(t, tr.String(), "unexpected EOF")
	up := i.killing("a")
	defer up()
	require.Equal(t, "a was killed", read(t.Context(), io.ErrUnexpectedEOF).injury())
	require.Empty(t, read(t.Context(), context.DeadlineExceeded).injury(), "what took too long was not killed")
	require.Empty(t, read(t.Context(), errors.New("malformed")).injury(), "nor what makes no sense")
	gone, leave := context.WithCancel(t.Context())
	leave()
	require.Empty(t, read(gone, io.ErrUnexpectedEOF).failed, "the client has left")
}

func TestAnErrorIsInjectedIfItsEngineSaysSo(t *testing.T) {
	w := &witness{base: &http.Transport{}, injected: newInjected()}
	text := `{"error":{"message":"` + fault + `"}}`
	w.base.RegisterProtocol("said", answers{text: text})
	w.base.RegisterProtocol("own", answers{text: "out of memory"})
	for scheme, injured := range map[string]bool{"said": true, "own": false} {
		tr := &trail{chosen: "a"}
		ctx := context.WithValue(t.Context(), trailKey{}, tr)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://w/", http.NoBody)
		require.NoError(t, err)
		resp, err := w.RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NotEmpty(t, body, "the gateway still has it")
		require.Equal(t, injured, tr.injury() != "", tr.String())
	}
}

// answers is a RoundTripper that answers with 500.
type answers struct{ text string }

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: io.NopCloser(strings.NewReader(a.text))}, nil
}

func TestKnownSaysWhyNot(t *testing.T) {
	rank := func(tr kvcache.Trust) kvcache.OwnerStats { return kvcache.OwnerStats{Trust: tr, TrustReason: "so"} }
	caches := []kvsteer.CacheStats{
		{Worker: "good", Ranks: []kvcache.OwnerStats{rank(kvcache.Exact), rank(kvcache.Resyncing)}},
		{Worker: "mute", Ranks: []kvcache.OwnerStats{rank(kvcache.Approximate)}},
		{Worker: "spoilt", Ranks: []kvcache.OwnerStats{rank(kvcache.Resyncing)}},
	}
	why := func(worker string) (bool, string) {
		if worker == "spoilt" {
			return false, "numbers burnt"
		}
		return worker == "mute", ""
	}
	u := unsure{}
	got, late := u.sort(caches, why, time.Minute, time.Minute)
	require.Equal(t, known{exact: 1, silent: 1, gap: 1, rest: 1}, got)
	require.Empty(t, late, "it may heal")
	require.InDelta(t, 0.5, got.share(), 1e-9)
	_, late = u.sort(caches, why, 3*time.Minute, time.Minute)
	require.Len(t, late, 1)
	require.Contains(t, late[0], "the cache of good, rank 1 is not known exactly, from 1m0s to 3m0s")
	caches[0].Ranks[1] = rank(kvcache.Exact)
	_, late = u.sort(caches, why, 4*time.Minute, time.Minute)
	require.Empty(t, late)
	require.Empty(t, u, "it has healed")
}
