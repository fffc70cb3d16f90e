package providers

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// How long an answer may be is told in the field that the service knows.
func TestMaxTokensField(t *testing.T) {
	for _, c := range []struct {
		field, url, upstream string
		old                  bool
	}{
		{"", "", "gpt-4o", false},
		{"", "", "mistral-large", false},
		{"", "https://eu.api.openai.com/v1", "gpt-4o", false},
		{"", "https://NAME.openai.azure.com/openai/v1", "prod", false},
		{"", "https://api.mistral.ai", "mistral-large-latest", true},
		{"", "https://api.notopenai.com/v1", "qwen3", true},
		{"", "https://openai.com.example/v1", "gpt-4o", true},
		{"", "https://proxy.example/v1", "o3", false},
		{"", "https://proxy.example/v1", "openai/o4-mini", false},
		{"", "https://proxy.example/v1", "openai/GPT-5.1", false},
		{"", "https://proxy.example/v1", "gpt-oss-120b", true},
		{"", "https://proxy.example/v1", "gpt-4o", true},
		{"", "https://proxy.example/v1", "olmo-3", true},
		{"", "https://proxy.example/v1", "o", true},
		{"", "https://proxy.example/v1", "gpt-", true},
		{"max_tokens", "", "gpt-4o", true},
		{"max_completion_tokens", "https://api.mistral.ai/v1", "mistral-large", false},
	} {
		k := OpenAI{MaxTokensField: c.field}
		o := oneOffer(t, k, c.url)
		assert.Equal(t, c.old, k.oldMaxTokens(o.url, c.upstream), "%+v", c)
	}
	_, err := New([]Provider{{Name: "a", Kind: OpenAI{MaxTokensField: "maxTokens"}, Models: []Model{{Name: "m"}}}}, Options{})
	require.ErrorContains(t, err, "MaxTokensField must be max_tokens or max_completion_tokens")
}

func TestMaxTokensAreSent(t *testing.T) {
	for field, want := range map[string]string{
		"":                      `"max_tokens":64`, // the fake's host is none of OpenAI's
		"max_tokens":            `"max_tokens":64`,
		"max_completion_tokens": `"max_completion_tokens":64`,
	} {
		svc := serve(t, says(http.StatusOK, chatAnswer, "Content-Type", "application/json"))
		o := oneOffer(t, OpenAI{MaxTokensField: field}, svc.URL)
		send(t, o, Exchange{API: prompt.Messages}, messagesRequest+"}")
		assert.Contains(t, svc.last(t).Body, want)
	}
	svc := serve(t, says(http.StatusOK, chatAnswer, "Content-Type", "application/json"))
	o := oneOffer(t, OpenAI{MaxTokensField: "max_tokens"}, svc.URL)
	send(t, o, Exchange{API: chat}, chatRequest+`,"max_completion_tokens":5}`)
	assert.Contains(t, svc.last(t).Body, `"max_completion_tokens":5`, "what needs no translation passes as it is")
}
