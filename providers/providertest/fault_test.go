package providertest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// Each fault has the status and the words of its service.
func TestFaults(t *testing.T) {
	type row struct {
		status int
		word   any
	}
	const invalid = "invalid_request_error"
	want := map[providertest.Dialect]map[providertest.Fault]row{
		providertest.OpenAI: { // error.code, or error.type where there is none
			providertest.RateLimited: {429, "rate_limit_exceeded"}, providertest.QuotaExhausted: {429, "insufficient_quota"},
			providertest.Overloaded: {503, "server_error"}, providertest.ServerError: {500, "server_error"},
			providertest.GatewayTimeout: {504, "server_error"}, providertest.ContextTooLong: {400, "context_length_exceeded"},
			providertest.ContentFiltered: {400, "content_policy_violation"}, providertest.BadKey: {401, "invalid_api_key"},
			providertest.Forbidden: {403, "model_not_found"}, providertest.UnknownModel: {404, "model_not_found"},
			providertest.BadRequest: {400, invalid}, providertest.TooLarge: {413, invalid},
		},
		providertest.AzureOpenAI: {
			providertest.RateLimited: {429, "429"}, providertest.QuotaExhausted: {429, "insufficient_quota"},
			providertest.Overloaded: {503, "server_error"}, providertest.ServerError: {500, "server_error"},
			providertest.GatewayTimeout: {504, "server_error"}, providertest.ContextTooLong: {400, "context_length_exceeded"},
			providertest.ContentFiltered: {400, "content_filter"}, providertest.BadKey: {401, "401"},
			providertest.Forbidden: {403, "model_not_found"}, providertest.UnknownModel: {404, "DeploymentNotFound"},
			providertest.BadRequest: {400, invalid}, providertest.TooLarge: {413, invalid},
		},
		providertest.Gemini: { // error.status
			providertest.RateLimited: {429, "RESOURCE_EXHAUSTED"}, providertest.QuotaExhausted: {429, "RESOURCE_EXHAUSTED"},
			providertest.Overloaded: {503, "UNAVAILABLE"}, providertest.ServerError: {500, "INTERNAL"},
			providertest.GatewayTimeout: {504, "DEADLINE_EXCEEDED"}, providertest.ContextTooLong: {400, "INVALID_ARGUMENT"},
			providertest.ContentFiltered: {400, "INVALID_ARGUMENT"}, providertest.BadKey: {400, "INVALID_ARGUMENT"},
			providertest.Forbidden: {403, "PERMISSION_DENIED"}, providertest.UnknownModel: {404, "NOT_FOUND"},
			providertest.BadRequest: {400, "INVALID_ARGUMENT"}, providertest.TooLarge: {413, "INVALID_ARGUMENT"},
		},
		providertest.Anthropic: { // error.type
			providertest.RateLimited: {429, "rate_limit_error"}, providertest.QuotaExhausted: {400, invalid},
			providertest.Overloaded: {529, "overloaded_error"}, providertest.ServerError: {500, "api_error"},
			providertest.GatewayTimeout: {504, "timeout_error"}, providertest.ContextTooLong: {400, invalid},
			providertest.ContentFiltered: {400, invalid}, providertest.BadKey: {401, "authentication_error"},
			providertest.Forbidden: {403, "permission_error"}, providertest.UnknownModel: {404, "not_found_error"},
			providertest.BadRequest: {400, invalid}, providertest.TooLarge: {413, "request_too_large"},
		},
	}
	for d, rows := range want {
		s := start(t, d, providertest.Options{})
		url, body := s.BaseURL()+"/chat/completions", `{"model":"m","messages":`+hello+`}`
		if d == providertest.Anthropic {
			url, body = s.URL()+claude, claudeBody(hello, "")
		}
		for _, f := range providertest.Faults() {
			t.Run(fmt.Sprintf("%v %v", d, f), func(t *testing.T) {
				s.Script(providertest.Answer{Fault: f, RetryAfter: 1500 * time.Millisecond})
				status, h, answer := ask(t, url, body)
				if f == providertest.BadGateway {
					require.Equal(t, []any{502, "text/html"}, []any{status, h.Get("Content-Type")})
					require.Contains(t, answer, "<html>")
					return
				}
				require.Equal(t, []any{rows[f].status, "application/json"}, []any{status, h.Get("Content-Type")}, answer)
				switch d {
				case providertest.Gemini:
					o := parse(t, strings.TrimSuffix(strings.TrimPrefix(answer, "["), "]"))
					require.Equal(t, []any{rows[f].word, "2s"}, []any{at(o, "error", "status"), at(o, "error", "details", 0, "retryDelay")})
				case providertest.Anthropic:
					require.Equal(t, []any{rows[f].word, "2"}, []any{at(parse(t, answer), "error", "type"), h.Get("Retry-After")})
				default:
					word := at(parse(t, answer), "error", "code")
					if word == nil {
						word = at(parse(t, answer), "error", "type")
					}
					require.Equal(t, []any{rows[f].word, "2", "1500"}, []any{word, h.Get("Retry-After"), h.Get("Retry-After-Ms")})
				}
				require.Equal(t, status, s.Last().Status)
				require.Empty(t, s.Last().Problem, "a script asked for it")
			})
		}
	}
}

