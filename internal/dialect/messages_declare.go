package dialect

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// anyObject is the schema of arguments that nobody described.
const anyObject = `{"type":"object"}`

// tools declares the tools. The API wants them wherever the conversation has calls: where
// the client doesn't declare any more, those that were called are, and none may be.
func (w *messagesWriter) tools() {
	tools := w.r.Tools
	if len(tools) == 0 {
		tools = w.called()
		if len(tools) == 0 {
			return
		}
		w.warn("tools", "the tools that were called are declared: the service wants them")
	}
	w.member("tools")
	w.text(`[`)
	for i := range tools {
		w.comma(i == 0)
		w.tool(&tools[i])
	}
	w.text(`]`)
	if len(w.r.Tools) == 0 {
		w.member("tool_choice")
		w.text(`{"type":"none"}`)
	}
}

// called lists the tools that the conversation has calls of.
func (w *messagesWriter) called() (tools []Tool) {
	seen := map[string]bool{}
	for i := range w.turns {
		for _, p := range w.turns[i].Parts {
			if p.Kind == ToolCall && !seen[p.Name] {
				seen[p.Name] = true
				tools = append(tools, Tool{Name: p.Name})
			}
		}
	}
	return tools
}

func (w *messagesWriter) tool(t *Tool) {
	w.text(`{"name":`)
	w.str(t.Name)
	if t.Description != "" {
		w.text(`,"description":`)
		w.str(t.Description)
	}
	w.text(`,"input_schema":`)
	w.schema(t.Schema)
	if t.Strict != nil && *t.Strict {
		if w.model.other || w.model.has(claudeStrict) {
			w.text(`,"strict":true`)
		} else {
			w.warnOnce("tools[].strict", "this model may stray from the schema")
		}
	}
	if t.Cache != nil {
		w.text(`,"cache_control":`)
		w.raw(t.Cache)
	}
	w.text(`}`)
}

// schema writes a tool's schema. The API wants its type said.
func (w *messagesWriter) schema(schema []byte) {
	o, err := jsonscan.Parse(schema, 0)
	if err != nil || o.Len() == 0 {
		w.text(anyObject)
		return
	}
	if o.Value("type").Exists() {
		w.raw(schema)
		return
	}
	var e jsonscan.Edit
	e.SetString("type", "object")
	typed, err := e.Apply(o)
	if err != nil {
		typed = schema
	}
	w.raw(typed)
}

// choice writes tool_choice.
func (w *messagesWriter) choice() {
	r := w.r
	alone := r.Parallel != nil && !*r.Parallel
	if len(r.Tools) == 0 || r.Choice == nil && !alone {
		return
	}
	c := ToolChoice{}
	if r.Choice != nil {
		c = *r.Choice
	}
	if w.forced() && w.model.unforced() {
		w.refuse("tool_choice", "this model can't be made to call a tool: send auto, or take another model")
	}
	w.member("tool_choice")
	switch c.Kind {
	case ChoiceNone:
		w.text(`{"type":"none"}`) // nothing to be parallel
		return
	case ChoiceAny:
		w.text(`{"type":"any"`)
	case ChoiceTool:
		w.text(`{"type":"tool","name":`)
		w.str(c.Name)
	case ChoiceAuto:
		w.text(`{"type":"auto"`)
	}
	if alone {
		w.text(`,"disable_parallel_tool_use":true`)
	}
	w.text(`}`)
}
