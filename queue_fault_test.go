package kvsteer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// Many that wait for one model keep nobody from a free worker of another.
func TestManyThatWaitForOneModel(t *testing.T) {
	t.Parallel()
	serve := prompts(whole)
	rig := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: time.Hour}), kvsteer.WithPredictor(pace{}),
	}}, worker{models: []string{"crowded"}, serve: serve}, worker{serve: serve}, worker{serve: serve})
	rig.waitJoined()
	l := &lane{t: t, router: rig.router, got: make(chan result, 100)}
	crowd := func(n int) *kvsteer.Request {
		req := l.prompt(n)
		req.Body = []byte(`{"model":"crowded","prompt":"x","stream":true}`)
		return req
	}
	sels := []*kvsteer.Selection{l.now(crowd(10)), l.now(l.prompt(100)), l.now(l.prompt(900))}
	const many = 20
	for range many {
		l.wait(t.Context(), "crowd", crowd(10))
	}
	last := l.prompt(100) // it wants the worker that has less to do
	last.Priority = 1
	l.wait(t.Context(), "last", last)
	sels[2].FirstToken()
	r := l.next()
	require.NoError(t, r.err)
	require.Equal(t, "last", r.name)
	require.Equal(t, sels[2].Target().Worker, r.sel.Target().Worker)
	r.sel.Done(kvsteer.Usage{})
	sels[0].FirstToken()
	for range many {
		r := l.next()
		require.NoError(t, r.err)
		r.sel.Done(kvsteer.Usage{})
	}
	for _, s := range sels {
		s.Done(kvsteer.Usage{})
	}
	require.Zero(t, l.router.Waiting())
	rig.idle()
}

// once answers the first time that it is asked about a request, and then leaves the
// plan as it is.
type once struct {
	policy.Default
}

func (o once) Evaluate(req *policy.Request, c []policy.Candidate, plan *policy.Plan) {
	if req.DryRun {
		o.Default.Evaluate(req, c, plan)
	}
}

// A policy that leaves the plan alone rejects, also when it is asked again.
func TestAPolicyThatChangesItsMind(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{}, kvsteer.WithPolicy(once{}))
	_, err := l.router.Select(t.Context(), l.prompt(10))
	require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err))
	require.Zero(t, l.router.InFlight())
	require.Zero(t, l.router.Waiting())
}
