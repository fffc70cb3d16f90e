package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const (
	openAIError    = `{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`
	anthropicError = `{"type":"error","error":{"type":%q,"message":%q}}`
)

// Which class an error has, what the client sees of it, and whether the provider is left
// alone for it.
func TestFailures(t *testing.T) {
	oai := func(message, kind, code string) string { return fmt.Sprintf(openAIError, message, kind, code) }
	ant := func(kind, message string) string { return fmt.Sprintf(anthropicError, kind, message) }
	for name, c := range map[string]struct {
		kind     Kind
		status   int
		body     string
		class    Class
		client   int    // the client's status
		says     string // "" for the provider's own body
		standing string // "" for ready
	}{
		"OpenAI 400":          {OpenAI{}, 400, oai("bad", "invalid_request_error", "x"), ClassRequest, 400, "", ""},
		"OpenAI 422":          {OpenAI{}, 422, `{"detail":"x"}`, ClassRequest, 422, "", ""},
		"OpenAI context":      {OpenAI{}, 400, oai("This model's maximum context length is 10 tokens", "invalid_request_error", "context_length_exceeded"), ClassContext, 400, "", ""},
		"OpenAI content":      {OpenAI{}, 400, oai("filtered", "invalid_request_error", "content_policy_violation"), ClassContent, 400, "", ""},
		"Azure content":       {AzureOpenAI{}, 400, oai("filtered", "", "content_filter"), ClassContent, 400, "", ""},
		"OpenAI 401":          {OpenAI{}, 401, oai("Incorrect API key provided: sk-abc", "invalid_request_error", "invalid_api_key"), ClassAuth, 502, dialect.SayAuth, whyAuth},
		"OpenAI 403":          {OpenAI{}, 403, oai("Project proj_1 may not", "x", "y"), ClassAuth, 502, dialect.SayAuth, ""},
		"OpenAI 404":          {OpenAI{}, 404, oai("The model theirs does not exist", "invalid_request_error", "model_not_found"), ClassModel, 404, dialect.SayModel, ""},
		"OpenAI 408":          {OpenAI{}, 408, ``, ClassTimeout, 408, "", ""},
		"OpenAI 413":          {OpenAI{}, 413, ``, ClassContext, 413, "", ""},
		"OpenAI 429":          {OpenAI{}, 429, oai("Rate limit in organization org-1", "tokens", "rate_limit_exceeded"), ClassRateLimited, 429, dialect.SayRate, whyRate},
		"OpenAI, no money":    {OpenAI{}, 429, oai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), ClassQuota, 503, dialect.SayQuota, whyQuota},
		"OpenAI 500":          {OpenAI{}, 500, `oops`, ClassServer, 500, "", ""},
		"OpenAI 503":          {OpenAI{}, 503, oai("overloaded", "server_error", ""), ClassOverloaded, 503, "", ""},
		"OpenAI 504":          {OpenAI{}, 504, ``, ClassTimeout, 504, "", ""},
		"OpenAI, redirect":    {OpenAI{}, 307, ``, ClassServer, 502, sayMoved, ""},
		"Gemini, a list":      {Gemini{}, 429, `[{"error":{"code":429,"message":"q","status":"RESOURCE_EXHAUSTED"}}]`, ClassRateLimited, 429, dialect.SayRate, whyRate},
		"Anthropic 400":       {Anthropic{}, 400, ant("invalid_request_error", "bad"), ClassRequest, 400, "", ""},
		"Anthropic context":   {Anthropic{}, 400, ant("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ClassContext, 400, "", ""},
		"Anthropic, no money": {Anthropic{}, 400, ant("invalid_request_error", "Your credit balance is too low to access the API."), ClassQuota, 503, dialect.SayQuota, whyQuota},
		"Anthropic 401":       {Anthropic{}, 401, ant("authentication_error", "invalid x-api-key"), ClassAuth, 502, dialect.SayAuth, whyAuth},
		"Anthropic 403":       {Anthropic{}, 403, ant("permission_error", "no"), ClassAuth, 502, dialect.SayAuth, ""},
		"Anthropic 404":       {Anthropic{}, 404, ant("not_found_error", "model: theirs"), ClassModel, 404, dialect.SayModel, ""},
		"Anthropic 413":       {Anthropic{}, 413, ant("request_too_large", "x"), ClassContext, 413, "", ""},
		"Anthropic 429":       {Anthropic{}, 429, ant("rate_limit_error", "Your organization org-1 has"), ClassRateLimited, 429, dialect.SayRate, whyRate},
		"Anthropic 500":       {Anthropic{}, 500, ant("api_error", "x"), ClassServer, 500, "", ""},
		"Anthropic 529":       {Anthropic{}, 529, ant("overloaded_error", "Overloaded"), ClassOverloaded, 529, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			svc := serve(t, says(c.status, c.body, "Location", "https://elsewhere.test/"))
			o := oneOffer(t, c.kind, svc.URL, clocked(clock), func(p *Provider, _ *Options) { p.Credentials = Static("k") })
			api := prompt.Chat
			if _, ok := c.kind.(Anthropic); ok {
				api = prompt.Messages
			}
			resp, text := send(t, o, Exchange{API: api}, `{"model":"ours"}`)
			f := failureOf(t, resp)
			assert.Equal(t, c.class, f.Class, c.class.String()+" against "+f.Class.String())
			assert.Equal(t, c.status, f.Status)
			assert.Equal(t, c.client, resp.StatusCode)
			assert.Equal(t, fmt.Sprint(len(text)), resp.Header.Get("Content-Length"))
			assert.Empty(t, resp.Header.Get("Location"))
			if c.says == "" {
				assert.Equal(t, c.body, text)
			} else {
				var e struct {
					Type  string
					Error struct{ Message, Type string }
				}
				require.NoError(t, json.Unmarshal([]byte(text), &e), text)
				assert.Equal(t, c.says, e.Error.Message)
				assert.Equal(t, api == prompt.Messages, e.Type == "error", "in the client's own form: %s", text)
			}
			st := o.Standing(clock.now())
			assert.Equal(t, c.standing, st.Reason)
			if c.class == ClassRateLimited || c.class == ClassQuota {
				assert.NotEmpty(t, resp.Header.Get("Retry-After"))
				assert.Equal(t, st.RetryAfter, f.RetryAfter)
			}
			if c.class == ClassAuth {
				assert.False(t, c.class.FallsBack())
			}
			// In the other API, the client is told in its own form.
			if api == prompt.Messages {
				api = prompt.Chat
			} else {
				api = prompt.Messages
			}
			other := oneOffer(t, c.kind, svc.URL, clocked(clock))
			resp, text = send(t, other, Exchange{API: api},
				`{"model":"ours","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`)
			assert.Equal(t, c.class, failureOf(t, resp).Class)
			var e struct {
				Type  string
				Error struct{ Message, Type string }
			}
			require.NoError(t, json.Unmarshal([]byte(text), &e), text)
			assert.Equal(t, api == prompt.Messages, e.Type == "error")
			assert.NotEmpty(t, e.Error.Message)
			assert.GreaterOrEqual(t, resp.StatusCode, 400)
			for _, secret := range []string{"org-1", "sk-abc", "proj_1", "elsewhere"} {
				assert.NotContains(t, text, secret)
			}
		})
	}
}

