package kvsteer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/file"
)

const aliasPolicy = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: alias, namespace: team}
spec:
  models:
  - {name: small, labels: {family: tiny}}
  rules:
  - name: auto
    matches: [{model: auto}]
    route:
      consider:
      - models: {names: [large]}
      - models: {labels: {family: tiny}}
      select:
      - order: [w1]
      - minimize: PredictedTTFT
`

func TestAnAliasStandsForSeveralModels(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, engine: models("small", "large", "small"), options: []kvsteer.Option{kvsteer.WithPolicy(load(t, aliasPolicy))}})
	sel, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(`{"model":"auto","messages":[{"role":"user","content":"x"}]}`)})
	require.NoError(t, err)
	defer sel.Abort(nil)
	d := sel.Decision()
	require.Equal(t, "w1", d.Winner().Name)
	require.Equal(t, "large", d.Winner().Model)
	require.True(t, d.Request.Alias)
	require.Equal(t, "team/alias", d.Policy)
	require.Len(t, d.PolicyVersion, 16)
	require.Contains(t, d.String(), `-> w1 as "large"`)
	require.Contains(t, d.String(), "[team/alias, rule auto]")
	require.Equal(t, 1, d.Winner().Stage)
	rest := sel.Alternatives()
	require.Len(t, rest, 2, "those of the next stage")
	require.NoError(t, sel.Next(t.Context(), nil))
	require.Equal(t, "small", sel.Decision().Winner().Model)
	require.Equal(t, 2, sel.Decision().Winner().Stage)
	require.Contains(t, string(sel.Body()), `"model":"small"`)

	_, err = r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(`{"model":"other","messages":[]}`)})
	require.Equal(t, kvsteer.CodeUnknownModel, kvsteer.CodeOf(err))
}

const shadowPolicy = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: trial}
spec:
  mode: Shadow
  rules:
  - name: only-last
    route: {select: [{order: [w1]}]}
---
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: real}
spec:
  rules:
  - name: only-first
    route: {select: [{order: [w0]}]}
`

func TestAShadowIsInTheDecision(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(load(t, shadowPolicy))}})
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	require.Equal(t, "w0", d.Winner().Name)
	require.Len(t, d.Shadows, 1)
	require.True(t, d.Shadows[0].Differs)
	require.Contains(t, d.String(), "shadow trial, rule only-last: would choose w1")
}

// A target moves candidates within the stage that decides, not across.
func TestTargetsStayWithinAStage(t *testing.T) {
	t.Parallel()
	set := load(t, `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    route: {select: [{order: [w0]}, {order: [w1]}]}
`)
	// The first worker is too slow for the target.
	slow := &scripted{ttft: map[string]time.Duration{"w0": time.Minute, "w1": time.Millisecond}}
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(set), kvsteer.WithPredictor(slow)}})
	req := chatRequest("x", false)
	req.TargetTTFT = time.Second
	d, err := r.router.Explain(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "w0", d.Winner().Name)
	require.Equal(t, "ttft", d.Targets.Missed)
}

// scripted predicts what a test says for each worker.
type scripted struct{ ttft map[string]time.Duration }

func (s *scripted) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		out[i].TTFT = s.ttft[in[i].Worker]
	}
}
func (s *scripted) Observe(*kvsteer.Features, time.Duration) {}

// Ten thousand requests while a policy file is replaced fifty times: every decision is
// that of one whole policy, which it names.
func TestHotReloadUnderLoad(t *testing.T) {
	t.Parallel()
	const requests, reloads, senders = 10_000, 50, 8
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	// Each version has two rules that must agree, so that a mixture would show.
	text := func(n int) []byte {
		return fmt.Appendf(nil, `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: v%d}
spec:
  rules:
  - name: chat-%d
    matches: [{api: chat}]
    route: {select: [{order: [w%d]}]}
  - name: other-%d
    route: {select: [{order: [w%d]}]}
`, n, n, n%2, n, n%2)
	}
	versions := map[string]int{}
	for n := range reloads + 1 {
		set, err := policy.Load("policy.yaml", text(n), policy.Options{})
		require.NoError(t, err)
		versions[set.Version()] = n
	}
	require.Len(t, versions, reloads+1)
	require.NoError(t, os.WriteFile(path, text(0), 0o600))
	source, err := file.Open(path, file.Options{Interval: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, source.Close()) })
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(source)}})

	var sent, loaded atomic.Int32
	var seen sync.Map
	var senderGroup sync.WaitGroup
	fail := make(chan string, senders)
	for range senders {
		senderGroup.Go(func() {
			for i := sent.Add(1); i <= requests; i = sent.Add(1) {
				for loaded.Load() < i*(reloads+1)/(requests+1)-1 { // one version behind is near enough
					time.Sleep(50 * time.Microsecond)
				}
				api, kind := kvsteer.ChatCompletions, "chat"
				if i%2 == 0 {
					api, kind = kvsteer.Completions, "other"
				}
				sel, err := r.router.Select(t.Context(), &kvsteer.Request{API: api, Model: testModel, TokenIDs: []uint32{1, 2, 3}})
				if err != nil {
					fail <- err.Error()
					return
				}
				d := sel.Decision()
				sel.Done(kvsteer.Usage{})
				n, known := versions[d.PolicyVersion]
				rule, name, worker := fmt.Sprintf("%s-%d", kind, n), fmt.Sprintf("v%d", n), fmt.Sprintf("w%d", n%2)
				if !known || d.Rule != rule || d.Policy != name || d.Winner().Name != worker {
					fail <- fmt.Sprintf("version %q (%d): policy %q, rule %q, worker %q", d.PolicyVersion, n, d.Policy, d.Rule, d.Winner().Name)
					return
				}
				seen.Store(n, true)
			}
		})
	}
	for n := 1; n <= reloads; n++ {
		for int(sent.Load()) < n*requests/(reloads+1) && len(fail) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		if n%10 == 0 { // between two good ones a bad one, which must change nothing
			require.NoError(t, os.WriteFile(path, []byte("apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nspec: {rulez: []}\n"), 0o600))
			var bad *policy.CheckError
			require.ErrorAs(t, source.Reload(), &bad)
			require.Equal(t, []int{3, 8}, []int{bad.Findings[0].Line, bad.Findings[0].Column}, "it says where: %v", bad)
		}
		require.NoError(t, os.WriteFile(path, text(n), 0o600))
		require.NoError(t, source.Reload())
		loaded.Store(int32(n))
	}
	senderGroup.Wait()
	close(fail)
	for problem := range fail {
		t.Error(problem)
	}
	count := 0
	seen.Range(func(any, any) bool { count++; return true })
	require.Greater(t, count, reloads/2, "versions that decided")
}