func TestCredentials(t *testing.T) {
	for d, c := range map[providertest.Dialect]struct{ header, value string }{
		providertest.OpenAI: {"Authorization", "Bearer key"}, providertest.Gemini: {"Authorization", "Bearer key"},
		providertest.AzureOpenAI: {"Api-Key", "key"}, providertest.Anthropic: {"X-Api-Key", "key"},
	} {
		s := start(t, d, providertest.Options{Key: "key"})
		url, body := s.BaseURL()+"/chat/completions", `{"model":"m","messages":`+hello+`}`
		if d == providertest.Anthropic {
			url, body = s.URL()+claude, claudeBody(hello, "")
		}
		status, _, _ := ask(t, url, body, c.header, c.value)
		require.Equal(t, 200, status, d)
		status, _, answer := ask(t, url, body)
		require.Contains(t, []int{400, 401}, status, d)
		require.NotContains(t, answer, "key\"")
		status, _, answer = ask(t, url, body, c.header, c.value+"2")
		require.Contains(t, []int{400, 401}, status, d)
		require.NotContains(t, answer, "key2")
		s.SetKey("key2")
		status, _, _ = ask(t, url, body, c.header, c.value+"2")
		require.Equal(t, 200, status, d)
	}
}

func TestAzurePaths(t *testing.T) {
	s := start(t, providertest.AzureOpenAI, providertest.Options{Models: []string{"d1"}})
	body := `{"model":"whatever","messages":` + hello + `}`
	status, _, answer := ask(t, s.URL()+"/openai/deployments/d1/chat/completions?api-version=2024-10-21", body)
	require.Equal(t, 200, status, answer)
	require.Equal(t, "d1", s.Last().Model)
	status, _, _ = ask(t, s.URL()+"/openai/deployments/d1/chat/completions", body)
	require.Equal(t, 404, status, "no version")
	status, _, answer = ask(t, s.URL()+"/openai/deployments/d2/chat/completions?api-version=2024-10-21", body)
	require.Equal(t, []any{404, "DeploymentNotFound"}, []any{status, at(parse(t, answer), "error", "code")})
	status, _, _ = ask(t, s.URL()+"/openai/v1/chat/completions", `{"model":"d1","messages":`+hello+`}`)
	require.Equal(t, 200, status)
	status, _, _ = ask(t, s.URL()+"/v1/chat/completions", body)
	require.Equal(t, 404, status)
	s = start(t, providertest.OpenAI, providertest.Options{Prefix: "/serving-endpoints"})
	status, _, _ = ask(t, s.URL()+"/serving-endpoints/chat/completions", body)
	require.Equal(t, 200, status)
}

