package providers

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const (
	chatRequest     = `{"model":"ours","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`
	messagesRequest = `{"model":"ours","max_tokens":64,"messages":[{"role":"user","content":"Hi"}]`

	messagesAnswer = `{"id":"msg_1","type":"message","role":"assistant","model":"theirs","content":[{"type":"text","text":"Hello"}],` +
		`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":2}}`
	chatAnswer = `{"id":"c1","object":"chat.completion","created":1,"model":"theirs","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`

	messagesStream = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"theirs","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`
	chatStream = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"theirs","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"theirs","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"theirs","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`
)

func TestTranslation(t *testing.T) {
	for name, c := range map[string]struct {
		kind         Kind
		api          prompt.API
		body, answer string
		mime         string
		path, accept string
		want         []string
	}{
		"chat at Anthropic": {
			Anthropic{},
			prompt.Chat, chatRequest + "}", messagesAnswer, "application/json",
			"/v1/messages", "application/json",
			[]string{`"chat.completion"`, `"Hello"`, `"model":"alias"`, `"prompt_tokens":9`},
		},
		"chat at Anthropic, streamed": {
			Anthropic{},
			prompt.Chat, chatRequest + `,"stream":true}`, messagesStream, "text/event-stream",
			"/v1/messages", "text/event-stream",
			[]string{`"chat.completion.chunk"`, `"Hello"`, `"model":"alias"`, "data: [DONE]\n\n"},
		},
		"messages at OpenAI": {
			OpenAI{},
			prompt.Messages, messagesRequest + "}", chatAnswer, "application/json",
			"/v1/chat/completions", "application/json",
			[]string{`"type":"message"`, `"Hello"`, `"model":"alias"`, `"input_tokens":9`},
		},
		"messages at OpenAI, streamed": {
			OpenAI{},
			prompt.Messages, messagesRequest + `,"stream":true}`, chatStream, "text/event-stream",
			"/v1/chat/completions", "text/event-stream",
			[]string{"event: message_start\n", `"Hello"`, `"model":"alias"`, "event: message_stop\n"},
		},
		"responses at a service without": {
			OpenAI{},
			prompt.Responses, `{"model":"ours","input":"Hi","store":false}`, chatAnswer, "application/json",
			"/v1/chat/completions", "application/json",
			[]string{`"object":"response"`, `"Hello"`, `"model":"alias"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := serve(t, says(http.StatusOK, c.answer, "Content-Type", c.mime, "Anthropic-Ratelimit-Requests-Remaining", "0"))
			o := oneOffer(t, c.kind, svc.URL)
			b := o.Begin(1, 1)
			defer b.End()
			resp, text := send(t, o, Exchange{API: c.api, Asked: "alias", Booking: b}, c.body, "Accept", "*/*")
			for _, want := range c.want {
				assert.Contains(t, text, want)
			}
			got := svc.last(t)
			assert.Equal(t, c.path, got.URI)
			assert.Equal(t, c.accept, got.Header.Get("Accept"))
			var sent struct{ Model string }
			require.NoError(t, json.Unmarshal([]byte(got.Body), &sent))
			assert.Equal(t, "theirs", sent.Model)
			assert.Equal(t, c.mime, resp.Header.Get("Content-Type"))
			assert.Equal(t, c.mime == "text/event-stream", b.streamed)
			if resp.ContentLength >= 0 {
				assert.Len(t, text, int(resp.ContentLength))
			}
			assert.Empty(t, resp.Header.Get("Anthropic-Ratelimit-Requests-Remaining"))
		})
	}
}

// What can't be carried over is an error before anything is sent, or a warning.
func TestTranslationSaysWhatItLeavesOut(t *testing.T) {
	svc := serve(t, says(http.StatusOK, messagesAnswer))
	o := oneOffer(t, Anthropic{}, svc.URL)
	no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, chatRequest+`,"n":3}`))
	assert.Equal(t, ClassUnsupported, no.Class)
	assert.Contains(t, no.Message, "n can't be carried over to ")
	no = fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours","messages":"CANARY"}`))
	assert.Equal(t, ClassRequest, no.Class)
	assert.NotContains(t, no.Error(), "CANARY")
	assert.Zero(t, svc.count())

	var warned []string
	send(t, o, Exchange{API: chat, Warn: func(field, reason string) { warned = append(warned, field+": "+reason) }},
		chatRequest+`,"seed":7}`, "OpenAI-Beta", "x")
	require.Len(t, warned, 2, warned)
	assert.Contains(t, strings.Join(warned, "\n"), "seed: ")
	assert.Contains(t, strings.Join(warned, "\n"), "header openai-beta: ")
}

// An answer that can't be translated is the provider's failure; a stream that breaks off
// has no false end.
func TestAnswersThatCantBeTranslated(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `<html>`))
	o := oneOffer(t, Anthropic{}, svc.URL)
	for name, c := range map[string]struct{ body, mime, answer string }{
		"no JSON":         {chatRequest + "}", "application/json", "<html>"},
		"stream, unasked": {chatRequest + "}", "text/event-stream", messagesStream},
		"no answer":       {chatRequest + `,"stream":true}`, "application/json", "<html>"},
	} {
		before := o.state.breaker.history
		svc.will(says(http.StatusOK, c.answer, "Content-Type", c.mime))
		no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, c.body))
		assert.Equal(t, ClassServer, no.Class, name)
		assert.NotEqual(t, before, o.state.breaker.history, name)
		o.state.breaker = breaker{}
	}
	svc.will(says(http.StatusOK, messagesAnswer, "Content-Type", "application/json"))
	resp, err := o.RoundTripper(nil, Exchange{API: chat}).RoundTrip(newRequest(t, t.Context(), chat, chatRequest+`,"stream":true}`))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "a whole answer to who wanted a stream")
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	assert.Contains(t, string(got), "[DONE]")
	half, _, _ := strings.Cut(messagesStream, "event: content_block_stop")
	for name, text := range map[string]string{"cut": half, "garbage": half + "event: message_delta\ndata: {\n\n"} {
		svc.will(says(http.StatusOK, text, "Content-Type", "text/event-stream"))
		resp, err := o.RoundTripper(nil, Exchange{API: chat}).RoundTrip(newRequest(t, t.Context(), chat, chatRequest+`,"stream":true}`))
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.Error(t, err, name)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(got), "Hello")
		assert.NotContains(t, string(got), "[DONE]")
		assert.Equal(t, 1, o.state.breaker.row, name)
		o.state.breaker = breaker{}
	}
	assert.True(t, o.Standing(time.Now()).Ready)
}
