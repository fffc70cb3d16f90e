package providertest

import "encoding/json"

// messagesForm writes Anthropic's messages.
type messagesForm struct{ *exchange }

func messagesStop(s Stop) string {
	switch s {
	case StopLength:
		return "max_tokens"
	case StopAtText:
		return "stop_sequence"
	case StopTools:
		return "tool_use"
	case StopFilter, StopRefusal:
		return "refusal"
	case StopPause:
		return "pause_turn"
	default:
		return "end_turn"
	}
}

func messagesUsage(u *Usage, output int64) object {
	return object{
		"input_tokens": u.Input - u.CacheRead - u.CacheWrite, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
		"cache_creation": object{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": 0},
		"output_tokens":  output, "service_tier": "standard",
	}
}

const signature = "EqQBCgIYAhIM0kv0signature0of0this0thinking"

// block is a part of an answer: how it begins, and its deltas.
type block struct {
	start  object
	deltas []object
	whole  object
}

func (f *messagesForm) blocks(a *Answer) []block {
	var list, calls []block
	if a.Thinking != "" {
		b := block{
			start: object{"type": "thinking", "thinking": "", "signature": ""},
			whole: object{"type": "thinking", "thinking": a.Thinking, "signature": signature},
		}
		for _, p := range pieces(a.Thinking) {
			b.deltas = append(b.deltas, object{"type": "thinking_delta", "thinking": p})
		}
		list = append(list, block{b.start, append(b.deltas, object{"type": "signature_delta", "signature": signature}), b.whole})
	}
	for i := range a.Calls {
		calls = append(calls, toolBlock(&a.Calls[i]))
	}
	if a.CallsFirst {
		list = append(list, calls...)
	}
	if text := a.Text + a.Refusal; text != "" {
		b := block{start: object{"type": "text", "text": ""}, whole: object{"type": "text", "text": text}}
		for _, p := range pieces(text) {
			b.deltas = append(b.deltas, object{"type": "text_delta", "text": p})
		}
		list = append(list, b)
	}
	if !a.CallsFirst {
		list = append(list, calls...)
	}
	return list
}

func toolBlock(c *Call) block {
	input := any(object{})
	if json.Valid([]byte(c.Arguments)) {
		input = json.RawMessage(c.Arguments)
	}
	b := block{
		start: object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}},
		whole: object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": input},
		// Always an empty one first.
		deltas: []object{{"type": "input_json_delta", "partial_json": ""}},
	}
	for _, p := range pieces(c.Arguments) {
		b.deltas = append(b.deltas, object{"type": "input_json_delta", "partial_json": p})
	}
	return b
}

func (f *messagesForm) message(a *Answer) object {
	return object{
		"id": f.id("msg_"), "type": "message", "role": "assistant", "model": a.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
	}
}

func (f *messagesForm) whole(a *Answer) object {
	out := f.message(a)
	content := []any{}
	for _, b := range f.blocks(a) {
		content = append(content, b.whole)
	}
	out["content"], out["stop_reason"], out["stop_sequence"] = content, messagesStop(a.stop()), null(a.StopText)
	if !a.NoUsage {
		out["usage"] = messagesUsage(&a.Usage, a.Usage.Output)
	}
	return out
}

// events are: the message's start, a ping, for each block its start, deltas and stop,
// the reason with the usage so far, the end.
func (f *messagesForm) events(a *Answer) []event {
	var list []event
	add := func(name string, o object) {
		o["type"] = name
		list = append(list, event{name, encode(o)})
	}
	message := f.message(a)
	if !a.NoUsage {
		message["usage"] = messagesUsage(&a.Usage, 1)
	}
	add("message_start", object{"message": message})
	for i, b := range f.blocks(a) {
		add("content_block_start", object{"index": i, "content_block": b.start})
		if i == 0 {
			add("ping", object{})
		}
		for _, d := range b.deltas {
			add("content_block_delta", object{"index": i, "delta": d})
		}
		add("content_block_stop", object{"index": i})
	}
	last := object{"delta": object{"stop_reason": messagesStop(a.stop()), "stop_sequence": null(a.StopText)}}
	if !a.NoUsage {
		u := messagesUsage(&a.Usage, a.Usage.Output)
		delete(u, "cache_creation")
		delete(u, "service_tier")
		last["usage"] = u
	}
	add("message_delta", last)
	add("message_stop", object{})
	return list
}
