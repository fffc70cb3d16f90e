package fleettest

import "strconv"

// responsesFormat is /v1/responses, stateless.
type responsesFormat struct{}

func (responsesFormat) prefix() string { return "resp_" }
func (responsesFormat) streams() bool  { return true }

// response returns the response object in a given status.
func (g *generation) response(status string, output []object, done bool) object {
	o := object{
		"id": g.id, "object": "response", "created_at": g.created, "status": status, "model": g.body.Model,
		"output": output, "incomplete_details": nil, "usage": nil, "parallel_tool_calls": true,
	}
	if !done {
		return o
	}
	if g.finish == finishLength {
		o["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	if g.noUsage {
		return o
	}
	u := g.usage()
	usage := object{
		"input_tokens": u.prompt, "output_tokens": u.output, "total_tokens": u.prompt + u.output,
		"output_tokens_details": object{"reasoning_tokens": 0},
	}
	if !g.cfg.NoCachedTokens {
		usage["input_tokens_details"] = object{"cached_tokens": u.cached, "cache_write_tokens": u.created}
	}
	o["usage"] = usage
	return o
}

func (g *generation) finalStatus() string {
	if g.finish == finishLength {
		return "incomplete"
	}
	return "completed"
}

func (g *generation) itemID() string { return "msg_" + g.id }

// item returns the output message.
func (g *generation) item(status string, content ...object) object {
	if content == nil {
		content = []object{}
	}
	return object{"id": g.itemID(), "type": "message", "role": "assistant", "status": status, "content": content, "phase": nil}
}

func textPart(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}
}

// fixedEvents is how many events precede the deltas.
const fixedEvents = 4

func (responsesFormat) first(b []byte, g *generation, _ int) []byte {
	n := 0
	emit := func(name string, o object) {
		o["type"], o["sequence_number"] = name, n
		n++
		b = appendEvent(b, name, o)
	}
	emit("response.created", object{"response": g.response("in_progress", []object{}, false)})
	emit("response.in_progress", object{"response": g.response("in_progress", []object{}, false)})
	emit("response.output_item.added", object{"output_index": 0, "item": g.item("in_progress")})
	emit("response.content_part.added", object{
		"output_index": 0, "content_index": 0, "item_id": g.itemID(), "part": textPart(""),
	})
	return b
}

func (responsesFormat) token(b []byte, g *generation, choice, i int, _ string) []byte {
	b = append(b, "event: response.output_text.delta\n"+dataStart+
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"logprobs":[],"sequence_number":`...)
	b = strconv.AppendInt(b, int64(fixedEvents+i), 10)
	b = append(b, `,"item_id":`...)
	b = appendQuoted(b, g.itemID())
	b = append(b, `,"delta":`...)
	b = appendQuoted(b, g.jobs[choice].pieces[i])
	return append(b, "}"+dataEnd...)
}

func (responsesFormat) last(b []byte, g *generation) []byte {
	n := fixedEvents + len(g.jobs[0].pieces)
	emit := func(name string, o object) {
		o["type"], o["sequence_number"] = name, n
		n++
		b = appendEvent(b, name, o)
	}
	text := g.text(0)
	done := g.item("completed", textPart(text))
	at := func(o object) object {
		o["output_index"], o["content_index"], o["item_id"] = 0, 0, g.itemID()
		return o
	}
	emit("response.output_text.done", at(object{"text": text, "logprobs": []object{}}))
	emit("response.content_part.done", at(object{"part": textPart(text)}))
	emit("response.output_item.done", object{"output_index": 0, "item": done})
	// vLLM's last event has this name even when the status is incomplete.
	emit("response.completed", object{"response": g.response(g.finalStatus(), []object{done}, true)})
	return b
}

func (responsesFormat) whole(g *generation) any {
	return g.response(g.finalStatus(), []object{g.item("completed", textPart(g.text(0)))}, true)
}
