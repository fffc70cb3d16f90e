package bedrock

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/bedrock/bedrocktest"
)

// detached sends a copy of the request's body. The SDK closes its own as soon as there are
// headers of an answer, and a server as near as the fake answers while net/http still looks
// for the body's end: it then takes the connection for broken.
type detached struct{ http.RoundTripper }

func (d detached) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	copied := r.Clone(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	return d.RoundTripper.RoundTrip(copied)
}

// officialClient is AWS's own, which shows that the fake is like the service.
func officialClient(t *testing.T, s *bedrocktest.Server, keys aws.Credentials) *bedrockruntime.Client {
	t.Helper()
	return bedrockruntime.New(bedrockruntime.Options{
		HTTPClient: &http.Client{Transport: detached{base(t)}},
		Region:     bedrocktest.DefaultRegion, BaseEndpoint: aws.String(s.URL()), RetryMaxAttempts: 1,
		Credentials: StaticKeys(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken),
	})
}

func sdkMessages(text string) []types.Message {
	return []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: text}}}}
}

// theModels are ids of every form.
func theModels() []string {
	return []string{
		"anthropic.claude-3-haiku-20240307-v1:0",
		"eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
		"arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
		"arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc123",
		"odd name+with %25, = and ü",
	}
}

func TestOfficialClientTalksToTheFake(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	c := officialClient(t, s, bedrocktest.DefaultCredentials())
	answer := bedrocktest.Answer{
		Thinking: "I look it up.", Signature: "sig", Text: "One moment.",
		Calls: []bedrocktest.Call{{ID: "t1", Name: "look", Input: `{"at":"Hé"}`}, {ID: "t2", Name: "look", Input: `{}`}},
		Usage: bedrocktest.Usage{Input: 5, Output: 7, CacheRead: 3, Cached: true},
	}
	s.Add(answer, answer)
	tools := &types.ToolConfiguration{Tools: []types.Tool{&types.ToolMemberToolSpec{Value: types.ToolSpecification{
		Name: aws.String("look"), InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(map[string]any{"type": "object"})},
	}}}}

	out, err := c.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("m"), Messages: sdkMessages("a"), ToolConfig: tools})
	require.NoError(t, err)
	content := out.Output.(*types.ConverseOutputMemberMessage).Value.Content
	require.Len(t, content, 4)
	assert.Equal(t, "One moment.", content[1].(*types.ContentBlockMemberText).Value)
	assert.Equal(t, types.StopReasonToolUse, out.StopReason)
	assert.EqualValues(t, 15, *out.Usage.TotalTokens)

	stream, err := c.ConverseStream(t.Context(), &bedrockruntime.ConverseStreamInput{ModelId: aws.String("m"), Messages: sdkMessages("a"), ToolConfig: tools})
	require.NoError(t, err)
	var text, thought string
	var inputs []string
	var stop types.StopReason
	usage := false
	for ev := range stream.GetStream().Events() {
		switch ev := ev.(type) {
		case *types.ConverseStreamOutputMemberContentBlockStart:
			inputs = append(inputs, "")
		case *types.ConverseStreamOutputMemberContentBlockDelta:
			switch d := ev.Value.Delta.(type) {
			case *types.ContentBlockDeltaMemberText:
				text += d.Value
			case *types.ContentBlockDeltaMemberToolUse:
				inputs[len(inputs)-1] += *d.Value.Input
			case *types.ContentBlockDeltaMemberReasoningContent:
				if r, ok := d.Value.(*types.ReasoningContentBlockDeltaMemberText); ok {
					thought += r.Value
				}
			}
		case *types.ConverseStreamOutputMemberMessageStop:
			stop = ev.Value.StopReason
		case *types.ConverseStreamOutputMemberMetadata:
			usage = *ev.Value.Usage.CacheReadInputTokens == 3
		}
	}
	require.NoError(t, stream.GetStream().Err())
	require.NoError(t, stream.GetStream().Close())
	assert.Equal(t, "One moment.", text)
	assert.Equal(t, []string{`{"at":"Hé"}`, `{}`}, inputs)
	assert.Equal(t, "I look it up.", thought)
	assert.Equal(t, types.StopReasonToolUse, stop)
	assert.True(t, usage)
}

func TestOfficialClientMeetsTheFakesErrors(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	c := officialClient(t, s, bedrocktest.DefaultCredentials())
	in := &bedrockruntime.ConverseInput{ModelId: aws.String("m"), Messages: sdkMessages("a")}

	s.Add(bedrocktest.Answer{Error: &bedrocktest.Error{Status: 429, Type: "ThrottlingException", Message: "Too many requests"}})
	_, err := c.Converse(t.Context(), in)
	var throttled *types.ThrottlingException
	require.ErrorAs(t, err, &throttled)

	s.Add(bedrocktest.Answer{Text: "abc", After: 2, Fails: &bedrocktest.Error{Type: "modelStreamErrorException", Message: "broken"}})
	stream, err := c.ConverseStream(t.Context(), &bedrockruntime.ConverseStreamInput{ModelId: aws.String("m"), Messages: sdkMessages("a")})
	require.NoError(t, err)
	for range stream.GetStream().Events() {
	}
	var failed *types.ModelStreamErrorException
	require.ErrorAs(t, stream.GetStream().Err(), &failed)
	require.ErrorAs(t, stream.GetStream().Close(), &failed)

	_, err = c.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("m"), Messages: sdkMessages("  ")})
	var invalid *types.ValidationException
	require.ErrorAs(t, err, &invalid)

	wrong := bedrocktest.DefaultCredentials()
	wrong.SecretAccessKey = "other"
	_, err = officialClient(t, s, wrong).Converse(t.Context(), in)
	require.ErrorContains(t, err, "InvalidSignatureException")
}

// The path of a request must be what AWS's own client sends, to the byte: it is signed.
func TestPathIsTheOfficialClients(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	c := officialClient(t, s, bedrocktest.DefaultCredentials())
	at, err := url.Parse(s.URL())
	require.NoError(t, err)
	for _, id := range theModels() {
		_, err := c.Converse(context.WithoutCancel(t.Context()), &bedrockruntime.ConverseInput{ModelId: aws.String(id), Messages: sdkMessages("a")})
		require.NoError(t, err)
		u, err := New(Options{Region: "r"}).Endpoint(at, &providers.Target{Upstream: id})
		require.NoError(t, err)
		assert.Equal(t, s.Last().RawPath, u.EscapedPath())
		assert.Equal(t, id, s.Last().Model)
	}
}
