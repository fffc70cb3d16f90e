//go:build e2e

package sdk

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// messages is Anthropic's SDK.
type messages struct {
	sdk      anthropic.Client
	model    string
	adaptive bool
}

func newMessages(p *place) client {
	return &messages{model: p.model, adaptive: p.adaptive, sdk: anthropic.NewClient(
		option.WithoutEnvironmentDefaults(), option.WithBaseURL(p.url), option.WithAPIKey(p.key),
		option.WithHTTPClient(p.client), option.WithMaxRetries(0),
	)}
}

// room is how long an answer may be that thinks.
const room = 4096

func (c *messages) params(q *question) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: c.model, MaxTokens: room}
	if q.limit > 0 {
		p.MaxTokens = q.limit
	}
	if q.system != "" {
		p.System = []anthropic.TextBlockParam{{Text: q.system}}
	}
	for _, t := range q.turns {
		p.Messages = append(p.Messages, messagesTurn(&t)...)
	}
	for _, name := range q.tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: name, Description: anthropic.String("does " + name), InputSchema: anthropic.ToolInputSchemaParam{Properties: schemaOf()},
		}})
	}
	if q.force != "" {
		p.ToolChoice.OfTool = &anthropic.ToolChoiceToolParam{Name: q.force, DisableParallelToolUse: anthropic.Bool(true)}
	}
	switch {
	case q.effort == "":
	case c.adaptive:
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{}
		p.OutputConfig.Effort = anthropic.OutputConfigEffort(q.effort)
	default:
		p.Thinking.OfEnabled = &anthropic.ThinkingConfigEnabledParam{BudgetTokens: 1024}
	}
	if q.stop != "" {
		p.StopSequences = []string{q.stop}
	}
	if q.schema != nil {
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: q.schema}
	}
	return p
}

func messagesTurn(t *turn) []anthropic.MessageParam {
	if t.calls == nil && t.said == "" {
		blocks := []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(t.text)}
		if t.image {
			blocks = append(blocks, anthropic.NewImageBlockBase64("image/png", pixel))
		}
		return []anthropic.MessageParam{anthropic.NewUserMessage(blocks...)}
	}
	var blocks, results []anthropic.ContentBlockParamUnion
	if t.thought != "" {
		blocks = append(blocks, anthropic.NewThinkingBlock("c2ln", t.thought))
	}
	if t.said != "" {
		blocks = append(blocks, anthropic.NewTextBlock(t.said))
	}
	for i, c := range t.calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, json.RawMessage(c.Arguments), c.Name))
		results = append(results, anthropic.NewToolResultBlock(c.ID, t.results[i], false))
	}
	list := []anthropic.MessageParam{anthropic.NewAssistantMessage(blocks...)}
	if len(results) > 0 {
		list = append(list, anthropic.NewUserMessage(results...))
	}
	return list
}

func (c *messages) whole(ctx context.Context, q *question) (said, error) {
	m, err := c.sdk.Messages.New(ctx, c.params(q))
	if err != nil {
		return said{}, err
	}
	return messagesSaid(m), nil
}

func (c *messages) stream(ctx context.Context, q *question, each func()) (said, error) {
	stream := c.sdk.Messages.NewStreaming(ctx, c.params(q))
	defer func() { _ = stream.Close() }()
	var m anthropic.Message
	order := messagesOrder{}
	for stream.Next() {
		event := stream.Current()
		if err := m.Accumulate(event); err != nil {
			return said{}, err
		}
		if err := order.next(&event); err != nil {
			return said{}, err
		}
		each()
	}
	if err := stream.Err(); err != nil {
		return said{}, err
	}
	if !order.stopped { // the SDK doesn't mind; those who build on it do
		return said{}, errCut
	}
	return messagesSaid(&m), nil
}

func messagesSaid(m *anthropic.Message) said {
	s := said{
		Model: m.Model, Stop: string(m.StopReason), Cached: m.Usage.CacheReadInputTokens, Output: m.Usage.OutputTokens,
		Input: m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens,
	}
	for i := range m.Content {
		switch b := m.Content[i].AsAny().(type) {
		case anthropic.TextBlock:
			s.Text += b.Text
		case anthropic.ThinkingBlock:
			s.Thinking += b.Thinking
		case anthropic.ToolUseBlock:
			s.Calls = append(s.Calls, call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		default:
		}
	}
	return s
}

func (c *messages) failure(err error) (status int, kind string) {
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return 0, ""
	}
	return e.StatusCode, string(e.Type())
}

var (
	errCut   = errors.New("the stream was cut off")
	errOrder = errors.New("an event out of order")
)

// messagesOrder is stricter than the SDK's accumulator: it wants what clients like Claude
// Code rely on. Blocks follow each other, deltas fit their block, one message_delta comes
// after the last block, and message_stop after that.
type messagesOrder struct {
	started, finished, stopped bool
	open                       string
	index                      int64
}

func (o *messagesOrder) next(event *anthropic.MessageStreamEventUnion) error {
	ok := o.started && !o.stopped
	switch event.Type {
	case "message_start":
		ok = !o.started
		o.started = true
	case "content_block_start":
		ok = ok && !o.finished && o.open == "" && event.Index == o.index
		o.open = event.ContentBlock.Type
	case "content_block_delta":
		fits := map[string]string{
			"text_delta": "text", "input_json_delta": "tool_use", "thinking_delta": "thinking", "signature_delta": "thinking",
		}
		ok = ok && event.Index == o.index && o.open != "" && fits[event.Delta.Type] == o.open
	case "content_block_stop":
		ok = ok && event.Index == o.index && o.open != ""
		o.open, o.index = "", o.index+1
	case "message_delta":
		ok = ok && !o.finished && o.open == "" && event.Delta.StopReason != ""
		o.finished = true
	case "message_stop":
		ok = ok && o.finished
		o.stopped = true
	default:
	}
	if !ok {
		return errOrder
	}
	return nil
}
