package kvsteer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// roles predicts that workers of the class "decode" compute prompts slowly.
type roles struct{}

func (roles) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		pace := time.Millisecond
		if in[i].Class == "decode" {
			pace *= 10
		}
		own := time.Duration(in[i].Uncached) * pace
		out[i] = kvsteer.Prediction{TTFT: own + time.Duration(in[i].AheadTokens)*pace, Prefill: own, Externality: own}
	}
}

func (roles) Observe(*kvsteer.Features, time.Duration) {}

// newSplit is a fleet of two workers that compute prompts, p0 and p1, and two that
// decode, d2 and d3.
func newSplit(t *testing.T, c rigConfig) *rig {
	t.Helper()
	c.engines = 4
	c.engine = func(i int, e *fleettest.Config) {
		e.Name, e.Role = "p"+string(rune('0'+i)), fleet.RolePrefill
		if i >= 2 {
			e.Name, e.Role = "d"+string(rune('0'+i)), fleet.RoleDecode
		}
	}
	c.worker = func(_ int, w *fleet.Worker) { w.Class = string(w.Role) }
	c.options = append([]kvsteer.Option{kvsteer.WithPredictor(roles{})}, c.options...)
	r := newRig(t, c)
	r.waitTrust(kvcache.Exact)
	return r
}

func fields(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(body, &m))
	return m
}

func TestTwoWorkersServeARequest(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		r := newSplit(t, rigConfig{})
		text := fleettest.Text(1, 800)
		a := r.post("/v1/chat/completions", chatBody(text, stream))
		require.Equal(t, http.StatusOK, a.status, a.body)
		o := r.observed.nextOutcome(t, 0)
		require.NoError(t, o.Err)
		d := o.Decision
		require.NotNil(t, d.Prefill)
		by := d.Prefill.Candidates[d.Prefill.Chosen].Name
		require.Equal(t, by, d.Winner().PrefillOn)
		require.True(t, strings.HasPrefix(by, "p") && strings.HasPrefix(d.Winner().Name, "d"), d.String())
		require.Len(t, d.Candidates, 2)
		require.Len(t, d.Prefill.Candidates, 2)
		require.Contains(t, d.String(), "prompt on "+by)

		// Both were told of each other as vLLM has it.
		first := r.engine(by).Requests()
		second := r.engine(d.Winner().Name).Requests()
		require.Len(t, first, 1)
		require.Len(t, second, 1)
		f := fields(t, first[0].Body)
		require.NotContains(t, f, "stream")
		require.NotContains(t, f, "stream_options")
		require.EqualValues(t, 1, f["max_tokens"])
		require.Equal(t, map[string]any{
			"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": nil,
			"remote_block_ids": nil, "remote_host": nil, "remote_port": nil,
		}, f["kv_transfer_params"])
		f = fields(t, second[0].Body)
		require.Equal(t, stream, f["stream"])
		params, ok := f["kv_transfer_params"].(map[string]any)
		require.True(t, ok)
		require.Equal(t, true, params["do_remote_prefill"])
		require.NotEmpty(t, params["remote_block_ids"])
		require.NotEmpty(t, first[0].Header.Get("X-Request-Id"))
		require.Equal(t, first[0].Header.Get("X-Request-Id"), second[0].Header.Get("X-Request-Id"))
		require.Positive(t, r.engine(d.Winner().Name).Stats().RemoteTokens)
		r.idle()

		// What was computed is expected there again, and reported by who had it.
		require.Eventually(t, func() bool {
			d, err := r.router.Explain(t.Context(), chatRequest(text, stream))
			require.NoError(t, err)
			return d.Prefill.Candidates[d.Prefill.Chosen].CachedTokens > 500
		}, wait, tick)
		again := chatBody(text, stream)
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", again).status)
		o = r.observed.nextOutcome(t, 1)
		if o.Decision.Winner().PrefillOn != "" {
			require.Equal(t, by, o.Decision.Winner().PrefillOn)
		}
		require.Equal(t, o.Usage.CacheRead, o.CachedPredicted)
		require.Zero(t, r.observed.became(kvcache.Suspect))
		r.idle()
	}
}

// The client's own request id is kept, on both legs.
func TestTheRequestIDIsTheClients(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.gateway.URL+"/v1/chat/completions",
		strings.NewReader(chatBody(fleettest.Text(1, 300), false)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "mine")
	resp, err := r.gateway.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	seen := 0
	for _, e := range r.engines {
		for _, q := range e.Requests() {
			require.Equal(t, "mine", q.Header.Get("X-Request-Id"))
			seen++
		}
	}
	require.Equal(t, 2, seen)
}

