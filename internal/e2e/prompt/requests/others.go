package requests

// messages is a request of the Anthropic messages API.
func (g *Generator) messages() []byte {
	var f fields
	g.sampling(&f)
	f.raw("max_tokens", "2048")
	switch {
	case g.chance(30):
		f.text("system", g.prose())
	case g.chance(35):
		f.raw("system", list(g.some(3, func() string {
			return g.textBlock(pick(g, "", "", "x-anthropic-billing-header: cch=1"))
		})))
	default:
	}
	f.raw("messages", list(g.blocks()))
	if g.chance(40) {
		f.raw("tools", list(g.some(3, func() string {
			var t fields
			t.text("name", pick(g, "get_weather", "search"))
			if g.chance(80) {
				t.text("description", g.prose())
			}
			t.raw("input_schema", g.schema())
			return t.String()
		})))
		if g.chance(30) {
			f.raw("tool_choice", pick(g, `{"type":"auto"}`, `{"type":"any"}`, `{"type":"none"}`))
		}
	}
	if g.chance(15) {
		f.raw("thinking", g.thinking())
	}
	if g.chance(10) {
		f.raw("output_config", pick(g, `{"effort":"low"}`, `{"effort":"high"}`))
	}
	if g.chance(10) {
		f.raw("chat_template_kwargs", g.kwargs())
	}
	return []byte(f.String())
}

func (g *Generator) thinking() string {
	if g.Thinking && g.chance(50) {
		return `{"type":"disabled"}`
	}
	return pick(g, `{"type":"enabled","budget_tokens":1024}`, `{"type":"adaptive"}`)
}

func (g *Generator) textBlock(start string) string {
	var b fields
	b.text("type", "text")
	b.text("text", start+g.prose())
	if g.chance(20) {
		b.raw("cache_control", `{"type":"ephemeral"}`)
	}
	return b.String()
}

// blocks are the turns of a messages request.
func (g *Generator) blocks() []string {
	var msgs []string
	turn := func(role, content string) {
		var m fields
		m.text("role", role)
		m.raw("content", content)
		msgs = append(msgs, m.String())
	}
	for range 1 + g.IntN(3) {
		if g.chance(60) {
			turn("user", quote(g.prose()))
		} else {
			turn("user", list(g.some(3, g.orMedia(func() string { return g.textBlock("") }, g.imageBlock))))
		}
		if g.chance(6) {
			turn("system", quote(g.prose()))
		}
		if !g.chance(70) {
			continue
		}
		var answer, results []string
		if g.chance(25) {
			var b fields
			b.text("type", "thinking")
			b.text("thinking", g.prose())
			b.text("signature", "s")
			answer = append(answer, b.String())
		}
		if g.chance(80) {
			answer = append(answer, g.textBlock(""))
		}
		if g.chance(40) {
			for range 1 + g.IntN(2) {
				call, result := g.toolUse()
				answer, results = append(answer, call), append(results, result)
			}
		}
		turn("assistant", list(answer))
		if len(results) > 0 {
			if g.chance(40) {
				results = append(results, g.textBlock(""))
			}
			turn("user", list(results))
		}
	}
	turn("user", quote(g.saying()))
	return msgs
}

func (g *Generator) toolUse() (call, result string) {
	id := g.id()
	var c, r fields
	c.text("type", "tool_use")
	c.text("id", id)
	c.text("name", "search")
	c.raw("input", g.object(2))
	r.text("type", "tool_result")
	r.text("tool_use_id", id)
	switch {
	case g.chance(60):
		r.text("content", g.prose())
	case g.chance(80):
		r.raw("content", list(g.some(2, g.orMedia(func() string { return g.textBlock("") }, g.imageBlock))))
	default:
	}
	return c.String(), r.String()
}

// responses is a request of the responses API.
func (g *Generator) responses() []byte {
	var f fields
	g.sampling(&f)
	if g.chance(40) {
		f.text("instructions", g.prose())
	}
	if g.chance(25) {
		f.text("input", g.saying())
	} else {
		f.raw("input", list(g.items()))
	}
	if g.chance(40) {
		f.raw("tools", list(g.some(3, func() string {
			var t fields
			t.text("type", "function")
			t.text("name", pick(g, "get_weather", "search"))
			if g.chance(80) {
				t.text("description", g.prose())
			}
			t.raw("parameters", pick(g, "null", g.schema(), g.schema()))
			t.raw("strict", pick(g, "true", "false", "null"))
			return t.String()
		})))
		if g.chance(30) {
			f.text("tool_choice", pick(g, "auto", "none", "required"))
		}
	}
	if g.chance(15) {
		f.raw("reasoning", pick(g, `{"effort":"low"}`, `{"effort":"high","summary":"auto"}`, `{}`))
	}
	if g.chance(10) {
		f.raw("chat_template_kwargs", g.kwargs())
	}
	return []byte(f.String())
}

// items are the input of a responses request.
func (g *Generator) items() []string {
	var out []string
	user := func() {
		var m fields
		if g.chance(50) {
			m.text("type", "message")
		}
		m.text("role", pick(g, "user", "user", "user", "user", "system", "developer"))
		if g.chance(60) {
			m.text("content", g.prose())
		} else {
			m.raw("content", list(g.some(2, g.orMedia(func() string {
				var p fields
				p.text("type", "input_text")
				p.text("text", g.prose())
				return p.String()
			}, g.inputImage))))
		}
		out = append(out, m.String())
	}
	for range 1 + g.IntN(3) {
		user()
		if g.chance(25) {
			var r fields
			r.text("type", "reasoning")
			if g.chance(50) {
				r.text("id", "rs_1")
			}
			r.raw("summary", pick(g, "[]", `[{"type":"summary_text","text":"sum"}]`))
			if g.chance(60) {
				r.raw("content", `[{"type":"reasoning_text","text":`+quote(g.prose())+`}]`)
			}
			out = append(out, r.String())
		}
		if g.chance(35) {
			out = append(out, g.functionCalls()...)
		}
		if g.chance(60) {
			var m fields
			if g.chance(50) {
				m.text("role", "assistant")
				m.text("content", g.prose())
			} else {
				m.text("type", "message")
				m.text("role", "assistant")
				m.raw("content", `[{"type":"output_text","text":`+quote(g.prose())+pick(g, "", `,"annotations":[]`)+`}]`)
				if g.chance(20) {
					m.text("status", pick(g, "completed", "incomplete"))
				}
			}
			out = append(out, m.String())
		}
	}
	if g.chance(80) {
		user()
	}
	return out
}

func (g *Generator) functionCalls() []string {
	var out, results []string
	for range 1 + g.IntN(2) {
		id := g.id()
		var c, r fields
		c.text("type", "function_call")
		c.text("call_id", id)
		c.text("name", "search")
		c.raw("arguments", quote(g.arguments()))
		r.text("type", "function_call_output")
		r.text("call_id", id)
		r.text("output", g.prose())
		out, results = append(out, c.String()), append(results, r.String())
	}
	return append(out, results...)
}
