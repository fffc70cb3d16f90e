//go:build e2e

package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

var errFailed = errors.New("the response failed")

// answers is OpenAI's SDK with responses.
type answers struct {
	sdk   openai.Client
	model string
}

func newAnswers(p *place) client { return &answers{sdk: openAI(p), model: p.model} }

func (c *answers) params(q *question) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: c.model, Store: openai.Bool(false)}
	if q.limit > 0 {
		p.MaxOutputTokens = openai.Int(q.limit)
	}
	if q.system != "" {
		p.Instructions = openai.String(q.system)
	}
	for _, t := range q.turns {
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, answersTurn(&t)...)
	}
	for _, name := range q.tools {
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: name, Description: openai.String("does " + name), Strict: openai.Bool(false),
			Parameters: map[string]any{"type": "object", "properties": schemaOf()},
		}})
	}
	if q.force != "" {
		p.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: q.force}
		p.ParallelToolCalls = openai.Bool(false)
	}
	if q.effort != "" {
		p.Reasoning.Effort = shared.ReasoningEffort(q.effort)
	}
	if q.schema != nil {
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: q.schema, Strict: openai.Bool(true)}
	}
	return p
}

func answersTurn(t *turn) []responses.ResponseInputItemUnionParam {
	if t.calls == nil && t.said == "" {
		content := responses.ResponseInputMessageContentListParam{responses.ResponseInputContentParamOfInputText(t.text)}
		if t.image {
			image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
			image.OfInputImage.ImageURL = openai.String("data:image/png;base64," + pixel)
			content = append(content, image)
		}
		return []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser)}
	}
	var list []responses.ResponseInputItemUnionParam
	if t.said != "" {
		list = append(list, responses.ResponseInputItemParamOfMessage(t.said, responses.EasyInputMessageRoleAssistant))
	}
	for _, c := range t.calls {
		list = append(list, responses.ResponseInputItemParamOfFunctionCall(c.Arguments, c.ID, c.Name))
	}
	for i, r := range t.results {
		output := responses.ResponseInputItemParamOfFunctionCallOutput(r)
		output.OfFunctionCallOutput.CallID = openai.String(t.calls[i].ID)
		list = append(list, output)
	}
	return list
}

func (c *answers) whole(ctx context.Context, q *question) (said, error) {
	r, err := c.sdk.Responses.New(ctx, c.params(q))
	if err != nil {
		return said{}, err
	}
	return answersSaid(r), nil
}

func (c *answers) stream(ctx context.Context, q *question, each func()) (said, error) {
	stream := c.sdk.Responses.NewStreaming(ctx, c.params(q))
	defer func() { _ = stream.Close() }()
	var acc responses.ResponseAccumulator
	text := ""
	for stream.Next() {
		// The accumulator was made for WebSockets, whose events are these.
		var event responses.ResponsesServerEventUnion
		raw := stream.Current().RawJSON()
		if err := json.Unmarshal([]byte(raw), &event); err != nil {
			return said{}, err
		}
		if err := acc.AddEvent(event); err != nil {
			return said{}, fmt.Errorf("%s: %w", raw, err)
		}
		if delta := stream.Current(); delta.Type == "response.output_text.delta" {
			text += delta.Delta
		}
		each()
	}
	if err := stream.Err(); err != nil {
		return said{}, err
	}
	r, err := acc.ReconstructedResponse()
	if err != nil {
		return said{}, err
	}
	if r.Status == responses.ResponseStatusFailed {
		return said{}, fmt.Errorf("%w: %s", errFailed, r.Error.Code)
	}
	s := answersSaid(r)
	if s.Text != text { // what the accumulator collects gives way to the last event's
		return said{}, fmt.Errorf("%w: deltas say %q, the response %q", errOrder, text, s.Text)
	}
	return s, nil
}

func answersSaid(r *responses.Response) said {
	s := said{
		Model: r.Model, Input: r.Usage.InputTokens, Cached: r.Usage.InputTokensDetails.CachedTokens, Output: r.Usage.OutputTokens,
		Stop: string(r.Status),
	}
	if r.IncompleteDetails.Reason != "" {
		s.Stop += " " + r.IncompleteDetails.Reason
	}
	for i := range r.Output {
		switch item := r.Output[i].AsAny().(type) {
		case responses.ResponseOutputMessage:
			for k := range item.Content {
				s.Text += item.Content[k].Text
				s.Refusal += item.Content[k].Refusal
			}
		case responses.ResponseFunctionToolCall:
			s.Calls = append(s.Calls, call{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		case responses.ResponseReasoningItem:
			for k := range item.Summary {
				s.Thinking += item.Summary[k].Text
			}
			for k := range item.Content {
				s.Thinking += item.Content[k].Text
			}
		default:
		}
	}
	return s
}

func (c *answers) failure(err error) (status int, kind string) { return openAIFailure(err) }