// relayed counts the requests that engines of a role have seen.
func (r *rig) relayed(prefix string) (n int) {
	for _, e := range r.engines {
		if strings.HasPrefix(e.Name(), prefix) {
			n += len(e.Requests())
		}
	}
	return n
}

// What two workers can't serve is served by one that decodes.
func TestWhatOneWorkerServes(t *testing.T) {
	t.Parallel()
	text := fleettest.Text(2, 500)
	for name, c := range map[string]struct{ path, body string }{
		"several answers": {"/v1/chat/completions", strings.Replace(chatBody(text, false), "{", `{"n":2,`, 1)},
		"log probs":       {"/v1/completions", `{"model":"m","prompt":"` + text + `","prompt_logprobs":1}`},
		"own transfer":    {"/v1/completions", `{"model":"m","prompt":"` + text + `","kv_transfer_params":{}}`},
		"prompts":         {"/v1/completions", `{"model":"m","prompt":["` + text + `","b"]}`},
		"messages":        {"/v1/messages", chatBody(text, false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSplit(t, rigConfig{})
			require.Equal(t, http.StatusOK, r.post(c.path, c.body).status)
			require.Zero(t, r.relayed("p"))
			require.Equal(t, 1, r.relayed("d"))
			require.Nil(t, r.observed.nextOutcome(t, 0).Decision.Prefill)
			r.idle()
		})
	}
}

// With what is left of the fleet, requests are served as well as it goes.
func TestRolesThatAreMissing(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{})
	body := func(seed uint64) string { return chatBody(fleettest.Text(seed, 500), false) }
	for _, name := range []string{"p0", "p1"} {
		require.NoError(t, r.fleet.Drain(name, true))
	}
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body(1)).status)
	require.Zero(t, r.relayed("p"))
	require.NoError(t, r.fleet.Drain("p0", false))
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body(2)).status)
	require.Equal(t, 1, r.relayed("p"))
	for _, name := range []string{"d2", "d3"} {
		require.NoError(t, r.fleet.Drain(name, true))
	}
	a := r.post("/v1/chat/completions", body(3))
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.body, "none generates answers")
}

// says answers with a usage, and where the KV cache is.
func says(prompt, cached int, more string) http.HandlerFunc {
	return prompts(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":%d,"completion_tokens":1,`+
			`"prompt_tokens_details":{"cached_tokens":%d}}%s}`, prompt, cached, more)
	})
}

// To who goes on from a prompt all of it looks cached. What counts is what was
// cached where it was computed.
func TestCreditForTheCache(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithPredictor(roles{})}},
		worker{role: fleet.RolePrefill, serve: says(100, 32, `,"kv_transfer_params":{"do_remote_prefill":true}`)},
		worker{role: fleet.RoleDecode, serve: says(100, 96, "")},
	)
	r.waitJoined()
	a := r.post("/v1/completions", textBody(strings.Repeat("word ", 100), ""))
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.body, `"cached_tokens":96`, "the client gets the worker's own words")
	o := r.observed.nextOutcome(t, 0)
	require.Equal(t, "s0", o.Decision.Winner().PrefillOn)
	require.Equal(t, []int{68, 32, 1}, []int{o.Usage.Uncached, o.Usage.CacheRead, o.Usage.Output})
	r.idle()
}

// A worker that fails to compute a prompt is not asked again; who would have gone on
// from there may well be.
func TestAPrefillThatFails(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{})
	text := fleettest.Text(1, 500)
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, true)).status)
	has := r.observed.nextOutcome(t, 0).Decision.Winner().PrefillOn
	other := map[string]string{"p0": "p1", "p1": "p0"}[has]
	require.Eventually(t, func() bool {
		d, err := r.router.Explain(t.Context(), chatRequest(text, true))
		require.NoError(t, err)
		return d.Prefill.Candidates[d.Prefill.Chosen].CachedTokens > 0
	}, wait, tick)
	for _, name := range []string{"d2", "d3"} { // to have it computed elsewhere is still better
		require.NoError(t, postReset(t, r.engine(name).URL()))
	}
	r.engine(has).Faults().Fail(100, http.StatusInternalServerError, 0)
	longer := text + " " + fleettest.Text(2, 500)
	a := r.post("/v1/chat/completions", chatBody(longer, true))
	require.Equal(t, http.StatusOK, a.status, a.body)
	o := r.observed.nextOutcome(t, 1)
	require.NoError(t, o.Err)
	require.Equal(t, 2, o.Decision.Attempt)
	require.Equal(t, other, o.Decision.Winner().PrefillOn)
	require.Len(t, o.Decision.Candidates, 2, "both decode")
	require.Len(t, o.Decision.Prefill.Candidates, 1)
	r.idle()
}

