package kvsteer_test

import (
	"maps"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// sent counts what workers are sent, by path and worker.
type sent struct {
	mu     sync.Mutex
	counts map[string]map[string]int
	names  map[string]string // of workers, by host
}

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	if s.counts[req.URL.Path] == nil {
		s.counts[req.URL.Path] = map[string]int{}
	}
	s.counts[req.URL.Path][s.names[req.URL.Host]]++
	s.mu.Unlock()
	return http.DefaultTransport.RoundTrip(req)
}

// by is what was sent to a path.
func (s *sent) by(path string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts[path])
}

func (s *sent) know(r *rig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range r.fleet.Snapshot().Members() {
		s.names[m.URL().Host] = m.Name()
	}
}

func newSent() *sent { return &sent{counts: map[string]map[string]int{}, names: map[string]string{}} }

// What no prompt routes goes nowhere that a policy would not let its text go.
func TestPoliciesHoldForWhatIsForwarded(t *testing.T) {
	t.Parallel()
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	require.NoError(t, err)
	seen := newSent()
	r := newRig(t, rigConfig{engines: 2, transport: kvsteer.TransportOptions{Base: seen}, options: []kvsteer.Option{
		kvsteer.WithPolicy(load(t, piiStays)), kvsteer.WithClassifiers(classifiers(t, scanner)),
	}})
	seen.know(r)
	const body = `{"model":"` + testModel + `","prompt":"charge 4111 1111 1111 1111","messages":[{"role":"user","content":"charge 4111 1111 1111 1111"}]}`
	for _, path := range []string{"/v1/score", "/rerank", "/v1/messages/count_tokens", "/v1/chat/completions/", "/v1/completions/"} {
		for range 3 {
			r.post(path, body)
			r.post(path, `{"input":"no model"}`)
		}
		require.Zero(t, seen.by(path)["w0"], path)
		require.Positive(t, seen.by(path)["w1"], path)
	}
	// What brings nothing may be asked of anybody.
	require.Equal(t, http.StatusNotFound, r.get("/v1/audio/speech").status)
	require.Equal(t, map[string]int{"w0": 1}, seen.by("/v1/audio/speech"))
	// What is a connection later brings something then.
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.gateway.URL+"/v1/realtime", nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		resp, err := r.gateway.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Zero(t, seen.by("/v1/realtime")["w0"])
	r.idle()
}

func TestAPolicyRefusesWhatIsForwarded(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "p", Rules: []policy.Rule{{
		Name: "closed", Matches: []policy.Match{{Tenant: []string{"banned"}}}, Route: policy.Route{
			Exclude: []policy.Exclusion{{Name: "all", Drop: policy.Filter{Type: policy.LocalOnly}}},
			OnEmpty: policy.OnEmpty{Action: policy.Reject, Status: http.StatusTeapot, Message: "not now"},
		},
	}}})
	require.NoError(t, err)
	seen := newSent()
	r := newRig(t, rigConfig{
		engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(set)},
		worker: func(i int, w *fleet.Worker) { w.Pool = []string{"a", "b"}[i] },
		transport: kvsteer.TransportOptions{Base: seen, Describe: func(h *http.Request, q *kvsteer.Request) {
			q.Tenant, q.Pool = "fine", "b"
			if h.URL.Path == "/v1/score" {
				q.Tenant = "banned"
			}
		}},
	})
	seen.know(r)
	a := r.post("/v1/score", `{"model":"`+testModel+`"}`)
	require.Equal(t, http.StatusTeapot, a.status)
	require.Contains(t, a.body, "not now")
	require.Empty(t, seen.by("/v1/score"))
	r.post("/rerank", `{"model":"`+testModel+`"}`)
	require.Equal(t, map[string]int{"w1": 1}, seen.by("/rerank"), "its pool holds as well")
	r.idle()
}

// Of a tag that the gateway gives twice the worse counts.
func TestATagGivenTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(load(t, piiStays)), kvsteer.WithTags("pii-detected")}})
	for _, states := range [][]policy.TagState{
		{policy.TagAbsent, policy.TagPresent}, {policy.TagPresent, policy.TagAbsent}, {policy.TagAbsent, policy.TagUnknown}, {policy.TagUnknown, policy.TagAbsent},
	} {
		req := chatRequest("x", false)
		for _, s := range states {
			req.Tags = append(req.Tags, policy.Tag{Name: "pii-detected", State: s})
		}
		d, err := r.router.Explain(t.Context(), req)
		require.NoError(t, err)
		in, _ := candidates(d)
		require.Equal(t, []string{"w1"}, in, "%v", states)
	}
}
