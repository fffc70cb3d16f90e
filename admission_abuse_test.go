package kvsteer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// leave posts a chat request and goes away once something has happened.
func (m *metered) leave(body string, when <-chan struct{}, read int) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.gateway.URL+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(m.t, err)
	req.Header.Set("X-Test-Key", "a")
	go func() {
		select {
		case <-when:
			cancel()
		case <-ctx.Done():
		}
	}()
	resp, err := m.gateway.Client().Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, err = io.ReadFull(resp.Body, make([]byte, read))
	require.NoError(m.t, err)
}

// Who goes away before there is an answer has made a worker read the prompt all the same.
func TestLeavingIsNotFree(t *testing.T) {
	t.Parallel()
	here := make(chan struct{}, 10)
	m := newMetered(t, []quota.Rule{{Name: "two", Scope: quota.PerTenant, Requests: perMinute(2)}}, kvsteer.TenancyOptions{},
		worker{serve: prompts(func(_ http.ResponseWriter, r *http.Request) {
			here <- struct{}{}
			<-r.Context().Done()
		})})
	for range 2 {
		m.leave(chatBody("hi", false), here, 0)
	}
	m.balanced()
	assert.Equal(t, http.StatusTooManyRequests, m.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
	all := m.book.take()
	require.Len(t, all, 4)
	for _, r := range all {
		if r.State != ledger.Reserved {
			assert.Equal(t, []any{ledger.Settled, ledger.Estimate, all[0].Uncached, int64(0)}, []any{r.State, r.Source, r.Uncached, r.Output})
		}
	}
}

// Nor is it once an answer that does not stream has begun.
func TestLeavingAWholeAnswerIsNotFree(t *testing.T) {
	t.Parallel()
	m := newMetered(t, nil, kvsteer.TenancyOptions{}, worker{serve: prompts(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}],`, strings.Repeat("a", 100_000))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})})
	m.leave(chatBody("hi", false), nil, 50_000)
	m.balanced()
	all := m.book.take()
	require.Len(t, all, 2)
	assert.Equal(t, []any{ledger.Settled, ledger.Estimate, int64(512)}, []any{all[1].State, all[1].Source, all[1].Output})
}

// The usage of an answer that is too large to be kept is at its end.
func TestUsageOfALargeAnswer(t *testing.T) {
	t.Parallel()
	m := newMetered(t, nil, kvsteer.TenancyOptions{}, worker{serve: prompts(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"completion_tokens":1},"choices":[{"message":{"content":"`)
		for range 90 {
			_, _ = io.WriteString(w, strings.Repeat("a", 100_000)+`\"usage\":{\"completion_tokens\":7}`)
		}
		_, _ = io.WriteString(w, `"}}],"usage" : 5, "usage":{"prompt_tokens":3,"completion_tokens":1000000},"more":[1,{"x":2}]}`)
	})})
	m.as("a", "/v1/chat/completions", chatBody("hi", false))
	m.balanced()
	all := m.book.take()
	assert.Equal(t, []any{ledger.Provider, int64(3), int64(1_000_000)}, []any{all[1].Source, all[1].Uncached, all[1].Output})
}

// Usage is asked for in every stream that somebody pays for, whatever the client says.
func TestUsageIsAlwaysAskedFor(t *testing.T) {
	t.Parallel()
	var at seen
	m := newMetered(t, nil, kvsteer.TenancyOptions{}, worker{serve: prompts(at.serve(whole))})
	for _, options := range []string{`{"include_usage":"false"}`, `{"include_usage":false}`, `{"continuous_usage_stats":true}`, `{}`, `null`} {
		m.as("a", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":`+options+`}`)
		sent, _ := at.last(t)
		assert.Contains(t, sent, `"include_usage":true`, options)
	}
}

// broken is a policy that panics.
type broken struct{}

func (broken) Evaluate(*policy.Request, []policy.Candidate, *policy.Plan) { panic("broken") }

func TestPanicsGiveBack(t *testing.T) {
	t.Parallel()
	limits, err := quota.New(quota.Options{Rules: []quota.Rule{{Name: "n", Scope: quota.Everybody, Concurrency: 1}}})
	require.NoError(t, err)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithPolicy(broken{}), kvsteer.WithTenancy(kvsteer.TenancyOptions{Limits: limits}),
	}}, worker{serve: prompts(whole)})
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/v1/score", strings.NewReader(`{"model":"m"}`))
		require.NoError(t, err)
		assert.Panics(t, func() { _, _ = r.router.Place(&kvsteer.Forward{HTTP: req, Body: []byte(`{"model":"m"}`)}) })
		assert.Panics(t, func() { _, _ = r.router.Select(t.Context(), chatRequest("x", false)) })
		assert.Zero(t, limits.Totals().Running)
	}
}

func TestForwardedRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	m := newMetered(t, nil, kvsteer.TenancyOptions{RefuseUnrecorded: true}, worker{serve: prompts(whole)})
	require.Equal(t, http.StatusOK, m.as("a", "/v1/score", `{"model":"m"}`).status)
	m.balanced()
	all := m.book.take()
	assert.Equal(t, []any{ledger.Reserved, ledger.Settled, "alice", "s0", all[0].ID}, []any{all[0].State, all[1].State, all[1].Tenant, all[1].Worker, all[1].ID})
	m.book.full = true
	require.Equal(t, http.StatusServiceUnavailable, m.as("a", "/v1/score", `{"model":"m"}`).status)
	require.Equal(t, http.StatusServiceUnavailable, m.as("a", "/v1/chat/completions", chatBody("x", false)).status)
	assert.Len(t, m.observed.rejections(), 1, "hooks hear of it")
	m.balanced()
}
