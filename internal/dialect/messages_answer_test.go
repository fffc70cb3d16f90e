package dialect

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMessagesReadsAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		members string
		want    Answer
	}{
		"text": {
			`"content":[{"type":"text","text":"Hi","citations":null}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":5}`,
			Answer{Parts: []Part{{Text: "Hi"}}, Stop: StopEnd, Usage: Usage{Known: true, Input: 3, Output: 5}},
		},
		"parallel calls after a thought": {
			`"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"Let me see."},` +
				`{"type":"tool_use","id":"t1","name":"f","input":{"a": 1.0}},{"type":"tool_use","id":"t2","name":"g","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}`,
			Answer{
				Parts: []Part{
					{Kind: Reasoning, Text: "hm", Signature: "s"},
					{Kind: Reasoning, Redacted: "d"},
					{Text: "Let me see."},
					{Kind: ToolCall, ID: "t1", Name: "f", Text: `{"a": 1.0}`},
					{Kind: ToolCall, ID: "t2", Name: "g", Text: "{}"},
				},
				Stop: StopTools, Usage: Usage{Known: true, Input: 1, Output: 2},
			},
		},
		"cached tokens are part of the prompt": {
			`"content":[],"stop_reason":"max_tokens","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":30,"output_tokens":7,"output_tokens_details":{"thinking_tokens":4}}`,
			Answer{Stop: StopLength, Usage: Usage{Known: true, Input: 240, CacheRead: 200, CacheWrite: 30, CachedKnown: true, Output: 7, Reasoning: 4, ReasoningKnown: true}},
		},
		"nothing cached is known": {
			`"content":[],"stop_reason":"model_context_window_exceeded","usage":{"input_tokens":1,"cache_read_input_tokens":0,"cache_creation_input_tokens":null,"output_tokens":2}`,
			Answer{Stop: StopLength, Usage: Usage{Known: true, Input: 1, CachedKnown: true, Output: 2}},
		},
		"no usage": {`"content":[],"stop_reason":"pause_turn"`, Answer{Stop: StopPause}},
		"a stop sequence": {
			`"content":[],"stop_reason":"stop_sequence","stop_sequence":"END"`,
			Answer{Stop: StopText, StopText: "END"},
		},
		"a refusal": {
			`"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"Not this."}`,
			Answer{Stop: StopRefusal, Parts: []Part{{Kind: Refusal, Text: "Not this."}}},
		},
		"what is new": {`"content":[{"type":"new_thing"}],"stop_reason":"new_reason"`, Answer{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.ID, c.want.Model = "msg_1", "claude-x"
			got, err := Messages().DecodeAnswer([]byte(`{"id":"msg_1","type":"message","role":"assistant","model":"claude-x",` + c.members + `}`))
			require.NoError(t, err)
			assert.Equal(t, &c.want, got)
		})
	}
	for _, body := range []string{``, `[]`, `{`, `{"type":"error","error":{}}`, `{"content":"x"}`} {
		_, err := Messages().DecodeAnswer([]byte(body))
		var b *BodyError
		assert.ErrorAs(t, err, &b, body)
	}
}

func TestMessagesWritesAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer Answer
		want   string
	}{
		"text": {
			Answer{ID: "chatcmpl-1", Model: "gpt", Parts: []Part{{Text: "Hi"}}, Stop: StopEnd, Usage: Usage{Known: true, Input: 3, Output: 5}},
			`{"id":"msg_chatcmpl-1","type":"message","role":"assistant","model":"asked","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":5}}`,
		},
		"cached": {
			Answer{ID: "msg_1", Stop: StopLength, Usage: Usage{Known: true, Input: 240, CacheRead: 200, CacheWrite: 30, CachedKnown: true, Output: 7, Reasoning: 4, ReasoningKnown: true}},
			`{"id":"msg_1","type":"message","role":"assistant","model":"asked","content":[],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":200,"output_tokens":7,"output_tokens_details":{"thinking_tokens":4}}}`,
		},
		"no id, no usage, nothing empty": {
			Answer{Parts: []Part{{Text: ""}, {Kind: Reasoning}, {Kind: Reasoning, Text: "hm"}, {Kind: ToolCall, ID: "c.1", Name: "f"}}, Stop: StopEnd},
			`{"id":"msg_own","type":"message","role":"assistant","model":"asked","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"c_1_ba290cdf","name":"f","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}`,
		},
		"a refusal": {
			Answer{ID: "msg_1", Parts: []Part{{Kind: Refusal, Text: "No."}}, Stop: StopEnd},
			`{"id":"msg_1","type":"message","role":"assistant","model":"asked","content":[{"type":"text","text":"No."}],"stop_reason":"refusal","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}`,
		},
		"a stop sequence": {
			Answer{ID: "msg_1", Stop: StopText, StopText: "EN\"D"},
			`{"id":"msg_1","type":"message","role":"assistant","model":"asked","content":[],"stop_reason":"stop_sequence","stop_sequence":"EN\"D","usage":{"input_tokens":0,"output_tokens":0}}`,
		},
		"tools without a call": {
			Answer{ID: "msg_1", Parts: []Part{{Text: "x"}}, Stop: StopTools},
			`{"id":"msg_1","type":"message","role":"assistant","model":"asked","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}`,
		},
		"arguments that are no object": {
			Answer{ID: "msg_1", Parts: []Part{{Kind: ToolCall, ID: "1", Name: "f", Text: `[1`}}, Stop: StopTools},
			`{"id":"msg_1","type":"message","role":"assistant","model":"asked","content":[{"type":"tool_use","id":"1","name":"f","input":{"invalid_arguments":"[1"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Messages().EncodeAnswer(nil, &c.answer, &AnswerOptions{Model: "asked", ID: "own"})
			assert.Equal(t, c.want, string(got))
		})
	}
	got := Messages().EncodeAnswer(nil, &Answer{ID: "msg_1", Model: "theirs"}, &AnswerOptions{})
	assert.Contains(t, string(got), `"model":"theirs"`)
}

func TestMessagesReadsFailures(t *testing.T) {
	for _, c := range []struct {
		status        int
		kind, message string
		want          FailureKind
	}{
		{400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum", FailContext},
		{400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 3", FailContext},
		{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", FailQuota},
		{400, "invalid_request_error", "You have reached your specified API usage limits.", FailQuota},
		{400, "invalid_request_error", "Output blocked by content filtering policy", FailContent},
		{400, "invalid_request_error", "This organization has been disabled.", FailAuth},
		{400, "invalid_request_error", "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", FailQuota},
		{400, "invalid_request_error", "messages: at least one message is required", FailRequest},
		{401, "invalid_request_error", "prompt is too long", FailAuth},
		{402, "invalid_request_error", "no", FailQuota},
		{401, "authentication_error", "invalid x-api-key", FailAuth},
		{403, "permission_error", "no", FailAuth},
		{402, "billing_error", "no", FailQuota},
		{402, "", "", FailQuota},
		{404, "not_found_error", "model: x", FailModel},
		{413, "request_too_large", "big", FailTooLarge},
		{429, "rate_limit_error", "slow down", FailRate},
		{500, "api_error", "oops", FailServer},
		{502, "", "", FailServer},
		{504, "timeout_error", "late", FailTimeout},
		{529, "overloaded_error", "Overloaded", FailOverloaded},
		{529, "", "", FailOverloaded},
		{503, "", "", FailOverloaded},
		{418, "teapot_error", "short", FailRequest},
		{200, "", "", FailUnknown},
	} {
		body := []byte(`{"type":"error","error":{"type":"` + c.kind + `","message":"` + c.message + `"},"request_id":"r"}`)
		got := Messages().DecodeFailure(c.status, http.Header{}, body)
		credential := c.kind == "authentication_error"
		assert.Equal(t, &Failure{Kind: c.want, Status: c.status, Type: c.kind, Message: c.message, Credential: credential}, got)
	}
	for _, body := range []string{"", "<html>nginx</html>", `"x"`, `[]`, `{"error":"x"}`} {
		assert.Equal(t, &Failure{Kind: FailServer, Status: 502}, Messages().DecodeFailure(502, nil, []byte(body)))
	}
}

func TestMessagesWritesFailures(t *testing.T) {
	for _, c := range []struct {
		failure Failure
		status  int
		want    string
	}{
		{Failure{Kind: FailRequest, Status: 422, Message: `a "b"`}, 400, `{"type":"invalid_request_error","message":"a \"b\""}`},
		{Failure{Kind: FailContext, Message: "This model's maximum context length is 9."}, 400, `{"type":"invalid_request_error","message":"prompt is too long: This model's maximum context length is 9."}`},
		{Failure{Kind: FailContext, Message: "prompt is too long: 9 > 8"}, 400, `{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}`},
		{Failure{Kind: FailContext}, 400, `{"type":"invalid_request_error","message":"prompt is too long"}`},
		{Failure{Kind: FailContent, Status: 400}, 400, `{"type":"invalid_request_error","message":"blocked by content filtering policy"}`},
		{Failure{Kind: FailAuth, Status: 401, Message: "key sk-1 is wrong"}, 401, `{"type":"authentication_error","message":"not authorized"}`},
		{Failure{Kind: FailAuth, Status: 403}, 403, `{"type":"permission_error","message":"not authorized"}`},
		{Failure{Kind: FailQuota, Status: 429, Message: "pay at https://x"}, 402, `{"type":"billing_error","message":"the service's quota is used up"}`},
		{Failure{Kind: FailModel}, 404, `{"type":"not_found_error","message":"no such model"}`},
		{Failure{Kind: FailTooLarge}, 413, `{"type":"request_too_large","message":"the request is too large"}`},
		{Failure{Kind: FailRate, Message: "slow"}, 429, `{"type":"rate_limit_error","message":"slow"}`},
		{Failure{Kind: FailOverloaded, Status: 503}, 529, `{"type":"overloaded_error","message":"overloaded"}`},
		{Failure{Kind: FailServer}, 500, `{"type":"api_error","message":"the service failed"}`},
		{Failure{Kind: FailServer, Status: 502}, 502, `{"type":"api_error","message":"the service failed"}`},
		{Failure{Kind: FailTimeout}, 504, `{"type":"timeout_error","message":"the service took too long"}`},
		{Failure{Kind: FailUnknown, Status: 429}, 429, `{"type":"rate_limit_error","message":"too many requests"}`},
		{Failure{}, 500, `{"type":"api_error","message":"the service failed"}`},
	} {
		status, body := Messages().EncodeFailure(&c.failure)
		assert.Equal(t, c.status, status)
		assert.Equal(t, `{"type":"error","error":`+c.want+`}`, string(body))
	}
}
