package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const canary = "CANARY"

// TestExchangeQuotesNothing: errors and warnings are logged, so nothing that a prompt, a tool
// or a service says may be in them.
func TestExchangeQuotesNothing(t *testing.T) {
	refused, warned := 0, 0
	for _, c := range readCorpus(t) {
		client, service := c.codecs()
		body, _ := c.get("client request")
		for _, word := range []string{"Hello", "Paris", "sunny", "weather", "sum up", "data:", "user-7", "END", "wav", "file-1", "Hm."} {
			body = strings.ReplaceAll(body, word, canary)
		}
		x, err := NewExchange(client, service, []byte(body), Options{})
		if err != nil {
			refused++
			assert.NotContains(t, err.Error(), canary, c.name)
			continue
		}
		for _, w := range x.Warnings() {
			warned++
			assert.NotContains(t, w.Field+w.Reason, canary, c.name)
		}
	}
	assert.Greater(t, refused, 20)
	assert.Greater(t, warned, 20)

	for _, toMessages := range []bool{false, true} {
		client, service, _ := direction(toMessages)
		for _, body := range []string{
			canary, `{"model":"` + canary, `{"messages":"` + canary + `"}`, `{"messages":[{"role":"` + canary + `"}]}`,
			`{"max_tokens":"` + canary + `","messages":[]}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"` + canary + `"}]}]}`,
		} {
			_, err := NewExchange(client, service, []byte(body), Options{})
			require.Error(t, err)
			assert.NotContains(t, err.Error(), canary)
		}
		x := streamExchange(t, client, service)
		for _, text := range []string{canary, `{"choices":"` + canary + `"}`, `{"content":"` + canary + `"}`, `{"error":"` + canary + `"}`} {
			_, err := x.Answer([]byte(text))
			require.Error(t, err)
			assert.NotContains(t, err.Error(), canary)
		}
		_, err := translate(x, []byte("data: "+canary+"\n\n"), false, nil)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), canary)
	}
}

// TestExchangeNamesFieldsPlainly: the names in a path are the client's: long ones, and what
// would break a line of a log.
func TestExchangeNamesFieldsPlainly(t *testing.T) {
	long := strings.Repeat("k", 1<<20)
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x","%s":1}],"a\nb\u0000\u202e":1}`, long)
	x, err := NewExchange(Chat(), Messages(), []byte(body), Options{})
	require.NoError(t, err)
	require.Len(t, x.Warnings(), 2)
	assert.LessOrEqual(t, len(x.Warnings()[0].Field), maxField)
	assert.Equal(t, "a?b??", x.Warnings()[1].Field)
}

func TestExchangeListsSoManyWarnings(t *testing.T) {
	var odd strings.Builder
	for i := range 500 {
		fmt.Fprintf(&odd, `,"odd%d":1`, i)
	}
	body := `{"model":"m","messages":[{"role":"user","content":"x"` + odd.String() + `}]` + odd.String() + `}`
	x, err := NewExchange(Chat(), Messages(), []byte(body), Options{})
	require.NoError(t, err)
	assert.Len(t, x.Warnings(), maxWarnings)
}

func TestExchangeNamesTheModel(t *testing.T) {
	const body = `{"model":"asked","messages":[{"role":"user","content":"x"}]}`
	answer := []byte(`{"id":"msg_1","model":"served","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`)
	for _, tt := range []struct {
		name       string
		o          Options
		sent, told string
	}{
		{"as asked", Options{}, "asked", "asked"},
		{"another name", Options{Model: "theirs"}, "theirs", "asked"},
		{"an alias", Options{Model: "theirs", Asked: "alias"}, "theirs", "alias"},
		{"the service's", Options{Model: "theirs", Asked: "alias", KeepModel: true}, "theirs", "served"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := NewExchange(Chat(), Messages(), []byte(body), tt.o)
			require.NoError(t, err)
			assert.Contains(t, string(x.Body()), `"model":"`+tt.sent+`"`)
			got, err := x.Answer(answer)
			require.NoError(t, err)
			assert.Contains(t, string(got), `"model":"`+tt.told+`"`)
		})
	}
}

