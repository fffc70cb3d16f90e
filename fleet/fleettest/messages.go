package fleettest

// messagesFormat is /v1/messages.
type messagesFormat struct{}

func (messagesFormat) prefix() string { return "msg_" }
func (messagesFormat) streams() bool  { return true }

// messagesUsage returns the usage object with the given output tokens, nil when a
// fault hides it. Unless told otherwise the cache is not mentioned and
// input_tokens is the whole prompt, as vLLM does it.
func (g *generation) messagesUsage(output int) any {
	if g.noUsage {
		return nil
	}
	u := g.usage()
	o := object{"input_tokens": u.prompt, "output_tokens": output}
	if g.cfg.MessagesCacheUsage {
		o["input_tokens"] = u.prompt - u.cached
		o["cache_read_input_tokens"] = u.cached
		o["cache_creation_input_tokens"] = 0
	}
	return o
}

func (g *generation) stopReason() string {
	if g.finish == finishLength {
		return "max_tokens"
	}
	return "end_turn"
}

// appendEvent appends a named event.
func appendEvent(b []byte, name string, v any) []byte {
	b = append(b, "event: "...)
	b = append(b, name...)
	b = append(b, '\n')
	b = append(b, dataStart...)
	b = appendJSON(b, v)
	return append(b, dataEnd...)
}

func (messagesFormat) first(b []byte, g *generation, _ int) []byte {
	message := object{
		"id": g.id, "type": "message", "role": "assistant", "content": []object{}, "model": g.body.Model,
		"stop_reason": nil, "stop_sequence": nil,
	}
	if u := g.messagesUsage(0); u != nil {
		message["usage"] = u
	}
	b = appendEvent(b, "message_start", object{"type": "message_start", "message": message})
	return appendEvent(b, "content_block_start", object{
		"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""},
	})
}

func (messagesFormat) token(b []byte, g *generation, choice, i int, _ string) []byte {
	piece := g.jobs[choice].pieces[i]
	if piece == "" {
		return b
	}
	b = append(b, "event: content_block_delta\n"+dataStart+
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`...)
	b = appendQuoted(b, piece)
	return append(b, "}}"+dataEnd...)
}

func (messagesFormat) last(b []byte, g *generation) []byte {
	b = appendEvent(b, "content_block_stop", object{"type": "content_block_stop", "index": 0})
	delta := object{
		"type": "message_delta", "delta": object{"stop_reason": g.stopReason(), "stop_sequence": nil},
	}
	if u := g.messagesUsage(g.usage().output); u != nil {
		delta["usage"] = u
	}
	b = appendEvent(b, "message_delta", delta)
	b = appendEvent(b, "message_stop", object{"type": "message_stop"})
	return append(b, dataDone...) // vLLM's addition to the protocol
}

func (messagesFormat) whole(g *generation) any {
	answer := object{
		"id": g.id, "type": "message", "role": "assistant", "model": g.body.Model,
		"content":     []object{{"type": "text", "text": g.text(0)}},
		"stop_reason": g.stopReason(), "stop_sequence": nil,
	}
	if u := g.messagesUsage(g.usage().output); u != nil {
		answer["usage"] = u
	}
	return answer
}
