package kvsteer_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// stated predicts the same for everything on a worker.
type stated map[string]kvsteer.Prediction

func (s stated) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		out[i] = s[in[i].Worker]
	}
}

func (stated) Observe(*kvsteer.Features, time.Duration) {}

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// asked is what a policy was told of a request.
type asked struct {
	policy.Default

	last *policy.Request
}

func (a asked) Evaluate(req *policy.Request, c []policy.Candidate, plan *policy.Plan) {
	*a.last = *req
	a.Default.Evaluate(req, c, plan)
}

func TestHintsAreRead(t *testing.T) {
	t.Parallel()
	var last policy.Request
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(asked{last: &last})}})
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	body := func(more string) []byte {
		return []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]` + more + `}`)
	}
	for name, c := range map[string]struct {
		req  kvsteer.Request
		want policy.Request
	}{
		"none":      {kvsteer.Request{}, policy.Request{}},
		"fields":    {kvsteer.Request{Tenant: "a", QoS: "batch", Priority: -1, Session: "s", TargetTTFT: ms(5), TargetITL: ms(6)}, policy.Request{Tenant: "a", QoS: "batch", Priority: -1, Session: true, TargetTTFT: ms(5), TargetITL: ms(6)}},
		"headers":   {kvsteer.Request{Header: header("x-session-id", "s", "x-slo-ttft-ms", "500", "x-slo-tpot-ms", " 37.5 ")}, policy.Request{Session: true, TargetTTFT: ms(500), TargetITL: ms(37.5)}},
		"overrides": {kvsteer.Request{TargetTTFT: ms(1), Header: header("x-slo-ttft-ms", "500")}, policy.Request{TargetTTFT: ms(1)}},
		"session":   {kvsteer.Request{Body: body(`,"session_id":"s"`)}, policy.Request{Session: true}},
		"cache key": {kvsteer.Request{Body: body(`,"prompt_cache_key":"s"`)}, policy.Request{Session: true}},
		"odd":       {kvsteer.Request{Body: body(`,"session_id":7,"prompt_cache_key":null`)}, policy.Request{}},
	} {
		c.req.API = kvsteer.ChatCompletions
		if c.req.Body == nil {
			c.req.Body = body("")
		}
		_, err := r.router.Explain(t.Context(), &c.req)
		require.NoError(t, err, name)
		got := last
		require.NotZero(t, got.Draw, name)
		got.Draw = 0
		got.Model, got.API, got.PromptTokens, got.Attempt, got.DryRun = "", "", 0, 0, false
		require.Equal(t, c.want, got, name)
	}
	for _, bad := range []string{"0", "-1", "NaN", "fast", "1e99"} {
		_, err := r.router.Explain(t.Context(), &kvsteer.Request{
			API: kvsteer.ChatCompletions, Body: body(""), Header: header("x-slo-tpot-ms", bad),
		})
		require.Equal(t, kvsteer.CodeBadRequest, kvsteer.CodeOf(err), bad)
		require.ErrorContains(t, err, kvsteer.HeaderTargetITL)
	}
	_, err := r.router.Explain(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: body(""), TargetTTFT: -1})
	require.Equal(t, kvsteer.CodeBadRequest, kvsteer.CodeOf(err))
}

func plainWorkers(t *testing.T, n int, o ...kvsteer.Option) *kvsteer.Router {
	t.Helper()
	workers := make([]worker, n)
	for i := range workers {
		workers[i].serve = prompts(whole)
	}
	r := newScripted(t, rigConfig{options: o}, workers...)
	r.waitJoined()
	return r.router
}

// tokenRequest is a prompt of its own.
func tokenRequest(n uint32) *kvsteer.Request {
	ids := make([]uint32, 64)
	for i := range ids {
		ids[i] = n
	}
	return &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	r := plainWorkers(t, 4, kvsteer.WithPredictor(stated{
		"s0": {TTFT: ms(10), P90: ms(200), ITL: ms(50)}, // the fastest, with stalls
		"s1": {TTFT: ms(40), P90: ms(60), ITL: ms(50)},
		"s2": {TTFT: ms(50), P90: ms(70), ITL: ms(20)},
		"s3": {TTFT: ms(90), P90: ms(95), ITL: ms(10)},
	}))
	for name, c := range map[string]struct {
		ttft, itl float64
		order     []string
		missed    string
	}{
		"none":       {0, 0, []string{"s0", "s1", "s2", "s3"}, ""},
		"loose":      {1000, 1000, []string{"s0", "s1", "s2", "s3"}, ""},
		"first":      {100, 0, []string{"s1", "s2", "s3", "s0"}, ""},
		"pace":       {0, 25, []string{"s2", "s3", "s0", "s1"}, ""},
		"both":       {80, 25, []string{"s2", "s0", "s1", "s3"}, ""},
		"first miss": {5, 0, []string{"s0", "s1", "s2", "s3"}, "ttft"},
		"all miss":   {5, 5, []string{"s0", "s1", "s2", "s3"}, "ttft, itl"},
	} {
		req := tokenRequest(1)
		req.TargetTTFT, req.TargetITL = ms(c.ttft), ms(c.itl)
		d, err := r.Explain(t.Context(), req)
		require.NoError(t, err)
		order := make([]string, len(d.Candidates))
		for _, cand := range d.Candidates {
			order[cand.Place-1] = cand.Name
		}
		require.Equal(t, c.order, order, name)
		if name == "none" {
			require.Nil(t, d.Targets)
			continue
		}
		require.Equal(t, &kvsteer.Targets{TTFT: ms(c.ttft), ITL: ms(c.itl), Missed: c.missed}, d.Targets, name)
		require.Equal(t, c.missed != "", strings.Contains(d.String(), "nobody is expected to meet"), name)
	}
}

// A session stays where it was as long as that makes little difference.
func TestSessionsStay(t *testing.T) {
	t.Parallel()
	speeds := stated{"s0": {TTFT: ms(100)}, "s1": {TTFT: ms(105)}, "s2": {TTFT: ms(120)}}
	r := plainWorkers(t, 3, kvsteer.WithPredictor(speeds))
	turn := func(session, tenant string) string {
		req := tokenRequest(2)
		req.Session, req.Tenant = session, tenant
		s, err := r.Select(t.Context(), req)
		require.NoError(t, err)
		defer s.Done(kvsteer.Usage{})
		return s.Target().Worker
	}
	require.Equal(t, "s0", turn("a", ""))
	speeds["s0"], speeds["s1"] = speeds["s1"], speeds["s0"]
	require.Equal(t, "s0", turn("a", ""), "five in a hundred are not worth a move")
	require.Equal(t, "s1", turn("b", ""))
	require.Equal(t, "s1", turn("a", "another tenant"), "whose session a is not the same")
	require.Equal(t, "s1", turn("", ""))
	d, err := r.Explain(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: []uint32{1}, Session: "a"})
	require.NoError(t, err)
	require.Equal(t, ms(10.5), d.Winner().Affinity)
	speeds["s0"] = kvsteer.Prediction{TTFT: ms(200)}
	require.Equal(t, "s1", turn("a", ""), "this is")
	speeds["s0"] = kvsteer.Prediction{TTFT: ms(99)}
	require.Equal(t, "s1", turn("a", ""), "and its home is here now")
}

func TestDescribeIsAskedByTheTransport(t *testing.T) {
	t.Parallel()
	var last policy.Request
	r := newRig(t, rigConfig{
		engines: 1, options: []kvsteer.Option{kvsteer.WithPolicy(asked{last: &last})},
		transport: kvsteer.TransportOptions{Describe: func(h *http.Request, q *kvsteer.Request) {
			q.Tenant, q.Priority = "tenant of "+h.URL.Path, 3
		}},
	})
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody("x", false)).status)
	require.Equal(t, "tenant of /v1/chat/completions", last.Tenant)
	require.Equal(t, 3, last.Priority)
}
