package kvsteer_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
)

// approximate is a fleet of one worker that computes prompts, s0, and more that
// decode; none has events.
func approximate(t *testing.T, o []kvsteer.Option, serve ...http.HandlerFunc) *rig {
	t.Helper()
	workers := []worker{{role: fleet.RolePrefill, serve: prompts(serve[0])}}
	for _, s := range serve[1:] {
		workers = append(workers, worker{role: fleet.RoleDecode, serve: prompts(s)})
	}
	r := newScripted(t, rigConfig{options: o}, workers...)
	r.waitJoined()
	return r
}

// Whoever sends the whole request to the Target, whatever Prefill says, or is late
// with the answer, does no harm.
func TestAnAnswerThatPrecedesItsPrefill(t *testing.T) {
	t.Parallel()
	r := approximate(t, []kvsteer.Option{kvsteer.WithPredictor(roles{})}, []http.HandlerFunc{whole, whole}...)
	s, err := r.router.Select(t.Context(), chatRequest(strings.Repeat("word ", 500), true))
	require.NoError(t, err)
	_, _, ok := s.Prefill()
	require.True(t, ok)
	s.FirstToken()
	_, _, ok = s.Prefill()
	require.False(t, ok, "it is too late")
	body := string(s.Body())
	require.NoError(t, s.Prefilled([]byte(`{"kv_transfer_params":{"x":1}}`)))
	require.Equal(t, body, string(s.Body()))
	s.Done(kvsteer.Usage{})
	require.NoError(t, s.Prefilled([]byte(`{"kv_transfer_params":{"x":1}}`)))
	r.idle()
}

// watched is roles, and counts what it is told.
type watched struct {
	roles

	told *atomic.Int32
}

func (w watched) Observe(*kvsteer.Features, time.Duration) { w.told.Add(1) }

// A worker that has to compute what another one refused tells nothing about how long
// it takes to go on from there.
func TestNothingIsLearnedFromAPrefillThatIsRefused(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too long", http.StatusBadRequest) }
	r := approximate(t, []kvsteer.Option{kvsteer.WithPredictor(watched{told: &told})}, refuse,
		sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`, `[DONE]`))
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(strings.Repeat("word ", 500), true)).status)
	o := r.observed.nextOutcome(t, 0)
	require.NoError(t, o.Err)
	require.Equal(t, "s0", o.Decision.Winner().PrefillOn)
	require.Positive(t, o.TTFT)
	require.Zero(t, told.Load())
	r.idle()
}

// wavering prefers another worker in earnest than it said before.
type wavering struct {
	policy.Default
}

func (w wavering) Evaluate(req *policy.Request, c []policy.Candidate, plan *policy.Plan) {
	w.Default.Evaluate(req, c, plan)
	if req.Prefill && !req.DryRun {
		slices.Reverse(plan.Order)
	}
}

// The policy is asked twice for a request that might have waited. The decision says
// what it answered the second time.
func TestTheDecisionNamesWhoComputesThePrompt(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{}), kvsteer.WithPolicy(wavering{}),
	}})
	for i := range 4 {
		s, err := r.router.Select(t.Context(), chatRequest(strings.Repeat("word ", 500+i), true))
		require.NoError(t, err)
		to, _, ok := s.Prefill()
		require.True(t, ok)
		require.Equal(t, to.Worker, s.Decision().Winner().PrefillOn)
		s.Abort(nil)
	}
	r.idle()
}

// What no prompt routes is not for workers that only compute prompts, while there
// are others.
func TestOtherRequestsSpareThoseThatComputePrompts(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32
	count := func(n *atomic.Int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/audio/speech" {
				n.Add(1)
			}
			whole(w, r)
		}
	}
	r := approximate(t, nil, count(&first), count(&second))
	for range 4 {
		require.Equal(t, http.StatusOK, r.post("/v1/audio/speech", `{"model":"m"}`).status)
	}
	require.Zero(t, first.Load())
	require.EqualValues(t, 4, second.Load())
	require.NoError(t, r.fleet.Drain("s1", true))
	require.Equal(t, http.StatusOK, r.post("/v1/audio/speech", `{"model":"m"}`).status)
	require.EqualValues(t, 1, first.Load())
	r.idle()
}

// However many workers fail to compute prompts, who could do all of it is asked in
// the end.
func TestTheLastAttemptIsOnOneWorker(t *testing.T) {
	t.Parallel()
	fails := worker{role: fleet.RolePrefill, serve: prompts(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})}
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithPredictor(roles{})}},
		fails, fails, fails, fails, worker{role: fleet.RoleDecode, serve: prompts(whole)})
	r.waitJoined()
	a := r.post("/v1/chat/completions", chatBody(strings.Repeat("word ", 500), false))
	require.Equal(t, http.StatusOK, a.status, a.body)
	d := r.observed.nextOutcome(t, 0).Decision
	require.Equal(t, 3, d.Attempt)
	require.Nil(t, d.Prefill)
	r.idle()
}
