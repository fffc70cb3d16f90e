package providertest

import "maps"

// responsesForm writes OpenAI's responses.
type responsesForm struct {
	*exchange

	response string // its id
	list     []event
}

func responsesUsage(u *Usage) object {
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"input_tokens_details": object{"cached_tokens": u.CacheRead}, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// base is the response without what it says.
func (f *responsesForm) base(a *Answer, status string) object {
	if f.response == "" {
		f.response = f.id("resp_")
	}
	return object{
		"id": f.response, "object": "response", "created_at": f.created(), "status": status, "model": a.Model, "output": []any{},
		"error": nil, "incomplete_details": nil, "instructions": f.r.body["instructions"], "metadata": object{}, "usage": nil,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "temperature": 1, "top_p": 1, "store": false,
		"text": object{"format": object{"type": "text"}}, "truncation": "disabled", "previous_response_id": nil,
		"max_output_tokens": f.r.body["max_output_tokens"], "reasoning": object{"effort": nil, "summary": nil},
	}
}

// item is a part of the output: as it begins, as it is, and what is said in between.
type item struct {
	id           string
	start, whole object
	// event is how those of its text are named; part is what of a message or of reasoning
	// holds the text. A call has no parts, its text are the arguments.
	event, text string
	part        func(text string) object
}

func (f *responsesForm) items(a *Answer) []item {
	var list, calls []item
	if a.Thinking != "" {
		id := f.id("rs_")
		list = append(list, item{
			id: id, start: object{"id": id, "type": "reasoning", "summary": []any{}}, event: "reasoning_summary_text", text: a.Thinking,
			whole: object{"id": id, "type": "reasoning", "summary": []any{object{"type": "summary_text", "text": a.Thinking}}},
			part:  func(t string) object { return object{"type": "summary_text", "text": t} },
		})
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		id := f.id("fc_")
		call := func(status, arguments string) object {
			return object{"id": id, "type": "function_call", "status": status, "call_id": c.ID, "name": c.Name, "arguments": arguments}
		}
		calls = append(calls, item{
			id: id, start: call("in_progress", ""), whole: call("completed", c.Arguments), event: "function_call_arguments", text: c.Arguments,
		})
	}
	if a.CallsFirst {
		list = append(list, calls...)
	}
	if text := a.Text + a.Refusal; text != "" || len(calls) == 0 {
		list = append(list, f.message(text, a.Refusal != ""))
	}
	if !a.CallsFirst {
		list = append(list, calls...)
	}
	return list
}

func (f *responsesForm) message(text string, refused bool) item {
	id := f.id("msg_")
	it := item{id: id, event: "output_text", text: text, part: func(t string) object {
		return object{"type": "output_text", "text": t, "annotations": []any{}, "logprobs": []any{}}
	}}
	if refused {
		it.event, it.part = "refusal", func(t string) object { return object{"type": "refusal", "refusal": t} }
	}
	message := func(status string, content ...any) object {
		if content == nil {
			content = []any{}
		}
		return object{"id": id, "type": "message", "role": "assistant", "status": status, "content": content}
	}
	it.start, it.whole = message("in_progress"), message("completed", it.part(text))
	return it
}

// done is the response at its end.
func (f *responsesForm) done(a *Answer, items []item) (name string, response object) {
	name = "completed"
	response = f.base(a, name)
	switch a.stop() {
	case StopLength:
		name = "incomplete"
		response["incomplete_details"] = object{"reason": "max_output_tokens"}
	case StopFilter:
		name = "incomplete"
		response["incomplete_details"] = object{"reason": "content_filter"}
	default:
	}
	output := make([]any, len(items))
	for i := range items {
		output[i] = items[i].whole
	}
	response["status"], response["output"] = name, output
	if !a.NoUsage {
		response["usage"] = responsesUsage(&a.Usage)
	}
	return name, response
}

func (f *responsesForm) whole(a *Answer) object {
	_, response := f.done(a, f.items(a))
	return response
}

func (f *responsesForm) add(name string, o object) {
	name = "response." + name
	o["type"], o["sequence_number"] = name, len(f.list)
	f.list = append(f.list, event{name, encode(o)})
}

// events end with the response as it is; there is no [DONE].
func (f *responsesForm) events(a *Answer) []event {
	f.add("created", object{"response": f.base(a, "in_progress")})
	f.add("in_progress", object{"response": f.base(a, "in_progress")})
	items := f.items(a)
	for i := range items {
		f.item(i, &items[i])
	}
	name, response := f.done(a, items)
	f.add(name, object{"response": response})
	return f.list
}

func (f *responsesForm) item(index int, it *item) {
	at := func(more object) object {
		o := object{"item_id": it.id, "output_index": index}
		switch it.event {
		case "reasoning_summary_text":
			o["summary_index"] = 0
		case "output_text", "refusal":
			o["content_index"] = 0
		default:
		}
		maps.Copy(o, more)
		return o
	}
	part, whole := "content_part", "text"
	switch it.event {
	case "reasoning_summary_text":
		part = "reasoning_summary_part"
	case "refusal":
		whole = "refusal"
	case "function_call_arguments":
		whole = "arguments"
	default:
	}
	f.add("output_item.added", object{"output_index": index, "item": it.start})
	if it.part != nil {
		f.add(part+".added", at(object{"part": it.part("")}))
	}
	for _, p := range pieces(it.text) {
		delta := object{"delta": p}
		if it.event == "output_text" {
			delta["logprobs"] = []any{}
		}
		f.add(it.event+".delta", at(delta))
	}
	end := object{whole: it.text}
	switch it.event {
	case "output_text":
		end["logprobs"] = []any{}
	case "function_call_arguments":
		end["name"] = it.whole["name"]
	default:
	}
	f.add(it.event+".done", at(end))
	if it.part != nil {
		f.add(part+".done", at(object{"part": it.part(it.text)}))
	}
	f.add("output_item.done", object{"output_index": index, "item": it.whole})
}