// One that fails to go on has the prompt computed once more, for another.
func TestADecodeThatFails(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{})
	text := fleettest.Text(1, 500)
	d, err := r.router.Explain(t.Context(), chatRequest(text, true))
	require.NoError(t, err)
	require.NotEmpty(t, d.Winner().PrefillOn)
	for _, name := range []string{"d2", "d3"} {
		r.engine(name).Faults().Fail(1, http.StatusInternalServerError, 0)
	}
	a := r.post("/v1/chat/completions", chatBody(text, true))
	require.Equal(t, http.StatusInternalServerError, a.status, "both failed, and nobody is left")
	r.idle()
	require.Equal(t, 2, r.relayed("p"))
	require.Equal(t, 2, r.relayed("d"))
	a = r.post("/v1/chat/completions", chatBody(text, true))
	require.Equal(t, http.StatusOK, a.status)
	r.idle()
}

func postReset(t *testing.T, url string) error {
	t.Helper()
	resp, err := http.Post(url+"/reset_prefix_cache", "", nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// What is wrong with the request is said once, by the worker that answers.
func TestABadRequestIsAnsweredAsUsual(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{})
	a := r.post("/v1/chat/completions", strings.Replace(chatBody(fleettest.Text(1, 500), false), "{", `{"priority":"x",`, 1))
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Contains(t, a.body, "priority")
	r.idle()
}

func TestCancelWhileThePromptIsComputed(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{})
	for _, name := range []string{"p0", "p1"} {
		r.engine(name).Faults().Hang(fleettest.HangBeforeHeaders)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for r.relayed("p") == 0 {
			time.Sleep(tick)
		}
		cancel()
	}()
	_, err := r.try(ctx, "/v1/chat/completions", chatBody(fleettest.Text(1, 500), false))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, r.observed.nextOutcome(t, 0).Err, context.Canceled)
	r.idle()
	require.Zero(t, r.relayed("d"))
	for _, name := range []string{"p0", "p1"} {
		r.engine(name).Faults().Hang(fleettest.HangNever)
	}
}

// barred drops a worker from whatever it is asked about.
type barred struct {
	policy.Default

	name string
}

func (b barred) Evaluate(req *policy.Request, c []policy.Candidate, plan *policy.Plan) {
	b.Default.Evaluate(req, c, plan)
	kept := plan.Order[:0]
	for _, i := range plan.Order {
		if c[i].Name != b.name {
			kept = append(kept, i)
		}
	}
	plan.Order = kept
}

// A policy holds for both legs.
func TestPolicyHoldsForBothLegs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"p0", "d2"} {
		r := newSplit(t, rigConfig{options: []kvsteer.Option{kvsteer.WithPolicy(barred{name: name})}})
		for i := range 6 {
			require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(fleettest.Text(uint64(i), 300), false)).status)
		}
		require.Empty(t, r.engine(name).Requests())
		require.Equal(t, 6, r.relayed("p"))
	}
}

// Waiting and the two legs go together: what counts is who computes the prompt.
func TestQueueBeforeTwoWorkers(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{options: []kvsteer.Option{kvsteer.WithQueue(kvsteer.QueueOptions{})}})
	var sels []*kvsteer.Selection
	for i := range 2 {
		s, err := r.router.Select(t.Context(), chatRequest(fleettest.Text(uint64(i), 500), true))
		require.NoError(t, err)
		sels = append(sels, s)
	}
	got := make(chan *kvsteer.Selection)
	go func() {
		s, _ := r.router.Select(t.Context(), chatRequest(fleettest.Text(9, 500), true))
		got <- s
	}()
	require.Eventually(t, func() bool { return r.router.Waiting() == 1 }, wait, tick)
	where, body, ok := sels[1].Prefill()
	require.True(t, ok)
	require.Contains(t, string(body), "do_remote_decode")
	require.Error(t, sels[1].Prefilled([]byte(`{"kv_transfer_params":null}`)))
	require.NoError(t, sels[1].Prefilled([]byte(`{"kv_transfer_params":{"x":1}}`)))
	require.Contains(t, string(sels[1].Body()), `"kv_transfer_params":{"x":1}`)
	s := <-got
	next, _, ok := s.Prefill()
	require.True(t, ok)
	require.Equal(t, where.Worker, next.Worker)
	for _, s := range append(sels, s) {
		s.Done(kvsteer.Usage{})
	}
	r.idle()
}
