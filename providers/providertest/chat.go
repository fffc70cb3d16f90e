package providertest

// chatForm writes chat completions.
type chatForm struct{ *exchange }

// chatStop is a finish_reason.
func chatStop(s Stop) string {
	switch s {
	case StopLength:
		return "length"
	case StopTools:
		return "tool_calls"
	case StopFilter:
		return "content_filter"
	default:
		return "stop"
	}
}

func chatUsage(u *Usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead, "audio_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning, "audio_tokens": 0},
	}
}

func (f *chatForm) call(c *Call) object {
	return object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}}
}

func (f *chatForm) whole(a *Answer) object {
	message := object{"role": "assistant", "content": null(a.Text), "refusal": null(a.Refusal), "annotations": []any{}}
	if a.Refusal == "" && len(a.Calls) == 0 {
		message["content"] = a.Text
	}
	if a.Thinking != "" {
		message["reasoning_content"] = a.Thinking // of vLLM and others; OpenAI shows none
	}
	if len(a.Calls) > 0 {
		var calls []any
		for i := range a.Calls {
			calls = append(calls, f.call(&a.Calls[i]))
		}
		message["tool_calls"] = calls
	}
	choice := object{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatStop(a.stop())}
	if f.dialect == AzureOpenAI {
		choice["content_filter_results"] = harmless()
	}
	out := object{
		"id": f.id("chatcmpl-"), "object": "chat.completion", "created": f.created(), "model": a.Model,
		"choices": []any{choice}, "service_tier": "default", "system_fingerprint": "fp_0kv",
	}
	if f.dialect == AzureOpenAI {
		out["prompt_filter_results"] = []any{object{"prompt_index": 0, "content_filter_results": harmless()}}
	}
	if !a.NoUsage {
		out["usage"] = chatUsage(&a.Usage)
	}
	return out
}

// harmless is what Azure says of texts that pass its filters.
func harmless() object {
	return object{"hate": object{"filtered": false, "severity": "safe"}, "violence": object{"filtered": false, "severity": "safe"}}
}

// events are: the role, the deltas, the reason, usage, the end.
func (f *chatForm) events(a *Answer) []event {
	s := &chunks{chatForm: f, a: a, id: f.id("chatcmpl-"), object: "chat.completion.chunk"}
	if f.dialect == AzureOpenAI {
		s.raw(object{
			"id": "", "object": "", "created": 0, "model": "", "choices": []any{},
			"prompt_filter_results": []any{object{"prompt_index": 0, "content_filter_results": harmless()}},
		})
	}
	first := object{"role": "assistant", "content": "", "refusal": nil}
	if len(a.Calls) > 0 && (a.Text == "" || a.CallsFirst) {
		first["content"] = nil
	}
	if f.dialect != Gemini {
		s.delta(first)
	}
	for _, piece := range pieces(a.Thinking) {
		s.delta(object{"reasoning_content": piece})
	}
	if a.CallsFirst {
		s.calls()
	}
	for _, piece := range pieces(a.Text) {
		s.delta(object{"content": piece})
	}
	for _, piece := range pieces(a.Refusal) {
		s.delta(object{"refusal": piece})
	}
	if !a.CallsFirst {
		s.calls()
	}
	s.finish(chatStop(a.stop()))
	return append(s.list, event{data: []byte("[DONE]")})
}

// chunks makes the events of a stream.
type chunks struct {
	*chatForm

	a          *Answer
	id, object string
	list       []event
	said       int64 // tokens, by the count of deltas
}

func (s *chunks) raw(o object) { s.list = append(s.list, event{data: encode(o)}) }

func (s *chunks) chunk(choices any) object {
	o := object{"id": s.id, "object": s.object, "created": s.created(), "model": s.a.Model, "choices": choices, "system_fingerprint": "fp_0kv"}
	if s.a.Frames.Usage == UsageEvery && !s.a.NoUsage {
		u := s.a.Usage
		s.said++
		u.Output = min(s.said, u.Output)
		o["usage"] = chatUsage(&u)
	} else if s.asked() {
		o["usage"] = nil
	}
	return o
}

func (s *chunks) delta(d object) {
	if s.dialect == Gemini {
		d["role"] = "assistant" // in each
	}
	s.raw(s.chunk([]any{object{"index": 0, "delta": d, "logprobs": nil, "finish_reason": nil}}))
}

// asked reports whether the client wants usage.
func (s *chunks) asked() bool {
	o, _ := s.r.body["stream_options"].(map[string]any)
	asked, _ := o["include_usage"].(bool)
	return asked
}

// calls are one after the other, each whole at once by Gemini, and else in pieces.
func (s *chunks) calls() {
	var deltas [][]object
	for i := range s.a.Calls {
		c := &s.a.Calls[i]
		if s.dialect == Gemini {
			whole := s.call(c)
			whole["index"] = i
			deltas = append(deltas, []object{whole})
			continue
		}
		list := []object{{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}
		for _, piece := range pieces(c.Arguments) {
			list = append(list, object{"index": i, "function": object{"arguments": piece}})
		}
		deltas = append(deltas, list)
	}
	for _, d := range inOrder(deltas, s.a.Frames.Interleave) {
		s.delta(object{"tool_calls": []any{d}})
	}
}

// inOrder is all of the lists, or one of each in turn.
func inOrder(lists [][]object, mixed bool) []object {
	var out []object
	for i := 0; mixed; i++ {
		before := len(out)
		for _, l := range lists {
			if i < len(l) {
				out = append(out, l[i])
			}
		}
		if len(out) == before {
			return out
		}
	}
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// finish are the reason and the usage, at the place that the script says.
func (s *chunks) finish(reason string) {
	last := s.chunk([]any{object{"index": 0, "delta": object{}, "logprobs": nil, "finish_reason": reason}})
	usage := chatUsage(&s.a.Usage)
	place := s.a.Frames.Usage
	switch {
	case s.a.NoUsage:
	case place == UsageWithFinish, place == UsageEvery, s.dialect == Gemini && s.asked():
		last["usage"] = usage
	case s.asked() || place == UsageUnasked:
		s.raw(last)
		last = s.chunk([]any{})
		switch place {
		case UsageLastNull:
			last["choices"] = nil
		case UsageLastAbsent:
			delete(last, "choices")
		default:
		}
		last["usage"] = usage
	}
	s.raw(last)
}

// pieces cuts a text as a model's tokens do, roughly: behind each blank, and long words
// in the middle of characters never.
func pieces(text string) []string {
	const most = 12
	var out []string
	begin := 0
	for i, r := range text {
		if i > begin && (i-begin >= most || r == ' ') {
			out = append(out, text[begin:i])
			begin = i
		}
	}
	if begin < len(text) {
		out = append(out, text[begin:])
	}
	return out
}
