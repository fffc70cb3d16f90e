package debug_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/policy"
)

const rules = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: house}
spec:
  priority: 1
  rules:
  - name: nobody
    matches: [{tenant: outcast}]
    route:
      exclude: [{name: all-of-them, drop: {backend: {type: Local}}}]
      select: [{minimize: PredictedTTFT}]
      onEmpty: {action: Reject, status: 403, message: not for you}
  - name: everybody
    route:
      exclude: [{name: never-w1, drop: {backend: {name: w1}}}]
      select: [{minimize: PredictedTTFT}]
      onEmpty: Reject
---
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: trial}
spec:
  mode: Shadow
  rules:
  - name: other-one
    route:
      exclude: [{name: never-w0, drop: {backend: {name: w0}}}]
      select: [{minimize: PredictedTTFT}]
      onEmpty: Reject
`

func loadRules(t *testing.T) *policy.Set {
	t.Helper()
	set, err := policy.Load("rules.yaml", []byte(rules), policy.Options{})
	require.NoError(t, err)
	return set
}

func TestStateSaysWhatHappened(t *testing.T) {
	tenant := "guest"
	r := newRig(t, rigConfig{policy: loadRules(t), describe: func(_ *http.Request, q *kvsteer.Request) { q.Tenant = tenant }})
	r.until(func(s *shown) bool { return s.Workers[0].Ranks[0].Trust == "exact" })
	prompt := fleettest.Text(1, 200)
	for range 3 {
		require.Equal(t, http.StatusOK, r.ask(prompt))
	}
	tenant = "outcast"
	require.Equal(t, http.StatusForbidden, r.ask(prompt))

	s := r.until(func(s *shown) bool {
		return s.Sums.Done == 3 && len(s.Prefixes.Rows) > 0 && s.Workers[0].Ranks[0].Blocks >= 12 && s.Workers[0].Events > 0
	})
	require.True(t, s.Full)
	require.Empty(t, s.Problem)
	require.EqualValues(t, 3, s.Sums.Decisions)
	require.EqualValues(t, 3, s.Sums.Kept)
	require.EqualValues(t, 1, s.Sums.Rejections)
	require.Zero(t, s.Sums.Failed)
	require.Positive(t, s.Sums.Exact)
	require.Positive(t, s.Sums.ReportedPrompt)
	require.Equal(t, 2, s.Fleet.Workers)
	require.Equal(t, 2, s.Fleet.Routable)

	require.Equal(t, "w0", s.Workers[0].Name)
	require.Equal(t, "healthy", s.Workers[0].Health)
	require.Equal(t, []string{"m"}, s.Workers[0].Models)
	require.EqualValues(t, 3, s.Workers[0].Ranks[0].Picks)
	require.Positive(t, s.Workers[0].Ranks[0].Fill)
	require.LessOrEqual(t, s.Workers[0].Ranks[0].Fill, 1.0)
	require.Zero(t, s.Workers[1].Ranks[0].Picks)

	require.Len(t, s.Prefixes.Columns, 2, "one for each worker, whether it holds any or not")
	require.Equal(t, "w0", s.Prefixes.Columns[0].Name)
	require.Equal(t, "exact", s.Prefixes.Columns[0].Trust)
	require.Equal(t, "healthy", s.Prefixes.Columns[0].Health)
	row := s.Prefixes.Rows[0]
	require.Equal(t, row.Blocks, row.Held[0])
	require.Equal(t, row.Blocks, row.Confirmed[0], "events tell of all of it")
	require.Zero(t, row.Held[1])
	require.Equal(t, 16*row.Blocks, row.Tokens)
	require.Len(t, row.ID, 8)

	require.Equal(t, "*policy.Set", s.Policy.Kind)
	require.Len(t, s.Policy.Policies, 2)
	require.Equal(t, "house", s.Policy.Policies[0].Name)
	require.Contains(t, s.Policy.Policies[0].Rules[0].Empty, "not for you")
	require.Equal(t, "everybody", s.Rules[0].Rule)
	require.EqualValues(t, 3, s.Rules[0].Count)
	require.Equal(t, "nobody", s.Rules[1].Rule)
	require.EqualValues(t, 1, s.Rules[1].Refused)
	require.Len(t, s.Shadows, 1)
	require.Equal(t, "trial", s.Shadows[0].Policy)
	require.EqualValues(t, 3, s.Shadows[0].Differs)

	d := s.Decisions[0]
	require.EqualValues(t, 3, d.ID, "the newest first")
	require.Equal(t, "guest", d.Tenant)
	require.Equal(t, "w0", d.Candidates[d.Chosen].Name)
	require.Equal(t, "w1", d.Shadows[0].Would)
	require.True(t, d.Shadows[0].Differs)
	require.Contains(t, d.Explanation, "decision 3")
	require.NotNil(t, d.End)
	require.Empty(t, d.End.Failure)
	require.Positive(t, d.End.Cached)
	require.Equal(t, 4, d.End.Output)

	require.Equal(t, "rejected by policy", s.Codes[0].Code)
	require.Equal(t, "not for you", s.Rejections[0].Message)
	require.Equal(t, "outcast", s.Rejections[0].Tenant)
	require.Contains(t, s.Rejections[0].Dropped, "all-of-them")
	require.Contains(t, s.Notes[0].Text, "cache is exact")
}

func TestStateOfAnUnhealthyFleet(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.engines[1].Faults().Unhealthy(true)
	s := r.until(func(s *shown) bool { return s.Fleet.Routable == 1 })
	require.False(t, s.Workers[1].Routable)
	require.Equal(t, "unhealthy", s.Workers[1].Health)
}

// Without a Recorder, and with a policy that is no Set, the console shows what there is.
func TestStateWithoutARecorder(t *testing.T) {
	r := newRig(t, rigConfig{})
	bare, err := debug.New(r.router, debug.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bare.Close()) })
	r.server.Config.Handler = http.StripPrefix("/debug/kvsteer", bare)
	require.Equal(t, http.StatusOK, r.ask("nobody remembers this"))
	s := r.state()
	require.Empty(t, s.Decisions)
	require.Zero(t, s.Sums.Decisions)
	require.Len(t, s.Workers, 2)
	require.Equal(t, "policy.Default", s.Policy.Kind)
}

// Nothing of prompts, answers and credentials is anywhere, whatever went wrong with them.
func TestCanary(t *testing.T) {
	const canary = "canary-7319"
	r := newRig(t, rigConfig{})
	require.Equal(t, http.StatusOK, r.ask(canary+" "+fleettest.Text(1, 100)))
	r.engines[0].Faults().Fail(1, http.StatusInternalServerError, 0)
	r.engines[1].Faults().Fail(1, http.StatusInternalServerError, 0)
	r.ask(canary)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.gateway.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"`+canary+`"`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+canary)
	resp, err := r.gateway.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	r.until(func(s *shown) bool { return s.Sums.Done >= 1 && len(s.Decisions) >= 2 })
	_, _, body := r.get("/state.json")
	require.NotContains(t, body, canary)
}

