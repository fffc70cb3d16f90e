package kvsteer_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// A worker that answers with server errors is looked at before its next routine
// check. One that has too much to do is not ill.
func TestServerErrorsAreReportedToTheFleet(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusTooManyRequests} {
		for _, path := range []string{"/v1/chat/completions", "/v1/rerank"} {
			t.Run(http.StatusText(status)+" "+path, func(t *testing.T) {
				t.Parallel()
				var checks atomic.Int32
				r := newScripted(t, rigConfig{probes: time.Hour, options: []kvsteer.Option{kvsteer.WithMaxAttempts(1)}}, worker{
					health: func(w http.ResponseWriter, _ *http.Request) {
						if checks.Add(1) > 1 {
							w.WriteHeader(http.StatusServiceUnavailable)
						}
					},
					serve: prompts(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }),
				})
				for range 3 {
					require.Equal(t, status, r.post(path, chatBody("x", false)).status)
				}
				if status == http.StatusTooManyRequests {
					require.EqualValues(t, 1, checks.Load())
					require.Equal(t, 1, r.fleet.Snapshot().Routable())
					return
				}
				require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == 0 }, wait, tick)
			})
		}
	}
}

// stall answers with the beginning of a stream and reports when it is let go.
func stall(gone chan<- struct{}) http.HandlerFunc {
	return prompts(func(w http.ResponseWriter, r *http.Request) {
		sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`)(w, r)
		<-r.Context().Done()
		gone <- struct{}{}
	})
}

// A response that its receiver forgot, neither reading nor closing it, must not
// keep a worker busy for ever.
func TestReapingEndsTheUpstreamRequest(t *testing.T) {
	t.Parallel()
	gone, clock := make(chan struct{}, 1), newClock()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithMaxIdle(20 * time.Millisecond), kvsteer.WithClock(clock.now),
	}}, worker{serve: stall(gone)})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/chat/completions", strings.NewReader(chatBody("x", true)))
	require.NoError(t, err)
	resp, err := r.transport.RoundTrip(req)
	require.NoError(t, err)
	clock.advance(time.Second)
	require.True(t, r.observed.nextOutcome(t, 0).Reaped)
	select {
	case <-gone:
	case <-time.After(wait):
		require.Fail(t, "the worker still answers")
	}
	_, err = io.ReadAll(resp.Body)
	require.ErrorContains(t, err, "never ended it")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, r.fleet.Snapshot().Routable(), "it was not the worker's fault")
}

func TestAnAnswerThatStopsIsCutOff(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	r := newScripted(t, rigConfig{transport: kvsteer.TransportOptions{IdleTimeout: 30 * time.Millisecond}}, worker{serve: stall(gone)})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/chat/completions", strings.NewReader(chatBody("x", true)))
	require.NoError(t, err)
	resp, err := r.transport.RoundTrip(req)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.ErrorContains(t, err, "IdleTimeout")
	require.Contains(t, string(got), `"a"`)
	require.NoError(t, resp.Body.Close())
	require.ErrorContains(t, r.observed.nextOutcome(t, 0).Err, "IdleTimeout")
	<-gone
}

func TestAClosedFleetIsRefused(t *testing.T) {
	t.Parallel()
	f, err := fleet.New(fleet.Options{})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = kvsteer.New(kvsteer.WithFleet(f))
	require.ErrorIs(t, err, fleet.ErrClosed)
}

// Each candidate says why its cache is not known exactly, not the chosen alone.
func TestEveryCandidateSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, worker: func(i int, w *fleet.Worker) {
		switch i {
		case 0:
			w.Events = nil
		case 1:
			w.Events[0].Events = "inproc://misspelt"
		default:
		}
	}})
	want := []string{"the worker publishes no KV events", "event stream not connected", ""}
	require.Eventually(t, func() bool {
		d, err := r.router.Explain(t.Context(), chatRequest("x", false))
		require.NoError(t, err)
		ok := true
		for i, c := range d.Candidates {
			ok = ok && strings.Contains(c.TrustReason, want[i]) && (want[i] != "" || c.TrustReason == "" && c.Trust == kvcache.Exact)
		}
		return ok && len(d.Candidates) == len(want)
	}, wait, tick)
}

// What is asked and what is tried again takes nobody's turn.
func TestRoundRobinOverARouter(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, options: []kvsteer.Option{kvsteer.WithPolicy(new(policy.RoundRobin))}})
	ids := &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: []uint32{1, 2, 3}}
	var order []string
	for i := range 6 {
		d, err := r.router.Explain(t.Context(), ids)
		require.NoError(t, err)
		s, err := r.router.Select(t.Context(), ids)
		require.NoError(t, err)
		require.Equal(t, d.Winner().Name, s.Target().Worker)
		order = append(order, s.Target().Worker)
		if i == 1 {
			require.NoError(t, s.Next(t.Context(), nil))
			require.NotEqual(t, order[i], s.Target().Worker)
		}
		s.Done(kvsteer.Usage{})
	}
	require.Equal(t, []string{"w0", "w1", "w2", "w0", "w1", "w2"}, order)
}