func TestChatServiceThatKnowsMaxTokensOnly(t *testing.T) {
	const body = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`
	x, err := NewExchange(Messages(), Chat(), []byte(body), Options{Request: RequestOptions{OldMaxTokens: true}})
	require.NoError(t, err)
	assert.Contains(t, string(x.Body()), `"max_tokens":9`)
	assert.NotContains(t, string(x.Body()), `max_completion_tokens`)
}

// TestChatToChatSaysTheSame: what the middle form holds comes out as it went in, and what it
// has no place for is handed through.
func TestChatToChatSaysTheSame(t *testing.T) {
	n := 0
	for _, c := range readCorpus(t) {
		in, _ := c.get("client request")
		client, _ := c.codecs()
		if client.Name() != chatName {
			continue
		}
		x, err := NewExchange(Chat(), Chat(), []byte(in), Options{})
		if err != nil {
			continue
		}
		n++
		want, err := Chat().DecodeRequest([]byte(in))
		require.NoError(t, err)
		got, err := Chat().DecodeRequest(x.Body())
		require.NoError(t, err, "%s", x.Body())
		got.IncludeUsage = want.IncludeUsage // always asked for
		got.Warnings, want.Warnings = nil, nil
		want.TopK = ""
		if want.Thinking != nil && want.Thinking.Off {
			want.Thinking = nil
		}
		want.Rest = slices.DeleteFunc(want.Rest, func(m Member) bool { return strings.Contains(m.Name, ".") })
		for i := range want.System {
			want.System[i].Cache = nil
		}
		for i := range want.Messages {
			m := &want.Messages[i]
			m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool { return p.Kind == Reasoning })
			for j := range m.Parts {
				m.Parts[j].Cache = nil
				if m.Parts[j].Kind == ToolCall && m.Parts[j].Text == "" {
					m.Parts[j].Text = "{}"
				}
			}
		}
		assert.ElementsMatch(t, want.Rest, got.Rest, c.name)
		got.Rest, want.Rest = nil, nil
		assert.Equal(t, want, got, c.name)
	}
	assert.Greater(t, n, 40)
}

// TestChatLegacyCallsKeepApart: functions had no ids; each answer belongs to the call before.
func TestChatLegacyCallsKeepApart(t *testing.T) {
	r, err := Chat().DecodeRequest([]byte(`{"messages":[
		{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"},
		{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"2"}]}`))
	require.NoError(t, err)
	require.Len(t, r.Messages, 4)
	assert.Equal(t, r.Messages[0].Parts[0].ID, r.Messages[1].Parts[0].ID)
	assert.Equal(t, r.Messages[2].Parts[0].ID, r.Messages[3].Parts[0].ID)
	assert.NotEqual(t, r.Messages[0].Parts[0].ID, r.Messages[2].Parts[0].ID)
}

func TestChatFailureKinds(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   FailureKind
	}{
		{400, `{"error":{"message":"x","code":"context_length_exceeded"}}`, FailContext},
		{400, `{"error":{"message":"Input validation error: inputs tokens + max_new_tokens: the context window is 4096"}}`, FailContext},
		{400, `{"error_code":"BAD_REQUEST","message":"Input is too long for requested model."}`, FailContext},
		{400, `{"error":{"message":"x","code":"content_policy_violation"}}`, FailContent},
		{400, `{"error":{"message":"x","type":"invalid_request_error"}}`, FailRequest},
		{401, `{"statusCode":401,"message":"Unauthorized. Access token is missing."}`, FailAuth},
		{402, ``, FailQuota},
		{403, `{"error":{"message":"context window"}}`, FailAuth},
		{404, `{"error":{"code":"DeploymentNotFound","message":"x"}}`, FailModel},
		{408, ``, FailTimeout},
		{413, ``, FailTooLarge},
		{413, `{"error":{"message":"This model's maximum context length is 5 tokens"}}`, FailContext},
		{429, `{"error":{"code":"429","message":"Requests have exceeded the call rate limit"}}`, FailRate},
		{429, `{"error":{"type":"insufficient_quota","message":"x"}}`, FailQuota},
		{429, `{"error":"Model is overloaded"}`, FailRate},
		{500, `{"error":{"message":"The maximum context length is no reason for a 500","type":"server_error"}}`, FailServer},
		{502, `<html>`, FailServer},
		{503, `overloaded`, FailOverloaded},
		{529, ``, FailOverloaded},
		{504, ``, FailTimeout},
		{418, `null`, FailRequest},
		{400, "\xff\xfe", FailRequest},
		{400, `[]`, FailRequest},
		{400, `[[{"error":1}]]`, FailRequest},
		{0, `{"error":{"code":503,"message":"x"}}`, FailOverloaded},
		{0, `{"error":{"type":"rate_limit_error","message":"x"}}`, FailRate},
		{0, `{"error":{"message":"x"}}`, FailUnknown},
	} {
		f := Chat().DecodeFailure(tt.status, nil, []byte(tt.body))
		assert.Equal(t, tt.want, f.Kind, "%d %s", tt.status, tt.body)
		assert.Equal(t, tt.status, f.Status)
		status, _ := Chat().EncodeFailure(f)
		assert.GreaterOrEqual(t, status, 400)
	}
}

func TestChatFailureKeepsWithinBounds(t *testing.T) {
	f := Chat().DecodeFailure(400, nil, []byte(strings.Repeat("é", 1<<20)))
	assert.LessOrEqual(t, len(f.Message), maxMessage)
	assert.True(t, strings.HasSuffix(f.Message, "é"))
}

// TestChatFailureSaysNothingOfTheAccount: services quote keys and name organisations.
func TestChatFailureSaysNothingOfTheAccount(t *testing.T) {
	for _, kind := range []FailureKind{FailAuth, FailQuota} {
		f := &Failure{Kind: kind, Message: "Incorrect API key provided: sk-" + canary, Param: canary, Code: canary, Type: canary}
		_, body := Chat().EncodeFailure(f)
		assert.NotContains(t, string(body), canary)
		assert.NotContains(t, string(Chat().NewStreamEncoder(&AnswerOptions{}).Append(nil, &Event{Kind: Fail, Failure: f})), canary)
	}
}