// What is left is said in the dialect's headers; what is over the limit is refused until
// the window is over.
func TestLimits(t *testing.T) {
	for d, c := range map[providertest.Dialect]struct{ requests, tokens, reset string }{
		providertest.OpenAI:    {"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Requests"},
		providertest.Anthropic: {"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	} {
		s := start(t, d, providertest.Options{Limit: providertest.Limit{Requests: 3, Tokens: 7, Per: time.Hour}})
		url, body := s.BaseURL()+"/chat/completions", `{"model":"m","messages":`+hello+`}`
		if d == providertest.Anthropic {
			url, body = s.URL()+claude, claudeBody(hello, "")
		}
		for i, want := range []struct {
			status           int
			requests, tokens string
		}{{200, "2", "4"}, {200, "1", "1"}, {429, "1", "1"}} {
			status, h, answer := ask(t, url, body)
			require.Equal(t, []any{want.status, want.requests, want.tokens}, []any{status, h.Get(c.requests), h.Get(c.tokens)}, "%v %d: %s", d, i, answer)
			require.NotEmpty(t, h.Get(c.reset))
			if status == 429 {
				require.NotEmpty(t, h.Get("Retry-After"))
			}
			if d == providertest.OpenAI {
				_, err := time.ParseDuration(h.Get(c.reset))
				require.NoError(t, err)
			} else {
				_, err := time.Parse(time.RFC3339, h.Get(c.reset))
				require.NoError(t, err)
			}
		}
		require.Equal(t, 1, s.Refused())
		s.SetLimit(providertest.Limit{Requests: 1, Silent: true})
		status, h, _ := ask(t, url, body)
		require.Equal(t, []any{200, ""}, []any{status, h.Get(c.requests)})
	}
}

// Of a storm as many pass as may.
func TestStorm(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{Limit: providertest.Limit{Requests: 5, Per: time.Hour}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for range 40 {
		wg.Go(func() {
			status, _, _ := ask(t, s.URL()+chat, `{"model":"m","messages":`+hello+`}`)
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
		})
	}
	wg.Wait()
	require.Equal(t, map[int]int{200: 5, 429: 35}, counts)
	require.Equal(t, 35, s.Refused())
	require.Len(t, s.Requests(), 40)
	now, most := s.InFlight()
	require.Zero(t, now)
	require.Positive(t, most)
}

// stream posts for a stream and reads until its end or its break.
func stream(t *testing.T, s *providertest.Server, path, body string) (text string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := client(t).Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

func TestDeaths(t *testing.T) {
	chatBody := `{"model":"m","stream":true,"messages":` + hello + `}`
	for name, c := range map[string]struct {
		a      providertest.Answer
		events int // -1: no answer
		broken bool
	}{
		"before an answer":    {providertest.Answer{Fault: providertest.Hangup}, -1, true},
		"before an event":     {providertest.Answer{Frames: providertest.Frames{DieAt: 1}}, 0, true},
		"after two":           {providertest.Answer{Frames: providertest.Frames{DieAt: 3}}, 2, true},
		"in the second":       {providertest.Answer{Frames: providertest.Frames{DieWithin: 2}}, 1, true},
		"no end":              {providertest.Answer{Frames: providertest.Frames{NoDone: true}}, 5, false},
		"an error, the third": {providertest.Answer{Frames: providertest.Frames{FailAt: 3, Fault: providertest.Overloaded}}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			c.a.Text = "one two three"
			s := start(t, providertest.OpenAI, providertest.Options{}, c.a)
			got, err := stream(t, s, chat, chatBody)
			require.Equal(t, c.broken, err != nil, "%v", err)
			if c.events >= 0 {
				require.Equal(t, c.events, strings.Count(got, "\n\n"), got)
			}
			require.NotContains(t, got, "[DONE]")
			if c.a.Frames.FailAt > 0 {
				require.Contains(t, got, `"error":{`)
			}
		})
	}
	s := start(t, providertest.Anthropic, providertest.Options{}, providertest.Answer{Text: "x", Frames: providertest.Frames{
		FailAt: 3, Fault: providertest.Overloaded,
	}})
	got, err := stream(t, s, claude, claudeBody(hello, `,"stream":true`))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(got, "event: error\ndata: "+`{"error":{"message":"Overloaded","type":"overloaded_error"},"type":"error"}`+"\n\n"), got)
}

// Close ends what hangs and what stalls, and waits.
func TestCloseWaits(t *testing.T) {
	for name, a := range map[string]providertest.Answer{
		"hang": {Fault: providertest.Hang}, "stall": {Text: "a b c", Frames: providertest.Frames{StallAt: 2}},
		"slow": {Text: "a b c", Pace: time.Hour}, "late": {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			s, err := providertest.Start(providertest.OpenAI, providertest.Options{})
			require.NoError(t, err)
			s.Script(a)
			done := make(chan error, 1)
			go func() {
				_, err := stream(t, s, chat, `{"model":"m","stream":true,"messages":`+hello+`}`)
				done <- err
			}()
			require.Eventually(t, func() bool { now, _ := s.InFlight(); return now == 1 }, 30*time.Second, time.Millisecond)
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
			require.Error(t, <-done)
			now, _ := s.InFlight()
			require.Zero(t, now)
		})
	}
}