func TestClassesThatFallBack(t *testing.T) {
	never := map[Class]bool{0: true, ClassContent: true, ClassAuth: true, ClassRequest: true, 99: true}
	for c := range Class(100) {
		if c > ClassUnsupported && c != 99 {
			continue
		}
		assert.Equal(t, !never[c], c.FallsBack(), c.String())
	}
	assert.Equal(t, "unknown", Class(99).String())
	assert.Equal(t, "rate_limited", ClassRateLimited.String())
	assert.Equal(t, "unsupported", ClassUnsupported.String())
}

// A stream can fail after it began: that counts, and passes to the client.
func TestErrorsWithinStreams(t *testing.T) {
	for name, c := range map[string]struct {
		kind Kind
		api  prompt.API
		body string
		why  string
	}{
		"OpenAI":                {OpenAI{}, prompt.Chat, "data: {\"model\":\"theirs\"}\n\ndata: {\"error\":{\"message\":\"x\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n", whyRate},
		"Anthropic":             {Anthropic{}, prompt.Messages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n", whyRate},
		"Anthropic, translated": {Anthropic{}, prompt.Chat, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n", whyRate},
	} {
		t.Run(name, func(t *testing.T) {
			svc := serve(t, says(http.StatusOK, c.body, "Content-Type", "text/event-stream"))
			o := oneOffer(t, c.kind, svc.URL)
			_, text := send(t, o, Exchange{API: c.api}, `{"model":"ours","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`)
			assert.Contains(t, text, `"error"`)
			assert.Equal(t, c.why, o.Standing(time.Now()).Reason)
		})
	}
}

// Nothing that is secret (a prompt, a credential, what a provider says) is in a log, an
// error or a change of state.
func TestNothingSecretIsTold(t *testing.T) {
	const canary = "CANARY-7f3a"
	var logs bytes.Buffer
	var told []string
	o := Options{
		Logger:  slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnState: func(c StateChange) { told = append(told, fmt.Sprintf("%+v", c)) },
	}
	body := `{"model":"ours","messages":[{"role":"user","content":"` + canary + `"}],"max_tokens":7}`
	var errs []string
	for _, status := range []int{200, 302, 400, 401, 403, 404, 413, 429, 500, 503, 529} {
		svc := serve(t, says(status, `{"error":{"message":"`+canary+`","code":"`+canary+`"}}`, "Retry-After", canary, "X-Canary", canary))
		for _, kind := range []Kind{OpenAI{}, Anthropic{}, AzureOpenAI{APIVersion: "v"}} {
			set := newSet(t, o, Provider{Name: "p", Kind: kind, URL: svc.URL, Credentials: Static(canary), Models: []Model{{Name: "ours"}}})
			offer := set.Offers("ours")[0]
			for _, api := range []prompt.API{prompt.Chat, prompt.Messages} {
				for range failuresInRow {
					resp, err := offer.RoundTripper(nil, Exchange{API: api}).RoundTrip(newRequest(t, t.Context(), api, body))
					if err != nil {
						errs = append(errs, fmt.Sprintf("%v %+v %#v", err, err, err))
						continue
					}
					assert.NotContains(t, fmt.Sprint(resp.Header), canary)
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
				assert.NotContains(t, fmt.Sprintf(verb, offer.from), canary, verb)
				assert.NotContains(t, fmt.Sprintf(verb, offer.from.Credentials), canary, verb)
			}
		}
	}
	_, err := New([]Provider{{Name: "p", Kind: OpenAI{}, URL: "https://" + canary + ":" + canary + "@x.test", Credentials: Static(canary + "\n")}}, Options{})
	require.Error(t, err)
	errs = append(errs, err.Error())
	j, err := json.Marshal(NewCredential(canary))
	require.NoError(t, err)
	errs = append(errs, string(j), NewCredential(canary).String(), NewCredential(canary).GoString(), fmt.Sprintf("%x", NewCredential(canary)))
	assert.NotEmpty(t, told)
	assert.NotEmpty(t, logs.String())
	for _, text := range append(append(errs, told...), logs.String()) {
		assert.NotContains(t, text, canary)
		assert.NotContains(t, text, fmt.Sprintf("%x", canary))
	}
}

// A credential that is refused closes the provider, for all its models, and for a minute;
// another one opens it at once.
func TestRefusedCredentials(t *testing.T) {
	clock := newClock()
	var key atomic.Value
	key.Store("old")
	svc := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			says(http.StatusUnauthorized, `{"error":{"code":"invalid_api_key"}}`)(w, r)
			return
		}
		says(http.StatusOK, `{}`)(w, r)
	})
	set := newSet(t, Options{Now: clock.now}, Provider{
		Name: "p", Kind: OpenAI{}, URL: svc.URL, Models: []Model{{Name: "ours"}, {Name: "other"}},
		Credentials: CredentialSource(&rotating{&key}),
	})
	o, other := set.Offers("ours")[0], set.Offers("other")[0]
	resp, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.Equal(t, ClassAuth, failureOf(t, resp).Class)
	for _, o := range []*Offer{o, other} {
		st := o.Standing(clock.now())
		assert.Equal(t, whyAuth, st.Reason)
		assert.Equal(t, authPause, st.RetryAfter)
	}
	assert.True(t, o.Standing(clock.add(authPause)).Ready)

	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	require.False(t, o.Standing(clock.now()).Ready)
	key.Store("new")
	resp, _ = send(t, o, Exchange{API: chat}, `{"model":"ours"}`) // whoever doesn't ask
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.True(t, other.Standing(clock.now()).Ready)
}

type rotating struct{ key *atomic.Value }

func (r *rotating) Credential(context.Context) (Credential, error) {
	return NewCredential(r.key.Load().(string)), nil
}

// An error's body of any length is read within bounds.
func TestLongErrorBody(t *testing.T) {
	svc := serve(t, says(http.StatusInternalServerError, strings.Repeat("x", 3*maxErrorBody)))
	resp, text := send(t, oneOffer(t, OpenAI{}, svc.URL), Exchange{API: chat}, `{"model":"ours"}`)
	assert.Len(t, text, maxErrorBody)
	assert.Equal(t, int64(maxErrorBody), resp.ContentLength)
}
