package fleettest

// messagesFormat is /v1/messages.
type messagesFormat struct{}

func (messagesFormat) prefix() string { return "chatcmpl-" } // as vLLM does
func (messagesFormat) streams() bool  { return true }

// messagesUsage returns the usage object at the end of an answer, nil when a fault
// hides it. What came from the cache and what went into it are counted beside
// input_tokens, unless the engine doesn't report cached tokens.
func (g *generation) messagesUsage() any {
	if g.noUsage {
		return nil
	}
	u := g.usage()
	if g.cfg.NoCachedTokens {
		return object{"input_tokens": u.prompt, "output_tokens": u.output}
	}
	return object{
		"input_tokens": u.prompt - u.cached - u.created, "output_tokens": u.output,
		"cache_creation_input_tokens": u.created, "cache_read_input_tokens": u.cached,
	}
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
	if !g.noUsage {
		// At the start vLLM counts the whole prompt as input, cached or not.
		message["usage"] = object{"input_tokens": g.jobs[0].req.Prompt, "output_tokens": 0}
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
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":`...)
	b = appendQuoted(b, piece)
	return append(b, `},"index":0}`+dataEnd...)
}

func (messagesFormat) last(b []byte, g *generation) []byte {
	b = appendEvent(b, "content_block_stop", object{"type": "content_block_stop", "index": 0})
	delta := object{
		"type": "message_delta", "delta": object{"stop_reason": g.stopReason(), "stop_sequence": nil},
	}
	if u := g.messagesUsage(); u != nil {
		delta["usage"] = u
	}
	b = appendEvent(b, "message_delta", delta)
	return appendEvent(b, "message_stop", object{"type": "message_stop"})
}

func (messagesFormat) whole(g *generation) any {
	answer := object{
		"id": g.id, "type": "message", "role": "assistant", "model": g.body.Model,
		"content":     []object{{"type": "text", "text": g.text(0)}},
		"stop_reason": g.stopReason(),
	}
	if u := g.messagesUsage(); u != nil {
		answer["usage"] = u
	}
	return answer
}
