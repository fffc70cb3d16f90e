//go:build e2e

package sdk

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// Why an answer ended is said in the words of the client's API, whole and streamed.
func TestStops(t *testing.T) {
	openAI := way{dialect: providertest.OpenAI, kind: providers.OpenAI{}}
	claude := way{dialect: providertest.Anthropic, kind: providers.Anthropic{}}
	refusal := providertest.Answer{Refusal: "Not this."}
	sequence := providertest.Answer{Text: "Well", Stop: providertest.StopAtText, StopText: "END"}
	filter := providertest.Answer{Text: "Well", Stop: providertest.StopFilter}
	pause := providertest.Answer{Text: "Well", Stop: providertest.StopPause}
	for name, c := range map[string]struct {
		make   func(*place) client
		way    way
		answer providertest.Answer
		want   said
	}{
		"chat: Claude refuses":              {newChat, claude, refusal, said{Text: "Not this.", Stop: "content_filter"}},
		"chat: Claude meets a sequence":     {newChat, claude, sequence, said{Text: "Well", Stop: "stop"}},
		"chat: Claude pauses":               {newChat, claude, pause, said{Text: "Well", Stop: "length"}},
		"messages: GPT refuses":             {newMessages, openAI, refusal, said{Text: "Not this.", Stop: "refusal"}},
		"messages: GPT meets a sequence":    {newMessages, openAI, sequence, said{Text: "Well", Stop: "end_turn"}},
		"messages: GPT is filtered":         {newMessages, openAI, filter, said{Text: "Well", Stop: "refusal"}},
		"messages: Claude meets a sequence": {newMessages, claude, sequence, said{Text: "Well", Stop: "stop_sequence"}},
		"responses: Claude refuses":         {newAnswers, claude, refusal, said{Text: "Not this.", Stop: "incomplete content_filter"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.way.open(t)
			sdk := c.make(p)
			p.fake.Script(c.answer, c.answer)
			whole, err := sdk.whole(t.Context(), hello())
			require.NoError(t, err)
			streamed, err := sdk.stream(t.Context(), hello(), func() {})
			require.NoError(t, err)
			assert.Equal(t, whole, streamed)
			assert.Equal(t, c.want, said{Text: whole.Text, Refusal: whole.Refusal, Stop: whole.Stop})
		})
	}
}

// Tokens are counted by the service that has the model, if it counts.
func TestCountTokens(t *testing.T) {
	for _, w := range []way{
		{name: "direct", dialect: providertest.Anthropic},
		{name: "by the gateway", dialect: providertest.Anthropic, kind: providers.Anthropic{}},
	} {
		t.Run(w.name, func(t *testing.T) {
			p := w.open(t)
			c, ok := newMessages(p).(*messages)
			require.True(t, ok)
			n, err := c.sdk.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
				Model: p.model, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("one two three"))},
			})
			require.NoError(t, err)
			assert.Positive(t, n.InputTokens)
			assert.Equal(t, w.upstream(), p.fake.Last().Model)
		})
	}
}