type panicking struct{ kvsteer.Predictor }

func (p panicking) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	if len(in) > 0 && in[0].Uncached <= 1 {
		panic("a user's bug")
	}
	p.Predictor.Predict(in, out)
}

func TestAPredictorThatPanicsDoesNotEndTheProcess(t *testing.T) {
	r := newRig(t, rigConfig{more: []kvsteer.Option{
		kvsteer.WithPredictor(panicking{kvsteer.NewPredictor(kvsteer.PredictorOptions{})}),
	}})
	s := r.state()
	require.Contains(t, s.Problem, "panicked")
	require.Equal(t, []string{"outlook"}, s.Unread)
	require.Len(t, s.Workers, 2, "what the predictor does not know is there all the same")
	require.Equal(t, "w0", s.Workers[0].Name)
	require.InDelta(t, -1, s.Workers[0].Ranks[0].WaitMS, 0, "unknown, which is not none")
	require.NotEmpty(t, s.Workers[0].Ranks[0].Trust)
	require.NotNil(t, s.Policy)
	_, _, body := r.get("/state.json")
	require.NotContains(t, body, "null")
}

// What a Discoverer says of its failure may hold a credential.
func TestWhyDiscoveryFailsIsNotTold(t *testing.T) {
	d := &broken{fail: make(chan struct{}), url: "http://127.0.0.1:1"}
	f, err := fleet.New(fleet.Options{Discoverer: d})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	router, err := kvsteer.New(kvsteer.WithFleet(f))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, router.Close()) })
	console, err := debug.New(router, debug.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, console.Close()) })
	r := newRig(t, rigConfig{})
	r.server.Config.Handler = http.StripPrefix("/debug/kvsteer", console)
	require.Empty(t, r.state().Fleet.Problem)
	close(d.fail)
	s := r.until(func(s *shown) bool { return s.Fleet.Problem != "" })
	require.Regexp(t, `^discovery has failed since \d{4}-\d\d-\d\d [0-9:]{8} UTC; the last list stays`, s.Fleet.Problem)
	_, _, body := r.get("/state.json")
	require.NotContains(t, body, "hunter2")
}

// broken is a Discoverer that fails once it is told to.
type broken struct {
	fail chan struct{}
	url  string
}

func (b *broken) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := set([]fleet.Worker{{Name: "w", URL: b.url}}); err != nil {
		return err
	}
	select {
	case <-b.fail:
		return errors.New("get http://admin:hunter2@registry: refused")
	case <-ctx.Done():
		return nil
	}
}
