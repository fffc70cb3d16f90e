package bedrock

import (
	"encoding/json"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// DecodeAnswer reads the answer of Converse. It has neither id nor model nor time.
func (c converse) DecodeAnswer(body []byte) (*dialect.Answer, error) {
	var in wireAnswer
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, &dialect.BodyError{Reason: "is no answer of Converse"}
	}
	if in.Output.Message == nil {
		return nil, &dialect.BodyError{Field: "output.message", Reason: "is missing"}
	}
	a := &dialect.Answer{Stop: stopOf(in.StopReason), Usage: c.usageOf(in.Usage)}
	for i := range in.Output.Message.Content {
		a.Parts = appendParts(a.Parts, &in.Output.Message.Content[i])
	}
	return a, nil
}

func appendParts(parts []dialect.Part, b *wireBlock) []dialect.Part {
	switch {
	case b.Text != nil:
		return append(parts, dialect.Part{Kind: dialect.Text, Text: *b.Text})
	case b.ToolUse != nil:
		input := string(b.ToolUse.Input)
		if input == "" || input == "null" {
			input = "{}"
		}
		return append(parts, dialect.Part{Kind: dialect.ToolCall, ID: b.ToolUse.ID, Name: b.ToolUse.Name, Text: input})
	case b.ReasoningContent != nil:
		p := dialect.Part{Kind: dialect.Reasoning, Redacted: b.ReasoningContent.Redacted}
		if t := b.ReasoningContent.Text; t != nil {
			p.Text, p.Signature = t.Text, t.Signature
		}
		return append(parts, p)
	case b.CitationsContent != nil:
		for i := range b.CitationsContent.Content {
			if t := b.CitationsContent.Content[i].Text; t != nil {
				parts = append(parts, dialect.Part{Kind: dialect.Text, Text: *t})
			}
		}
		return parts
	default:
		return parts
	}
}

func stopOf(reason string) dialect.Stop {
	switch reason {
	case "end_turn":
		return dialect.StopEnd
	case "tool_use":
		return dialect.StopTools
	case "max_tokens", "model_context_window_exceeded":
		return dialect.StopLength
	case "stop_sequence":
		return dialect.StopText
	case "guardrail_intervened", "content_filtered":
		return dialect.StopFilter
	case "refusal":
		return dialect.StopRefusal
	case "pause_turn":
		return dialect.StopPause
	default: // malformed_model_output, malformed_tool_use, and what is new
		return dialect.StopUnknown
	}
}

// usageOf makes the normal form. inputTokens is what no cache had part in, as AWS documents
// it; but the models of OpenAI count everything there, at least in streams. The total tells
// nothing: it is the sum of all four, whatever they have in common.
func (c converse) usageOf(u *wireUsage) dialect.Usage {
	if u == nil || u.Input == nil {
		return dialect.Usage{}
	}
	out := dialect.Usage{Known: true, Input: *u.Input, Output: u.Output}
	if u.CacheRead == nil && u.CacheWrite == nil {
		return out
	}
	out.CachedKnown = true
	if u.CacheRead != nil {
		out.CacheRead = *u.CacheRead
	}
	if u.CacheWrite != nil {
		out.CacheWrite = *u.CacheWrite
	}
	cached := out.CacheRead + out.CacheWrite
	if familyOf("", c.family) != openai || out.Input < cached {
		out.Input += cached
	}
	return out
}
