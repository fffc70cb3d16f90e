//go:build e2e

package sdk

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// errRejected is an accumulator's that says no more.
var errRejected = errors.New("the accumulator rejects a chunk")

// chat is OpenAI's SDK with chat completions.
type chat struct {
	sdk   openai.Client
	model string
}

func newChat(p *place) client { return &chat{sdk: openAI(p), model: p.model} }

func openAI(p *place) openai.Client {
	return openai.NewClient(
		option.WithBaseURL(p.v1), option.WithAPIKey(p.key), option.WithHTTPClient(p.client), option.WithMaxRetries(0),
	)
}

func (c *chat) params(q *question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: c.model}
	if q.limit > 0 {
		p.MaxCompletionTokens = openai.Int(q.limit)
	}
	if q.system != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(q.system))
	}
	for _, t := range q.turns {
		p.Messages = append(p.Messages, chatTurn(&t)...)
	}
	for _, name := range q.tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: name, Description: openai.String("does " + name),
			Parameters: shared.FunctionParameters{"type": "object", "properties": schemaOf()},
		}))
	}
	if q.force != "" {
		p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: q.force})
		p.ParallelToolCalls = openai.Bool(false)
	}
	p.ReasoningEffort = shared.ReasoningEffort(q.effort)
	if q.stop != "" {
		p.Stop.OfString = openai.String(q.stop)
	}
	if q.schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: q.schema, Strict: openai.Bool(true)},
		}
	}
	return p
}

func chatTurn(t *turn) []openai.ChatCompletionMessageParamUnion {
	if t.calls == nil && t.said == "" {
		if !t.image {
			return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(t.text)}
		}
		return []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart(t.text),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + pixel}),
		})}
	}
	m := openai.ChatCompletionAssistantMessageParam{}
	if t.said != "" {
		m.Content.OfString = openai.String(t.said)
	}
	for _, c := range t.calls {
		m.ToolCalls = append(m.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	list := []openai.ChatCompletionMessageParamUnion{{OfAssistant: &m}}
	for i, r := range t.results {
		list = append(list, openai.ToolMessage(r, t.calls[i].ID))
	}
	return list
}

func (c *chat) whole(ctx context.Context, q *question) (said, error) {
	got, err := c.sdk.Chat.Completions.New(ctx, c.params(q))
	if err != nil {
		return said{}, err
	}
	s := chatSaid(got)
	s.Thinking = reasoning(got.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw())
	return s, nil
}

func (c *chat) stream(ctx context.Context, q *question, each func()) (said, error) {
	p := c.params(q)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.sdk.Chat.Completions.NewStreaming(ctx, p)
	defer func() { _ = stream.Close() }()
	var acc openai.ChatCompletionAccumulator
	thinking := ""
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			return said{}, errRejected
		}
		for i := range chunk.Choices {
			thinking += reasoning(chunk.Choices[i].Delta.JSON.ExtraFields["reasoning_content"].Raw())
		}
		each()
	}
	if err := stream.Err(); err != nil {
		return said{}, err
	}
	s := chatSaid(&acc.ChatCompletion)
	s.Thinking = thinking
	return s, nil
}

// reasoning reads a field that the SDK doesn't know.
func reasoning(raw string) (s string) {
	_ = json.Unmarshal([]byte(raw), &s)
	return s
}

func chatSaid(c *openai.ChatCompletion) said {
	s := said{
		Model: c.Model, Input: c.Usage.PromptTokens, Cached: c.Usage.PromptTokensDetails.CachedTokens, Output: c.Usage.CompletionTokens,
	}
	if len(c.Choices) != 1 {
		return s
	}
	m := &c.Choices[0].Message
	s.Text, s.Refusal, s.Stop = m.Content, m.Refusal, c.Choices[0].FinishReason
	for i := range m.ToolCalls {
		f := &m.ToolCalls[i]
		s.Calls = append(s.Calls, call{ID: f.ID, Name: f.Function.Name, Arguments: f.Function.Arguments})
	}
	return s
}

func (c *chat) failure(err error) (status int, kind string) { return openAIFailure(err) }

func openAIFailure(err error) (status int, kind string) {
	var e *openai.Error
	if !errors.As(err, &e) {
		return 0, ""
	}
	if e.Code != "" {
		return e.StatusCode, e.Code
	}
	return e.StatusCode, e.Type
}
