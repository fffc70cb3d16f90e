package kvsteer_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// turnedDown is a hook that keeps the codes of refusals.
type turnedDown struct {
	mu  sync.Mutex
	all []*kvsteer.Refusal
}

func (h *turnedDown) OnRefusal(f *kvsteer.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, f)
}

// take returns what has come since, as words.
func (h *turnedDown) take() (words []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.all {
		words = append(words, strings.Join([]string{f.API, f.Model, f.TenantLabel, f.Err.Code.String()}, "|"))
	}
	h.all = nil
	slices.Sort(words)
	return words
}

type nobody struct{}

func (nobody) Evaluate(_ *policy.Request, _ []policy.Candidate, plan *policy.Plan) { plan.Reset("no") }

// Whatever the reason, a request that is turned down is told once.
func TestEveryRefusalIsToldOnce(t *testing.T) {
	t.Parallel()
	const model = testModel
	chat := func(body string) func(*testing.T, *rig) error {
		return func(t *testing.T, r *rig) error {
			t.Helper()
			_, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body)})
			return err
		}
	}
	send := func(method, path, body string) func(*testing.T, *rig) error {
		return func(t *testing.T, r *rig) error {
			t.Helper()
			tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{})
			defer tr.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), method, "http://kvsteer"+path, strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := tr.RoundTrip(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
			}
			return err
		}
	}
	ok := chatBody("hi", false)
	for name, c := range map[string]struct {
		options []kvsteer.Option
		do      func(*testing.T, *rig) error
		want    []string
	}{
		"no JSON":                {nil, chat(`{"model":`), []string{"chat completions|||bad request"}},
		"no request":             {nil, func(t *testing.T, r *rig) error { t.Helper(); _, err := r.router.Select(t.Context(), nil); return err }, []string{"|||bad request"}},
		"an unknown model":       {nil, chat(`{"model":"x","messages":[{"role":"user","content":"hi"}]}`), []string{"chat completions|x||unknown model"}},
		"an unknown one, sent":   {nil, send("POST", "/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"hi"}]}`), []string{"chat completions|x||unknown model"}},
		"the policy":             {[]kvsteer.Option{kvsteer.WithPolicy(nobody{})}, chat(ok), []string{"chat completions|" + model + "||rejected by policy"}},
		"too large":              {[]kvsteer.Option{kvsteer.WithMaxBody(10)}, chat(ok), []string{"chat completions|||request too large"}},
		"too large, sent":        {[]kvsteer.Option{kvsteer.WithMaxBody(10)}, send("POST", "/v1/chat/completions", ok), []string{"chat completions|||request too large"}},
		"too large, without API": {[]kvsteer.Option{kvsteer.WithMaxBody(10)}, send("POST", "/v1/rerank", ok), []string{"|||request too large"}},
		"a path":                 {nil, send("GET", "/admin", ""), []string{"|||not forwarded"}},
		"a model that is none":   {nil, send("GET", "/v1/models/x", ""), []string{"|x||unknown model"}},
		"unknown, without API":   {nil, send("POST", "/tokenize", `{"model":"x"}`), []string{"|x||unknown model"}},
		"nobody verified": {
			[]kvsteer.Option{kvsteer.WithTenancy(kvsteer.TenancyOptions{RefuseAnonymous: true})},
			send("POST", "/v1/chat/completions", ok),
			[]string{"chat completions|||unauthenticated"},
		},
		"gone": {nil, func(t *testing.T, r *rig) error {
			t.Helper()
			ctx, leave := context.WithCancel(t.Context())
			leave()
			_, err := r.router.Select(ctx, chatRequest("hi", false))
			return err
		}, []string{"chat completions|||canceled"}},
		"closed": {nil, func(t *testing.T, r *rig) error {
			t.Helper()
			require.NoError(t, r.router.Close())
			_, err := r.router.Select(t.Context(), chatRequest("hi", false))
			return err
		}, []string{"chat completions|||router closed"}},
		"answered": {nil, send("POST", "/v1/chat/completions", ok), nil},
		"not chosen, for it is a question": {[]kvsteer.Option{kvsteer.WithPolicy(nobody{})}, func(t *testing.T, r *rig) error {
			t.Helper()
			_, _ = r.router.Explain(t.Context(), chatRequest("hi", false))
			return nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := &turnedDown{}
			r := newRig(t, rigConfig{engines: 1, options: append(c.options, kvsteer.WithHooks(hook))})
			err := c.do(t, r)
			require.Equal(t, c.want != nil, err != nil, "%v", err)
			require.Equal(t, c.want, hook.take())
		})
	}
}

// A second attempt for which nobody is left ends with an Outcome.
func TestAFailedRequestIsNoRefusal(t *testing.T) {
	t.Parallel()
	hook, seen := &turnedDown{}, &recorder{}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithHooks(hook, seen)}})
	s, err := r.router.Select(t.Context(), chatRequest("hi", false))
	require.NoError(t, err)
	require.Error(t, s.Next(t.Context(), io.ErrUnexpectedEOF))
	s.Abort(nil)
	require.Empty(t, hook.take())
	require.Len(t, seen.outcomes, 1)
}

// What a gateway refuses by itself is told like the rest.
func TestAGatewaysOwnRefusalIsTold(t *testing.T) {
	t.Parallel()
	hook := &turnedDown{}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithHooks(hook)}})
	r.router.Refuse(&kvsteer.Refusal{API: "messages", Err: &kvsteer.Error{Code: kvsteer.CodeBadRequest}})
	require.Equal(t, []string{"messages|||bad request"}, hook.take())
	r.router.Refuse(&kvsteer.Refusal{})
	r.router.Refuse(nil)
	require.Empty(t, hook.take())
}
