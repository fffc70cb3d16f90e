package kvsteer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/policy"
)

// scoped sends requests to models of its own.
type scoped struct {
	policy.Default

	models []string
	needs  policy.Needs
	asked  func(*policy.Request)
}

func (p *scoped) Models(_ *policy.Request, dst []string) []string { return append(dst, p.models...) }
func (p *scoped) Needs() policy.Needs                             { return p.needs }

func (p *scoped) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	if p.asked != nil {
		p.asked(req)
	}
	p.Default.Evaluate(req, cands, plan)
}

// models gives the i-th engine its model.
func models(names ...string) func(i int, c *fleettest.Config) {
	return func(i int, c *fleettest.Config) { c.Model = names[i] }
}

func TestPolicySendsToOtherModels(t *testing.T) {
	t.Parallel()
	alias := &scoped{models: []string{"small", "nobody's", "large"}}
	r := newRig(t, rigConfig{engines: 2, engine: models("small", "large"), options: []kvsteer.Option{kvsteer.WithPolicy(alias)}})
	body := `{"model": "auto", "messages": [{"role": "user", "content": "hello"}], "seed": 9007199254740993}`
	seen := map[string]bool{}
	for range 8 {
		sel, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body)})
		require.NoError(t, err)
		t.Cleanup(func() { sel.Abort(nil) }) // they stay in flight, so that both are chosen
		d := sel.Decision()
		require.Equal(t, "auto", d.Model)
		require.Len(t, d.Candidates, 2)
		require.Contains(t, []string{"render", "tokenize"}, d.TokenSource, "both were asked for ids: %v", d.Degradations)
		model := d.Winner().Model
		seen[model] = true
		require.Contains(t, d.String(), `as "`+model+`"`)
		require.Equal(t, `{"model": "`+model+`", "messages": [{"role": "user", "content": "hello"}], "seed": 9007199254740993}`,
			string(sel.Body()), "only the model's name differs")
	}
	require.Equal(t, map[string]bool{"small": true, "large": true}, seen)
}

// A retry may go to another model, and the body follows.
func TestNextMayChangeTheModel(t *testing.T) {
	t.Parallel()
	both := &scoped{models: []string{"small", "large"}}
	r := newRig(t, rigConfig{engines: 2, engine: models("small", "large"), options: []kvsteer.Option{kvsteer.WithPolicy(both)}})
	sel, err := r.router.Select(t.Context(), &kvsteer.Request{
		API: kvsteer.ChatCompletions, Body: []byte(`{"model":"small","messages":[{"role":"user","content":"x"}]}`),
	})
	require.NoError(t, err)
	defer sel.Abort(nil)
	chosen := []string{sel.Decision().Winner().Model}
	require.NoError(t, sel.Next(t.Context(), context.DeadlineExceeded))
	chosen = append(chosen, sel.Decision().Winner().Model)
	require.ElementsMatch(t, []string{"small", "large"}, chosen)
	require.Equal(t, `{"model":"`+chosen[1]+`","messages":[{"role":"user","content":"x"}]}`, string(sel.Body()))
}

// What one model has cached says nothing about another, even where their prompts are
// the same ids.
func TestViewsHaveTheirOwnCache(t *testing.T) {
	t.Parallel()
	both := &scoped{models: []string{"small", "large"}}
	r := newRig(t, rigConfig{engines: 2, engine: models("small", "large"), options: []kvsteer.Option{kvsteer.WithPolicy(both)}})
	body, err := json.Marshal(map[string]any{
		"model": "small", "messages": []map[string]string{{"role": "user", "content": strings.Repeat("shared words ", 400)}},
	})
	require.NoError(t, err)
	first := r.post("/v1/chat/completions", string(body))
	require.Equal(t, http.StatusOK, first.status, first.body)
	served := r.observed.lastOutcome(t).Decision.Winner().Name
	require.Eventually(t, func() bool {
		d, err := r.router.Explain(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: body})
		require.NoError(t, err)
		for i := range d.Candidates {
			if c := &d.Candidates[i]; (c.CachedTokens > 0) != (c.Name == served) {
				return false
			}
		}
		return d.Winner().Name == served
	}, 30*time.Second, 5*time.Millisecond, "it is cached where it was computed, and there only")
}

func TestPoolsKeepApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, worker: func(i int, w *fleet.Worker) { w.Pool = []string{"chat", "batch", ""}[i] }})
	ask := func(pool string) (*kvsteer.Decision, error) {
		req := chatRequest("x", false)
		req.Pool = pool
		return r.router.Explain(t.Context(), req)
	}
	d, err := ask("")
	require.NoError(t, err)
	require.Len(t, d.Candidates, 3)
	d, err = ask("batch")
	require.NoError(t, err)
	require.Len(t, d.Candidates, 1)
	require.Equal(t, "w1", d.Winner().Name)
	_, err = ask("nobody's")
	require.Equal(t, kvsteer.CodeNoCandidates, kvsteer.CodeOf(err))
	require.ErrorContains(t, err, `no worker of the pool "nobody's" serves the model "m"`)
}

func TestAmong(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3})
	req := chatRequest("x", false)
	req.Among = []string{"w2", "nobody", r.fleet.Snapshot().Member("w0").URL().Host}
	sel, err := r.router.Select(t.Context(), req)
	require.NoError(t, err)
	defer sel.Abort(nil)
	rest := sel.Alternatives()
	require.Len(t, rest, 1)
	require.ElementsMatch(t, []string{"w0", "w2"}, []string{sel.Target().Worker, rest[0].Worker})
	require.Equal(t, r.fleet.Snapshot().Member(rest[0].Worker).URL(), rest[0].URL)
	require.NoError(t, sel.Next(t.Context(), context.DeadlineExceeded))
	require.Equal(t, rest[0].Worker, sel.Target().Worker)
	require.Empty(t, sel.Alternatives())

	req.Among = []string{"nobody"}
	_, err = r.router.Select(t.Context(), req)
	require.ErrorContains(t, err, `no worker of those that the request is limited to serves the model "m"`)
	require.Equal(t, kvsteer.CodeNoCandidates, kvsteer.CodeOf(err))
}

// reloading is a policy that is replaced while requests are under way.
type reloading struct{ now atomic.Pointer[named] }

func (s *reloading) Current() policy.Policy { return s.now.Load() }
func (s *reloading) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	s.now.Load().Evaluate(req, cands, plan)
}

type named struct {
	policy.Default

	version string
}

func (n *named) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	n.Default.Evaluate(req, cands, plan)
	plan.Version = n.version
}

func TestARequestKeepsItsPolicy(t *testing.T) {
	t.Parallel()
	var source reloading
	source.now.Store(&named{version: "1"})
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(&source)}})
	sel, err := r.router.Select(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	defer sel.Abort(nil)
	require.Equal(t, "1", sel.Decision().PolicyVersion)
	source.now.Store(&named{version: "2"})
	require.NoError(t, sel.Next(t.Context(), context.DeadlineExceeded))
	require.Equal(t, "1", sel.Decision().PolicyVersion, "the same for every attempt")
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	require.Equal(t, "2", d.PolicyVersion)
}

// Of headers only what the policy names is kept, and no decision holds any.
func TestPolicySeesTheHeadersThatItNames(t *testing.T) {
	t.Parallel()
	var last policy.Request
	p := &scoped{
		models: []string{testModel}, needs: policy.Needs{Headers: []string{"x-region"}},
		asked: func(r *policy.Request) { last = *r },
	}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	req := chatRequest("x", false)
	req.Header = http.Header{"X-Region": {"eu"}, "Authorization": {"Bearer secret"}}
	sel, err := r.router.Select(t.Context(), req)
	require.NoError(t, err)
	defer sel.Abort(nil)
	require.Equal(t, map[string][]string{"X-Region": {"eu"}}, last.Header)
	text, err := json.Marshal(sel.Decision())
	require.NoError(t, err)
	require.NotContains(t, string(text), "secret")
	require.NotContains(t, string(text), `"eu"`)
}
