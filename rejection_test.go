package kvsteer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/policy"
)

// tiers is a hook that asks for a header and is told of decisions and rejections.
type tiers struct {
	decided, rejected []*kvsteer.Decision
}

func (h *tiers) WantsHeaders() []string         { return []string{"x-tier"} }
func (h *tiers) OnDecision(d *kvsteer.Decision) { h.decided = append(h.decided, d) }
func (h *tiers) OnRejection(d *kvsteer.Decision, _ *kvsteer.Error) {
	h.rejected = append(h.rejected, d)
}

// curious is a policy that asks for other headers than hooks do.
type curious struct{ policy.Default }

func (curious) Needs() policy.Needs { return policy.Needs{Headers: []string{"X-Plan"}} }

func TestHooksMayAskForHeaders(t *testing.T) {
	t.Parallel()
	hook := &tiers{}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(curious{}), kvsteer.WithHooks(hook)}})
	req := chatRequest("hello", false)
	req.Header = http.Header{"X-Tier": {"gold"}, "X-Plan": {"b"}, "Authorization": {"Bearer x"}}
	s, err := r.router.Select(t.Context(), req)
	require.NoError(t, err)
	s.Abort(nil)
	require.Equal(t, map[string][]string{"X-Tier": {"gold"}}, hook.decided[0].Request.Header)
}

// reluctant lets nobody compute prompts for others when it is asked in earnest.
type reluctant struct{ policy.Default }

func (reluctant) Evaluate(req *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	policy.Default{}.Evaluate(req, candidates, plan)
	if req.Prefill && !req.DryRun {
		plan.Reset("changed its mind")
	}
}

// A policy that changes its mind about who computes a prompt is told to hooks like any
// other that leaves nobody.
func TestRejectionOfAPrefill(t *testing.T) {
	t.Parallel()
	hook := &tiers{}
	r := newSplit(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{}), kvsteer.WithPolicy(reluctant{}), kvsteer.WithHooks(hook),
	}})
	_, err := r.router.Select(t.Context(), chatRequest(fleettest.Text(1, 800), false))
	require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err))
	require.Len(t, hook.rejected, 1)
	require.Nil(t, hook.rejected[0].Prefill)
}
