package kvsteer_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// policyFunc is a user's Policy.
type policyFunc func(req *policy.Request, cands []policy.Candidate, plan *policy.Plan)

func (f policyFunc) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	f(req, cands, plan)
}

// decisionHook is a user's hook.
type decisionHook func(d *kvsteer.Decision)

func (f decisionHook) OnDecision(d *kvsteer.Decision) { f(d) }

// soon fails the test if f does not return: a lock that is never let go.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(wait):
		require.Fail(t, "blocked for ever")
	}
}

// net/http recovers from a handler's panic: the Router must still work after it.
func TestAPanickingPolicyLeavesTheRouterUsable(t *testing.T) {
	t.Parallel()
	var angry atomic.Bool
	angry.Store(true)
	p := policyFunc(func(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
		if angry.Load() {
			panic("policy")
		}
		policy.Default{}.Evaluate(req, cands, plan)
	})
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	soon(t, func() {
		require.Panics(t, func() { _, _ = r.router.Select(t.Context(), chatRequest("hi", false)) })
		require.Panics(t, func() { _, _ = r.router.Explain(t.Context(), chatRequest("hi", false)) })
	})
	angry.Store(false)
	soon(t, func() {
		s, err := r.router.Select(t.Context(), chatRequest("hi", false))
		require.NoError(t, err)
		angry.Store(true)
		require.Panics(t, func() { _ = s.Next(t.Context(), nil) })
		s.Abort(nil)
	})
	r.idle()
}

func TestAPanickingHookLeavesNothingBooked(t *testing.T) {
	t.Parallel()
	hook := decisionHook(func(*kvsteer.Decision) { panic("hook") })
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithHooks(hook)}})
	require.Panics(t, func() { _, _ = r.router.Select(t.Context(), chatRequest("hi", false)) })
	r.idle()
}

// A plan whose indices are nonsense is a bug of the Policy; what was booked by
// then must not stay.
func TestANonsensePlanLeavesNothingBooked(t *testing.T) {
	t.Parallel()
	for _, plan := range []policy.Plan{
		{Order: []int{7}},
		{Order: []int{-1}},
		{Order: []int{0}, Dropped: []policy.Drop{{Index: 9}}},
	} {
		p := policyFunc(func(_ *policy.Request, _ []policy.Candidate, out *policy.Plan) { *out = plan })
		r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
		soon(t, func() {
			require.Panics(t, func() { _, _ = r.router.Select(t.Context(), chatRequest("hi", false)) })
			require.Panics(t, func() { _, _ = r.router.Select(t.Context(), chatRequest("hi", false)) })
		})
		r.idle()
	}
}

// A Policy that rejects by doing nothing must not be given the plan of the
// request before.
func TestAPolicyThatDoesNothingRejects(t *testing.T) {
	t.Parallel()
	reject := false
	p := policyFunc(func(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
		if !reject {
			policy.Default{}.Evaluate(req, cands, plan)
		}
	})
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	for range 4 {
		s, err := r.router.Select(t.Context(), chatRequest("hi", false))
		require.NoError(t, err)
		s.Done(kvsteer.Usage{})
	}
	reject = true
	for range 4 {
		_, err := r.router.Select(t.Context(), chatRequest("hi", false))
		require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err))
	}
}

type panickingBase struct{}

func (panickingBase) RoundTrip(*http.Request) (*http.Response, error) { panic("base") }

func TestAPanickingBaseLeavesNothingBooked(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: panickingBase{}})
	for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
		require.Panics(t, func() {
			_, _ = tr.RoundTrip(postRequest(t, path, chatBody("hi", false))) //nolint:bodyclose // there is none
		}, path)
		r.idle()
	}
}

// A caller may reuse its Request as soon as Select has returned.
func TestTheRequestIsReadDuringSelectOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2})
	req := chatRequest("hi", false)
	s, err := r.router.Select(t.Context(), req)
	require.NoError(t, err)
	*req = kvsteer.Request{}
	require.NoError(t, s.Next(t.Context(), errors.New("broken")))
	require.Equal(t, "chat completions", s.Decision().API)
	s.Abort(nil)
}

// The time that a decision took is its own, not that of the attempts before it.
func TestTookIsTheDecisionsOwn(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var later atomic.Int64
	now := func() time.Time { return began.Add(time.Duration(later.Load())) }
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithClock(now)}})
	s, err := r.router.Select(t.Context(), chatRequest("hi", false))
	require.NoError(t, err)
	later.Store(int64(time.Minute)) // the first worker hangs
	require.NoError(t, s.Next(t.Context(), errors.New("broken")))
	require.Zero(t, s.Decision().Took)
	s.Abort(nil)
}

func postRequest(t *testing.T, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Type", "application/json")
	return req
}
