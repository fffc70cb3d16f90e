package requests

// chat is a chat completions request.
func (g *Generator) chat() []byte {
	var f fields
	g.sampling(&f)
	msgs := g.turns()
	resume := g.chance(5)
	if resume {
		var m fields
		m.text("role", "assistant")
		m.text("content", g.saying())
		msgs = append(msgs, m.String())
	}
	f.raw("messages", list(msgs))
	switch {
	case resume:
		f.raw("continue_final_message", "true")
		f.raw("add_generation_prompt", "false")
	case g.chance(8):
		f.raw("add_generation_prompt", pick(g, "true", "false"))
	default:
	}
	if g.chance(40) {
		f.raw("tools", list(g.some(4, g.chatTool)))
		if g.chance(40) {
			f.raw("tool_choice", pick(g, `"auto"`, `"none"`, `"required"`, "null"))
		}
	}
	if g.chance(12) {
		f.text("reasoning_effort", pick(g, "none", "minimal", "low", "medium", "high"))
	}
	if g.chance(25) {
		f.raw("chat_template_kwargs", g.kwargs())
	}
	if g.chance(8) {
		f.raw("documents", list(g.some(2, func() string {
			var d fields
			d.text("title", g.prose())
			d.text("text", g.prose())
			return d.String()
		})))
	}
	if g.chance(5) {
		f.raw("add_special_tokens", pick(g, "true", "false"))
	}
	if g.chance(5) {
		f.raw("response_format", pick(g, `{"type":"text"}`, `{"type":"json_object"}`))
	}
	if g.chance(3) {
		f.raw("truncate_prompt_tokens", pick(g, "5", "40", "20000"))
		if g.chance(50) {
			f.text("truncation_side", pick(g, "left", "right"))
		}
	}
	return []byte(f.String())
}

func (g *Generator) kwargs() string {
	var f fields
	if g.chance(50) {
		f.raw("enable_thinking", pick(g, "true", "false", "null"))
	}
	if g.chance(30) {
		f.raw("topic", g.value(1))
	}
	if g.chance(20) {
		f.raw("unknown_argument", g.value(1))
	}
	if g.chance(10) {
		f.text("reasoning_effort", pick(g, "low", "auto", "strange"))
	}
	if g.chance(5) {
		f.text("bos_token", "<x>")
	}
	if g.chance(5) {
		f.raw("add_generation_prompt", "false")
	}
	return f.String()
}

// turns is a conversation: mostly in good order, with tool calls and their results.
func (g *Generator) turns() []string {
	var msgs []string
	say := func(role string) {
		var m fields
		m.text("role", role)
		if role == "assistant" && g.chance(8) {
			if g.chance(50) {
				m.raw("content", "null")
			}
		} else {
			m.raw("content", g.content())
		}
		if g.chance(4) {
			m.text("name", "bob")
		}
		if g.chance(3) {
			m.raw("unknown_field", g.value(1))
		}
		if role == "assistant" && g.chance(20) {
			m.text(pick(g, "reasoning", "reasoning_content"), g.prose())
		}
		msgs = append(msgs, m.String())
	}
	if g.chance(50) {
		say(pick(g, "system", "system", "system", "developer"))
	}
	for range 1 + g.IntN(4) {
		say("user")
		if g.chance(25) {
			msgs = append(msgs, g.toolRound()...)
		}
		if g.chance(70) {
			say("assistant")
		}
		if g.chance(3) {
			say(pick(g, "system", "developer", "observer"))
		}
	}
	if g.chance(70) {
		say("user")
	}
	return msgs
}

// content is a message's content: a string or parts.
func (g *Generator) content() string {
	if g.chance(75) && !(g.Media && g.chance(50)) {
		return quote(g.prose())
	}
	if g.chance(5) {
		return "[]"
	}
	return list(g.some(3, g.orMedia(func() string {
		var p fields
		p.text("type", "text")
		p.text("text", g.prose())
		if g.chance(15) {
			p.raw("cache_control", `{"type":"ephemeral"}`)
		}
		return p.String()
	}, g.mediaPart)))
}

// toolRound is an assistant that calls tools, and their results.
func (g *Generator) toolRound() []string {
	var ids []string
	var m fields
	m.text("role", "assistant")
	switch {
	case g.chance(30):
		m.raw("content", "null")
	case g.chance(80):
		m.raw("content", g.content())
	default:
	}
	if g.chance(20) {
		m.text("reasoning_content", g.saying())
	}
	m.raw("tool_calls", list(g.some(3, func() string {
		ids = append(ids, g.id())
		var fn, call fields
		fn.text("name", pick(g, "get_weather", "search", "größe"))
		fn.raw("arguments", quote(g.arguments()))
		if g.chance(50) {
			call.text("id", ids[len(ids)-1])
			call.text("type", "function")
			call.raw("function", fn.String())
		} else {
			call.raw("function", fn.String())
			call.text("type", "function")
			call.text("id", ids[len(ids)-1])
		}
		if g.chance(10) {
			call.raw("index", "0")
		}
		return call.String()
	})))
	out := []string{m.String()}
	for _, id := range ids {
		var r fields
		r.text("role", "tool")
		r.text("tool_call_id", id)
		r.raw("content", g.content())
		if g.chance(20) {
			r.text("name", "get_weather")
		}
		out = append(out, r.String())
	}
	return out
}

// arguments is the text of a call's arguments, mostly an object.
func (g *Generator) arguments() string {
	switch {
	case g.chance(85):
		return g.object(2)
	case g.chance(30):
		return ""
	default:
		return pick(g, "[1]", "null", "{bad", `"text"`, " { \"a\" : 1 } ", "{\"a\":NaN}", "{\"a\": \"\\u00e9\\n\"}")
	}
}

func (g *Generator) chatTool() string {
	var fn, t fields
	fn.text("name", pick(g, "get_weather", "search", "größe")+pick(g, "", "_2"))
	if g.chance(80) {
		fn.text("description", g.prose())
	}
	if g.chance(80) {
		fn.raw("parameters", g.schema())
	}
	if g.chance(20) {
		fn.raw("strict", pick(g, "true", "false", "null"))
	}
	if g.chance(90) {
		t.text("type", "function")
	}
	t.raw("function", fn.String())
	return t.String()
}

// completion is a completions request.
func (g *Generator) completion() []byte {
	var f fields
	g.sampling(&f)
	if g.chance(80) {
		f.text("prompt", g.saying())
	} else {
		f.raw("prompt", list(g.some(3, func() string { return quote(g.saying()) })))
	}
	if g.chance(15) {
		f.raw("add_special_tokens", pick(g, "true", "false"))
	}
	if g.chance(10) {
		f.raw("echo", "true")
	}
	if g.chance(5) {
		f.raw("truncate_prompt_tokens", pick(g, "3", "20", "20000"))
	}
	return []byte(f.String())
}
