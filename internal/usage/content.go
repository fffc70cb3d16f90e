package usage

import (
	"bytes"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// generated reports whether the message holds anything the model produced. What
// repeats earlier deltas as a whole doesn't, once there have been some.
func (m *message) generated(before int) bool {
	kind, _ := m.kind.Text()
	switch {
	case bytes.HasPrefix(kind, []byte("response.")):
		return m.responseEvent(kind, before)
	case bytes.HasPrefix(kind, []byte("content_block")):
		return m.blockEvent()
	}
	for it := m.choices.Iter(); it.Next(); {
		if choice(it.Value()) {
			return true
		}
	}
	return !m.output.Empty() || !m.content.Empty() || m.meta.Exists() && !m.text.Empty()
}

// choice looks at one of OpenAI's choices, streamed or not.
func choice(c jsonscan.Value) bool {
	for it := c.Iter(); it.Next(); {
		switch string(it.Key()) {
		case "text", "token_ids":
			if !it.Value().Empty() {
				return true
			}
		case "delta", "message":
			if delta(it.Value()) {
				return true
			}
		default:
		}
	}
	return false
}

func delta(d jsonscan.Value) bool {
	for it := d.Iter(); it.Next(); {
		switch string(it.Key()) {
		case "content", "reasoning_content", "reasoning", "reasoning_details", "refusal",
			"tool_calls", "function_call", "audio":
			if !it.Value().Empty() {
				return true
			}
		default: // role, and what we don't know
		}
	}
	return false
}

// blockEvent looks at Anthropic's content blocks. A tool's name is generated and
// comes with the start of its block; text begins empty there.
func (m *message) blockEvent() bool {
	for _, v := range [...]jsonscan.Value{m.block, m.delta} {
		for it := v.Iter(); it.Next(); {
			switch string(it.Key()) {
			case "text", "thinking", "partial_json", "data", "name":
				if !it.Value().Empty() {
					return true
				}
			default: // signatures, citations
			}
		}
	}
	return false
}

// responseEvent looks at the responses API: any delta, a started call (it has
// the tool's name), or, where a server streams no deltas, what is complete.
func (m *message) responseEvent(kind []byte, before int) bool {
	switch {
	case bytes.HasSuffix(kind, []byte(".delta")):
		return !m.delta.Empty()
	case string(kind) == "response.output_item.added":
		return !m.item.Get("name").Empty()
	case before > 0:
		return false
	case string(kind) == "response.output_item.done":
		return true
	case string(kind) == "response.output_text.done":
		return !m.text.Empty()
	default:
		return false
	}
}
