package bedrock

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/bedrock/bedrocktest"
)

const haiku = "eu.anthropic.claude-haiku-4-5-20251001-v1:0"

// offerAt is a model at the fake.
func offerAt(t *testing.T, p providers.Provider, upstream string) *providers.Offer {
	t.Helper()
	p.Name = "bedrock"
	return offerWith(t, p, upstream, providers.Options{})
}

func offerWith(t *testing.T, p providers.Provider, upstream string, o providers.Options) *providers.Offer {
	t.Helper()
	p.Models = []providers.Model{{Name: "m", Upstream: upstream}}
	set, err := providers.New([]providers.Provider{p}, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	offers := set.Offers("m")
	require.Len(t, offers, 1)
	return offers[0]
}

func signed(s *bedrocktest.Server) providers.Provider {
	keys := bedrocktest.DefaultCredentials()
	return providers.Provider{URL: s.URL(), Kind: New(Options{
		Region: bedrocktest.DefaultRegion, Credentials: StaticKeys(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken),
	})}
}

func base(t *testing.T) http.RoundTripper {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

type result struct {
	resp *http.Response
	body string
	err  error
}

func ask(t *testing.T, o *providers.Offer, api prompt.API, body string) result {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.example"+api.Path(), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer client-secret")
	resp, err := o.RoundTripper(base(t), providers.Exchange{API: api, Asked: "asked"}).RoundTrip(req)
	if err != nil {
		return result{err: err}
	}
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return result{resp, string(text), err}
}

func TestRoundTrip(t *testing.T) {
	answer := bedrocktest.Answer{
		Text:  "One moment.",
		Calls: []bedrocktest.Call{{ID: "t1", Name: "look", Input: `{"at":"Hé"}`}, {ID: "t2", Name: "look", Input: `{"at":2}`}},
		Usage: bedrocktest.Usage{Input: 5, Output: 7, CacheRead: 3, CacheWrite: 2, Cached: true},
	}
	tool := `{"name":"look","description":"looks","parameters":{"type":"object"}}`
	chat := `{"model":"asked","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Look."}],"tools":[{"type":"function","function":` + tool + `}]`
	for _, id := range theModels() {
		s := bedrocktest.New(t, bedrocktest.Options{}, answer, answer)
		o := offerAt(t, signed(s), id)
		got := ask(t, o, prompt.Chat, chat+`}`)
		require.NoError(t, got.err)
		require.Equal(t, http.StatusOK, got.resp.StatusCode, got.body)
		assert.Equal(t, id, s.Last().Model)
		assert.NotContains(t, s.Last().Header.Get("Authorization"), "client-secret")
		assert.JSONEq(t, `{"messages":[{"role":"user","content":[{"text":"Look."}]}],"system":[{"text":"Be brief."}],
			"toolConfig":{"tools":[{"toolSpec":{"name":"look","description":"looks","inputSchema":{"json":{"type":"object"}}}}]}}`, string(s.Last().Body))
		var whole struct {
			ID, Model string
			Choices   []struct {
				FinishReason string `json:"finish_reason"`
				Message      struct {
					Content   string
					ToolCalls []struct {
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
			Usage struct {
				PromptTokens  int `json:"prompt_tokens"`
				PromptDetails struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(got.body), &whole), got.body)
		assert.NotEmpty(t, whole.ID)
		assert.Equal(t, "asked", whole.Model)
		require.Len(t, whole.Choices, 1)
		assert.Equal(t, "tool_calls", whole.Choices[0].FinishReason)
		assert.Equal(t, "One moment.", whole.Choices[0].Message.Content)
		require.Len(t, whole.Choices[0].Message.ToolCalls, 2)
		assert.JSONEq(t, `{"at":"Hé"}`, whole.Choices[0].Message.ToolCalls[0].Function.Arguments)
		assert.Equal(t, 10, whole.Usage.PromptTokens)
		assert.Equal(t, 3, whole.Usage.PromptDetails.Cached)

		got = ask(t, o, prompt.Chat, chat+`,"stream":true,"stream_options":{"include_usage":true}}`)
		require.NoError(t, got.err)
		assert.True(t, s.Last().Stream)
		assert.Equal(t, "text/event-stream", got.resp.Header.Get("Content-Type"))
		assert.Contains(t, got.body, `"prompt_tokens":10`)
		assert.True(t, strings.HasSuffix(got.body, "data: [DONE]\n\n"), got.body)
	}
}

func TestRoundTripOfOtherAPIs(t *testing.T) {
	answer := bedrocktest.Answer{Thinking: "Hm.", Signature: "sig", Text: "Yes."}
	s := bedrocktest.New(t, bedrocktest.Options{}, answer, answer, answer, answer)
	o := offerAt(t, signed(s), haiku)

	messages := `{"model":"asked","max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[{"role":"user","content":"Well?"}]`
	got := ask(t, o, prompt.Messages, messages+`}`)
	require.NoError(t, got.err)
	assert.Contains(t, got.body, `"thinking":"Hm."`)
	assert.Contains(t, got.body, `"signature":"sig"`)
	assert.JSONEq(t, `{"messages":[{"role":"user","content":[{"text":"Well?"}]}],"inferenceConfig":{"maxTokens":5000},
		"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}}}`, string(s.Last().Body))
	got = ask(t, o, prompt.Messages, messages+`,"stream":true}`)
	require.NoError(t, got.err)
	assert.Contains(t, got.body, `"signature_delta"`)
	assert.Contains(t, got.body, "event: message_stop")

	responses := `{"model":"asked","input":"Well?"`
	got = ask(t, o, prompt.Responses, responses+`}`)
	require.NoError(t, got.err)
	assert.Contains(t, got.body, `"encrypted_content":"kvsteer-signature:sig"`)
	got = ask(t, o, prompt.Responses, responses+`,"stream":true}`)
	require.NoError(t, got.err)
	assert.Contains(t, got.body, "event: response.completed")

	got = ask(t, o, prompt.Embeddings, `{"model":"asked","input":"a"}`)
	var failed *providers.Error
	require.ErrorAs(t, got.err, &failed)
	assert.Equal(t, providers.ClassUnsupported, failed.Class)
}

func TestAPIKey(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{APIKey: "key-canary"})
	body := `{"model":"asked","messages":[{"role":"user","content":"a"}]}`
	p := providers.Provider{URL: s.URL(), Kind: New(Options{}), Credentials: providers.Static("key-canary")}
	got := ask(t, offerAt(t, p, haiku), prompt.Chat, body)
	require.NoError(t, got.err)
	assert.Equal(t, http.StatusOK, got.resp.StatusCode, got.body)

	p.Credentials = providers.Static("wrong-canary")
	got = ask(t, offerAt(t, p, haiku), prompt.Chat, body)
	require.NoError(t, got.err)
	assert.Equal(t, http.StatusBadGateway, got.resp.StatusCode)
	assert.NotContains(t, got.body, "canary")
	assert.NotContains(t, got.body, "API key")
}

// failureOf is what an answer's body says of it.
func failureOf(t *testing.T, o *providers.Offer, body string) *providers.Failure {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.example/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := o.RoundTripper(base(t), providers.Exchange{API: prompt.Chat, Asked: "asked"}).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	f, ok := resp.Body.(interface{ Failure() *providers.Failure })
	require.True(t, ok)
	return f.Failure()
}

func TestErrorsHaveClasses(t *testing.T) {
	for _, c := range []struct {
		status        int
		kind, message string
		want          providers.Class
	}{
		{429, "ThrottlingException", "Too many requests, please wait before trying again.", providers.ClassRateLimited},
		{429, "ThrottlingException", "Too many tokens per day, please wait before trying again.", providers.ClassQuota},
		{400, "ServiceQuotaExceededException", "quota", providers.ClassQuota},
		{408, "ModelTimeoutException", "timeout", providers.ClassTimeout},
		{503, "ServiceUnavailableException", "busy", providers.ClassOverloaded},
		{429, "ModelNotReadyException", "not ready", providers.ClassOverloaded},
		{500, "InternalServerException", "oh", providers.ClassServer},
		{424, "ModelErrorException", "oh", providers.ClassServer},
		{403, "AccessDeniedException", "User is not authorized to perform: bedrock:InvokeModel", providers.ClassAuth},
		{403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", providers.ClassModel},
		{403, "ExpiredTokenException", "The security token included in the request is expired", providers.ClassAuth},
		{404, "ResourceNotFoundException", "no", providers.ClassModel},
		{400, "ValidationException", "The provided model identifier is invalid.", providers.ClassModel},
		{400, "ValidationException", "Input is too long for requested model.", providers.ClassContext},
		{400, "ValidationException", "input length and `max_tokens` exceed context limit: 1 + 2 > 3", providers.ClassContext},
		{400, "ValidationException", "Output blocked by content filtering policy: content filter", providers.ClassContent},
		{400, "ValidationException", "Malformed input request", providers.ClassRequest},
		{502, "", "", providers.ClassServer},
		{418, "NewException", "", providers.ClassRequest},
	} {
		s := bedrocktest.New(t, bedrocktest.Options{}, bedrocktest.Answer{Error: &bedrocktest.Error{Status: c.status, Type: c.kind, Message: c.message}})
		got := failureOf(t, offerAt(t, signed(s), haiku), `{"model":"asked","messages":[{"role":"user","content":"a"}]}`)
		assert.Equal(t, c.want, got.Class, "%s: %s", c.kind, c.message)
		assert.Equal(t, c.status, got.Status)
	}
}

func TestStreamsThatBreak(t *testing.T) {
	body := `{"model":"asked","stream":true,"messages":[{"role":"user","content":"a"}]}`
	text := strings.Repeat("word ", 20)
	for name, c := range map[string]struct {
		answer bedrocktest.Answer
		breaks bool
		says   string
	}{
		"exception": {bedrocktest.Answer{Text: text, After: 4, Fails: &bedrocktest.Error{Type: "throttlingException", Message: "slow down"}}, false, `"error"`},
		"cut":       {bedrocktest.Answer{Text: text, After: 4, Cut: true}, true, "word"},
		"checksum":  {bedrocktest.Answer{Text: text, Flip: 4}, true, "word"},
		"no usage":  {bedrocktest.Answer{Text: text, NoMetadata: true}, false, "[DONE]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := bedrocktest.New(t, bedrocktest.Options{}, c.answer)
			got := ask(t, offerAt(t, signed(s), haiku), prompt.Chat, body)
			assert.Equal(t, c.breaks, got.err != nil, "%v", got.err)
			assert.Contains(t, got.body, c.says)
			if c.says != "[DONE]" {
				assert.NotContains(t, got.body, "[DONE]", "there is no false end")
			}
		})
	}
}

func TestCredentialsFail(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	for _, source := range []aws.CredentialsProviderFunc{
		func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, io.ErrUnexpectedEOF },
		func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, nil },
		func(context.Context) (aws.Credentials, error) { panic("secret") },
		func(ctx context.Context) (aws.Credentials, error) { <-ctx.Done(); return aws.Credentials{}, ctx.Err() },
	} {
		p := providers.Provider{URL: s.URL(), Kind: New(Options{Region: "r-1", Credentials: source})}
		p.Name = "bedrock"
		offer := offerWith(t, p, haiku, providers.Options{CredentialTimeout: 10 * time.Millisecond})
		before := time.Now() // however long that takes
		got := ask(t, offer, prompt.Chat, `{"model":"asked","messages":[{"role":"user","content":"a"}]}`)
		var failed *providers.Error
		require.ErrorAs(t, got.err, &failed)
		assert.False(t, offer.Standing(before).Ready, "it is left alone for a moment")
		assert.Equal(t, providers.ClassAuth, failed.Class)
		assert.NotContains(t, failed.Error(), "secret")
	}
	assert.Empty(t, s.Requests(), "nothing was sent")
}

func TestCheck(t *testing.T) {
	keys := StaticKeys("a", "b", "")
	for name, c := range map[string]struct {
		o    Options
		p    providers.Provider
		url  string
		fail string
	}{
		"region":           {Options{Region: "us-east-1", Credentials: keys}, providers.Provider{}, "https://bedrock-runtime.us-east-1.amazonaws.com", ""},
		"China":            {Options{Region: "cn-north-1", Credentials: keys}, providers.Provider{}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn", ""},
		"from the URL":     {Options{Credentials: keys}, providers.Provider{URL: "https://bedrock-runtime-fips.us-west-2.amazonaws.com"}, "", ""},
		"VPC endpoint":     {Options{Credentials: keys}, providers.Provider{URL: "https://vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com"}, "", ""},
		"key":              {Options{}, providers.Provider{URL: "https://proxy.example", Credentials: providers.Static("k")}, "", ""},
		"no region":        {Options{Credentials: keys}, providers.Provider{}, "", "region is missing"},
		"no region in URL": {Options{Credentials: keys}, providers.Provider{URL: "https://proxy.example"}, "", "region is missing"},
		"no credentials":   {Options{Region: "us-east-1"}, providers.Provider{}, "", "credentials are missing"},
		"both":             {Options{Region: "us-east-1", Credentials: keys}, providers.Provider{Credentials: providers.Static("k")}, "", "two credentials"},
		"APIs":             {Options{Region: "us-east-1", Credentials: keys}, providers.Provider{APIs: []prompt.API{prompt.Chat}}, "", "APIs"},
		"embeddings":       {Options{Region: "us-east-1", Credentials: keys}, providers.Provider{Models: []providers.Model{{Name: "m", APIs: []prompt.API{prompt.Embeddings}}}}, "", "none of chat"},
		"a model's APIs":   {Options{Region: "us-east-1", Credentials: keys}, providers.Provider{Models: []providers.Model{{Name: "m", APIs: []prompt.API{prompt.Chat}}}}, "", ""},
		"paths":            {Options{Region: "us-east-1", Credentials: keys}, providers.Provider{Paths: []string{"/v1/files"}}, "", "Paths"},
	} {
		p := c.p
		err := New(c.o).Check(&p)
		if c.fail != "" {
			require.ErrorContains(t, err, c.fail, name)
			continue
		}
		require.NoError(t, err, name)
		if c.url != "" {
			assert.Equal(t, c.url, p.URL, name)
		}
	}
}

func TestFactory(t *testing.T) {
	factory := Factory(Options{Region: "eu-west-1", Credentials: StaticKeys("a", "b", "")})
	k, err := factory(map[string]string{"region": "us-east-1", "family": "anthropic"})
	require.NoError(t, err)
	assert.Equal(t, "us-east-1", k.(*Kind).o.Region)
	k, err = factory(nil)
	require.NoError(t, err)
	assert.Equal(t, "eu-west-1", k.(*Kind).o.Region, "one call leaves nothing for the next")
	_, err = factory(map[string]string{"regoin": "x"})
	require.ErrorContains(t, err, "regoin")
}

// Bedrock has no other paths than its models': a client that asks for one closes nothing.
func TestForwardsAreUnsupported(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	o := offerAt(t, signed(s), haiku)
	for range 20 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.example/v1/moderations", strings.NewReader(`{"model":"m"}`))
		require.NoError(t, err)
		resp, err := o.RoundTripper(base(t), providers.Exchange{}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		var failed *providers.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, providers.ClassUnsupported, failed.Class)
		require.NotEmpty(t, failed.Message)
	}
	assert.Empty(t, s.Requests())
	st := o.Standing(time.Now())
	assert.True(t, st.Ready, st.Reason)
	assert.Equal(t, providers.BreakerClosed, st.Breaker)
}
