package kvsteer_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// closed is a policy that has nobody until it opens.
type closed struct {
	policy.Default

	then policy.OnEmpty
	open atomic.Bool
	n    atomic.Int32
}

func (p *closed) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	p.n.Add(1)
	if p.open.Load() {
		p.Default.Evaluate(req, cands, plan)
		return
	}
	plan.Reset("closed")
	plan.Empty = p.then
}

func TestPolicyMayLetARequestWait(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]kvsteer.Option{"plain": nil, "queue": {kvsteer.WithQueue(kvsteer.QueueOptions{})}} {
		t.Run(name, func(t *testing.T) {
			p := &closed{then: policy.OnEmpty{Action: policy.Wait, UpTo: time.Hour}}
			r := newRig(t, rigConfig{engines: 1, options: append(options, kvsteer.WithPolicy(p))})
			opened := make(chan struct{})
			go func() {
				defer close(opened)
				for p.n.Load() < 3 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				p.open.Store(true)
			}()
			sel, err := r.router.Select(t.Context(), chatRequest("x", false))
			<-opened
			require.NoError(t, err)
			require.Positive(t, sel.Decision().Waited)
			sel.Abort(nil)
		})
	}
}

func TestPolicyWaitEnds(t *testing.T) {
	t.Parallel()
	p := &closed{then: policy.OnEmpty{
		Action: policy.Wait, UpTo: 500 * time.Millisecond, Status: http.StatusTooManyRequests, Message: "come back",
	}}
	clock := newClock()
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(p), kvsteer.WithClock(clock.now)}})
	// waited has time pass once a request was looked at again.
	waited := func(send func()) {
		done, before := make(chan struct{}), p.n.Load()
		go func() {
			defer close(done)
			send()
		}()
		require.Eventually(t, func() bool { return p.n.Load() > before+1 }, wait, tick)
		clock.advance(time.Second)
		<-done
	}
	var err error
	waited(func() { _, err = r.router.Select(t.Context(), chatRequest("x", false)) })
	require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err))

	require.Len(t, r.observed.rejections(), 1)
	refused := r.observed.rejections()[0]
	require.Equal(t, "closed", refused.Rule)
	require.Equal(t, -1, refused.Chosen)
	require.Len(t, refused.Candidates, 1)

	var answered answer
	waited(func() { answered, err = r.try(t.Context(), "/v1/chat/completions", chatBody("x", false)) })
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, answered.status)
	require.Contains(t, answered.body, "come back")
	require.Equal(t, "2", answered.header.Get("Retry-After"))
}

func TestPolicyWaitIsCancelled(t *testing.T) {
	t.Parallel()
	p := &closed{then: policy.OnEmpty{Action: policy.Wait, UpTo: time.Hour}}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	waitEnds(t, r, p, kvsteer.CodeCanceled, func(cancel func()) { cancel() })
	waitEnds(t, r, p, kvsteer.CodeClosed, func(func()) { _ = r.router.Close() })
}

func waitEnds(t *testing.T, r *rig, p *closed, want kvsteer.Code, end func(cancel func())) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := p.n.Load()
	done := make(chan error)
	go func() {
		_, err := r.router.Select(ctx, chatRequest("x", false))
		done <- err
	}()
	require.Eventually(t, func() bool { return p.n.Load() > before }, 30*time.Second, time.Millisecond)
	end(cancel)
	require.Equal(t, want, kvsteer.CodeOf(<-done))
}

// A second attempt is rejected at once: the client has waited for the first.
func TestPolicyLetsNoRetryWait(t *testing.T) {
	t.Parallel()
	p := &closed{then: policy.OnEmpty{Action: policy.Wait, UpTo: time.Hour}}
	p.open.Store(true)
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	sel, err := r.router.Select(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	defer sel.Abort(nil)
	p.open.Store(false)
	require.Equal(t, kvsteer.CodeUpstream, kvsteer.CodeOf(sel.Next(t.Context(), context.DeadlineExceeded)))
}

// counted is a Set that counts how often it is asked.
type counted struct {
	*policy.Set

	n atomic.Int32
}

func (p *counted) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	p.n.Add(1)
	p.Set.Evaluate(req, cands, plan)
}

// Nothing is left, too, when nobody is well.
func TestPolicyLetsARequestWaitForAWorker(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]kvsteer.Option{"plain": nil, "queue": {kvsteer.WithQueue(kvsteer.QueueOptions{})}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "p", Rules: []policy.Rule{{
				Name: "patient", Matches: []policy.Match{{Tenant: []string{"patient"}}},
				Route: policy.Route{OnEmpty: policy.OnEmpty{Action: policy.Wait, UpTo: time.Hour}},
			}, {
				Name: "busy", Route: policy.Route{OnEmpty: policy.OnEmpty{Status: http.StatusTooManyRequests, Message: "come back"}},
			}}})
			require.NoError(t, err)
			p := &counted{Set: set}
			r := newRig(t, rigConfig{engines: 1, options: append(options, kvsteer.WithPolicy(p))})
			require.NoError(t, r.fleet.Drain("w0", true))

			refused := r.post("/v1/chat/completions", chatBody("x", false))
			require.Equal(t, http.StatusTooManyRequests, refused.status)
			require.Contains(t, refused.body, "come back")

			before := p.n.Load()
			back := make(chan error, 1)
			go func() {
				for p.n.Load() < before+2 && t.Context().Err() == nil { // it waits by then
					time.Sleep(time.Millisecond)
				}
				back <- r.fleet.Drain("w0", false)
			}()
			req := chatRequest("x", false)
			req.Tenant = "patient"
			sel, err := r.router.Select(t.Context(), req)
			require.NoError(t, err)
			require.NoError(t, <-back)
			require.Positive(t, sel.Decision().Waited)
			sel.Abort(nil)
			r.idle()
		})
	}
}
