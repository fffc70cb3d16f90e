package providers

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Services quote the client's own values in their errors. Whatever words it chose, it gets
// its own error, and closes the provider for nobody.
func TestClientsCloseNothingByWhatIsQuoted(t *testing.T) {
	for _, words := range []string{
		"Your credit balance is too low", "credit balance", "You have reached your specified API usage limits", "usage limits",
		"This organization has been disabled", "organization has been disabled", "API key not valid", "API key expired",
		"Invalid access token", "content filtering policy", "PROHIBITED_CONTENT", "maximum context length",
	} {
		class := ClassRequest
		switch words { // these concern a client's own request only
		case "content filtering policy", "PROHIBITED_CONTENT":
			class = ClassContent
		case "maximum context length":
			class = ClassContext
		default:
		}
		for _, message := range []string{
			"tools.0: Input tag '" + words + "' found using 'type' does not match any of the expected tags",
			"Invalid value: '" + words + "'. Supported values are: 'a'.",
			words + ": Extra inputs are not permitted",
		} {
			for kind, body := range map[Kind]string{
				Anthropic{}: fmt.Sprintf(anthropicError, "invalid_request_error", message),
				OpenAI{}:    fmt.Sprintf(openAIError, message, "invalid_request_error", "invalid_value"),
				Gemini{}:    fmt.Sprintf(`[{"error":{"code":400,"message":%q,"status":"INVALID_ARGUMENT"}}]`, message),
			} {
				svc := serve(t, says(http.StatusBadRequest, body))
				clock := newClock()
				o := oneOffer(t, kind, svc.URL, clocked(clock), func(p *Provider, _ *Options) { p.Credentials = Static("k") })
				for _, api := range []prompt.API{prompt.Chat, prompt.Messages} { // as it is, and translated
					for range failuresInRow {
						resp, _ := send(t, o, Exchange{API: api}, `{"model":"ours","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`)
						f := failureOf(t, resp)
						if class == ClassRequest {
							require.Equal(t, class, f.Class, "%v: %s", kind, message)
						} else { // not each service has these
							require.Contains(t, []Class{ClassRequest, class}, f.Class, "%v: %s", kind, message)
						}
						require.Zero(t, f.RetryAfter)
					}
				}
				st := o.Standing(clock.now())
				assert.True(t, st.Ready, "%v: %s: %s", kind, message, st.Reason)
				assert.Equal(t, BreakerClosed, st.Breaker)
			}
		}
	}
}

// The words themselves, as the service says them, do close it.
func TestServicesCloseThemselves(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		status int
		body   string
		why    string
	}{
		{Anthropic{}, 400, fmt.Sprintf(anthropicError, "invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."), whyQuota},
		{Anthropic{}, 400, fmt.Sprintf(anthropicError, "invalid_request_error", "This organization has been disabled."), whyAuth},
		{Anthropic{}, 401, fmt.Sprintf(anthropicError, "invalid_request_error", "x"), whyAuth},
		{Anthropic{}, 402, fmt.Sprintf(anthropicError, "invalid_request_error", "x"), whyQuota},
		{Gemini{}, 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, whyAuth},
		{OpenAI{}, 403, `{"error_code":"403","message":"Invalid access token. [TraceId: 1]"}`, whyAuth},
	} {
		svc := serve(t, says(c.status, c.body))
		clock := newClock()
		o := oneOffer(t, c.kind, svc.URL, clocked(clock), func(p *Provider, _ *Options) { p.Credentials = Static("k") })
		send(t, o, Exchange{API: chat}, `{"model":"ours","messages":[{"role":"user","content":"hi"}]}`)
		st := o.Standing(clock.now())
		assert.False(t, st.Ready, c.body)
		assert.Equal(t, c.why, st.Reason, c.body)
	}
}

// A path that the kind has no endpoint for is one that the client chose: that says nothing
// of how the provider serves.
func TestPathsWithoutEndpoint(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{}`))
	clock := newClock()
	o := oneOffer(t, modelsOnly{}, svc.URL, clocked(clock))
	for range 2 * window {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://g.test/v1/moderations", strings.NewReader(`{"model":"ours"}`))
		require.NoError(t, err)
		no := fails(t, o, Exchange{}, r)
		require.Equal(t, ClassUnsupported, no.Class)
		require.Equal(t, whyPath, no.Message)
	}
	assert.Zero(t, svc.count())
	st := o.Standing(clock.now())
	assert.True(t, st.Ready, st.Reason)
	assert.Equal(t, BreakerClosed, st.Breaker)
}

type modelsOnly struct{ OpenAI }

func (k modelsOnly) Endpoint(base *url.URL, t *Target) (*url.URL, error) {
	if t.API == 0 {
		return nil, errors.New("there are models only")
	}
	return k.OpenAI.Endpoint(base, t)
}
