package providers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// An error within a stream is seen however it is spelled, and whether or not models are
// renamed. What it says of the gateway's account stays here.
func TestErrorsWithinStreamsInAnySpelling(t *testing.T) {
	const account = "org-123 proj_7"
	for name, c := range map[string]struct {
		api    prompt.API
		events string
		why    string // of the Standing after a few; "" for ready
		says   string // what the client reads, "" for the provider's own
		path   string // of JSON, where that stands
	}{
		"chat":              {prompt.Chat, `data: {"error":{"type":"tokens","code":"rate_limit_exceeded","message":"` + account + `","param":"` + account + `"}}`, whyRate, dialect.SayRate, "error"},
		"spaced":            {prompt.Chat, `data: { "error" : {"type":"rate_limit_error","message":"` + account + `"}}`, whyRate, dialect.SayRate, "error"},
		"not first":         {prompt.Chat, `data: {"id":"x","model":"theirs","error":{"code":429,"message":"` + account + `"}}`, whyRate, dialect.SayRate, "error"},
		"in lines":          {prompt.Chat, "data: {\ndata: \"error\":{\"code\":429,\ndata: \"message\":\"" + account + "\"}}", whyRate, dialect.SayRate, "error"},
		"a string":          {prompt.Chat, `data: {"error":"x"}`, whyBreaker, "", ""},
		"no money":          {prompt.Chat, `data: {"error":{"code":"insufficient_quota","message":"` + account + `"}}`, whyQuota, dialect.SayQuota, "error"},
		"a key":             {prompt.Chat, `data: {"error":{"code":"invalid_api_key","message":"` + account + `"}}`, whyAuth, dialect.SayAuth, "error"},
		"a model":           {prompt.Chat, `data: {"error":{"code":"model_not_found","message":"` + account + `"}}`, "", dialect.SayModel, "error"},
		"its own trouble":   {prompt.Chat, `data: {"error":{"type":"server_error","message":"x"}}`, whyBreaker, "", ""},
		"no JSON":           {prompt.Chat, "event: error\ndata: " + account, whyBreaker, "said no more", "error"},
		"messages":          {prompt.Messages, "event: error\ndata: " + `{"type":"error","error":{"type":"rate_limit_error","message":"` + account + `"}}`, whyRate, dialect.SayRate, "error"},
		"messages, no name": {prompt.Messages, `data: {"type":"error","error":{"type":"overloaded_error","message":"x"}}`, whyBreaker, "", ""},
		"response.failed": {prompt.Responses, "event: response.failed\ndata: " +
			`{"type":"response.failed","sequence_number":3,"response":{"id":"r","model":"theirs","status":"failed","error":{"code":"rate_limit_exceeded","message":"` + account + `"}}}`, whyRate, dialect.SayRate, "response.error"},
		"response.failed, its own trouble": {prompt.Responses, "event: response.failed\ndata: " +
			`{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}`, whyBreaker, "", ""},
		"response.failed, no word": {prompt.Responses, `data: {"type":"response.failed","response":{"error":null}}`, whyBreaker, "", ""},
		"responses' error": {prompt.Responses, "event: error\ndata: " +
			`{"type":"error","sequence_number":7,"code":"rate_limit_exceeded","message":"` + account + `","param":"` + account + `"}`, whyRate, dialect.SayRate, ""},
		"none":      {prompt.Responses, `data: {"type":"response.created","response":{"status":"in_progress","error":null}}`, "", "", ""},
		"a word":    {prompt.Chat, `data: {"choices":[{"delta":{"content":"\"error\": response.failed"}}]}`, "", "", ""},
		"in a call": {prompt.Chat, `data: {"choices":[{"delta":{"error":{"message":"x"}}}]}`, "", "", ""},
	} {
		for _, keep := range []bool{false, true} {
			for _, end := range []string{"\n\n", "\n"} { // the last event may lack its empty line
				t.Run(fmt.Sprintf("%s/%t/%d", name, keep, len(end)), func(t *testing.T) {
					svc := serve(t, says(http.StatusOK, c.events+end, "Content-Type", "text/event-stream"))
					clock := newClock()
					var kind Kind = OpenAI{}
					if c.api == prompt.Messages {
						kind = Anthropic{}
					}
					o := oneOffer(t, kind, svc.URL, clocked(clock), func(p *Provider, _ *Options) {
						p.KeepModel, p.APIs, p.Credentials = keep, []prompt.API{c.api}, Static("k")
					})
					var text string
					for range window {
						_, text = send(t, o, Exchange{API: c.api}, `{"model":"ours","stream":true}`)
					}
					assert.Equal(t, c.why, o.Standing(clock.now()).Reason)
					assert.NotContains(t, text, "org-123")
					if !keep {
						assert.NotContains(t, text, "theirs", "models are renamed in errors, too")
					}
					if c.says == "" {
						want := c.events + end
						if !keep {
							want = strings.ReplaceAll(want, "theirs", "ours")
						}
						assert.Equal(t, want, text, "to the byte")
						return
					}
					_, data, ok := strings.Cut(text, "data: ")
					require.True(t, ok)
					v, err := jsonscan.ParseValue([]byte(data), 0)
					require.NoError(t, err, text)
					e := v
					for _, key := range strings.FieldsFunc(c.path, func(r rune) bool { return r == '.' }) {
						e = e.Get(key)
					}
					message, _ := e.Get("message").Str()
					assert.Contains(t, message, c.says)
					assert.True(t, strings.HasSuffix(text, "\n\n"))
					if c.api == prompt.Responses {
						code, _ := e.Get("code").Str()
						assert.Equal(t, "rate_limit_exceeded", code)
						assert.Equal(t, jsonscan.KindNumber, v.Get("sequence_number").Kind())
						assert.True(t, v.Get("type").Is("response.failed") || v.Get("type").Is("error"))
					}
				})
			}
		}
	}
}

// Streams of paths are looked into, too: a response that is fetched may be a stream.
func TestErrorsWithinStreamsOfPaths(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `data: {"type":"error","error":{"type":"overloaded_error","message":"x"}}`+"\n\n", "Content-Type", "text/event-stream"))
	set := newSet(t, Options{}, Provider{Name: "p", Kind: OpenAI{}, URL: svc.URL, Paths: []string{"/v1/files"}})
	o := set.ForPath("/v1/files")
	for range window {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://g.test/v1/files/x", nil)
		require.NoError(t, err)
		finish(t, o, Exchange{}, r)
	}
	assert.Equal(t, BreakerOpen, o.Standing(time.Now()).Breaker)
}