// A client that leaves frees its place.
func TestAClientLeaves(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{}, providertest.Answer{Text: "a b", Frames: providertest.Frames{StallAt: 2}})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+chat, strings.NewReader(`{"model":"m","stream":true,"messages":`+hello+`}`))
	require.NoError(t, err)
	resp, err := client(t).Do(r)
	require.NoError(t, err)
	buf := make([]byte, 16)
	_, err = io.ReadFull(resp.Body, buf)
	require.NoError(t, err)
	leave()
	_ = resp.Body.Close()
	require.Eventually(t, func() bool { now, _ := s.InFlight(); return now == 0 }, 30*time.Second, time.Millisecond)
}

// Delays pass in virtual time.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := newPipe()
		s := start(t, providertest.OpenAI, providertest.Options{Listener: pipe, URL: "http://fake"},
			providertest.Answer{Text: "one two", Delay: time.Minute, Pace: time.Second})
		transport := &http.Transport{DialContext: pipe.dial}
		defer transport.CloseIdleConnections()
		begin := time.Now()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+chat, strings.NewReader(`{"model":"m","stream":true,"messages":`+hello+`}`))
		require.NoError(t, err)
		resp, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(begin))
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, time.Minute+5*time.Second, time.Since(begin), "the role, two words, the reason, the end")
	})
}

func TestOptions(t *testing.T) {
	for _, o := range []providertest.Options{{Prefix: "v1"}, {Limit: providertest.Limit{Requests: -1}}, {MaxBody: -1}} {
		_, err := providertest.Start(providertest.OpenAI, o)
		require.Error(t, err)
	}
	_, err := providertest.Start(9, providertest.Options{})
	require.ErrorContains(t, err, "dialect 9")

	s := start(t, providertest.OpenAI, providertest.Options{
		MaxBody: 100,
		Reply:   func(r *providertest.Request) providertest.Answer { return providertest.Answer{Text: "re: " + r.Model} },
	})
	_, _, body := ask(t, s.URL()+chat, `{"model":"m","messages":`+hello+`}`, "X-Test", "1")
	require.Equal(t, "re: m", at(parse(t, body), "choices", 0, "message", "content"))
	require.Equal(t, "1", s.Last().Header.Get("X-Test"))
	require.JSONEq(t, `{"model":"m","messages":`+hello+`}`, string(s.Last().Body))
	status, _, _ := ask(t, s.URL()+chat, `{"model":"`+strings.Repeat("m", 100)+`"}`)
	require.Equal(t, 413, status)
	s.Script(providertest.Answer{Status: 418, Body: []byte("teapot"), Header: http.Header{"x-a": {"b"}}})
	assert.Equal(t, 1, s.Left())
	status, h, body := ask(t, s.URL()+chat, `{"model":"m","messages":`+hello+`}`)
	require.Equal(t, []any{418, "teapot", "b"}, []any{status, body, h.Get("X-A")})
	require.Zero(t, s.Left())
	s.Forget()
	require.Empty(t, s.Requests())
	require.Zero(t, s.Last().Status)
}

// Close returns when the last request is answered, and not before.
func TestCloseWaitsForReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := newPipe()
		gate, closed := make(chan struct{}), make(chan struct{})
		s, err := providertest.Start(providertest.OpenAI, providertest.Options{
			Listener: pipe, URL: "http://fake",
			Reply: func(*providertest.Request) providertest.Answer { <-gate; return providertest.Answer{Text: "late"} },
		})
		require.NoError(t, err)
		transport := &http.Transport{DialContext: pipe.dial}
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+chat, strings.NewReader(`{"model":"m","messages":`+hello+`}`))
			if err != nil {
				return
			}
			if resp, err := transport.RoundTrip(r); err == nil {
				_ = resp.Body.Close()
			}
		}()
		synctest.Wait()
		go func() { defer close(closed); _ = s.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait")
		default:
		}
		close(gate)
		<-closed
		transport.CloseIdleConnections()
	})
}
