package dialect

import (
	"encoding/json"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func (d *messagesReader) tools(v jsonscan.Value) []Tool {
	if !d.array("tools", v) {
		return nil
	}
	var list []Tool
	for it := v.Iter(); it.Next() && d.err == nil; {
		list = append(list, d.tool("tools"+index(len(list)), it.Value()))
	}
	return list
}

func (d *messagesReader) tool(field string, v jsonscan.Value) Tool {
	if t := v.Get("type"); t.Exists() && !t.Is("custom") {
		d.refuse(field, "only tools of type custom can be carried over")
		return Tool{}
	}
	t := Tool{Name: d.str(field+".name", v.Get("name")), Cache: cacheMark(v)}
	for it := v.Iter(); it.Next(); {
		key, value := string(it.Key()), it.Value()
		if !value.Exists() {
			continue
		}
		switch key {
		case "name", "type", "cache_control":
		case "description":
			t.Description = d.str(field+".description", value)
		case "input_schema":
			if d.object(field+".input_schema", value) {
				t.Schema = json.RawMessage(value.Raw())
			}
		case "strict":
			strict := d.bool(field+".strict", value)
			t.Strict = &strict
		case "allowed_callers":
			d.callers(field+".allowed_callers", value)
		case "eager_input_streaming", "defer_loading", "input_examples":
			if on, isBool := value.Bool(); on || !isBool {
				d.warn(field+"."+key, reasonHint)
			}
		default:
			d.warn(field, "has members that other services don't take")
		}
	}
	return t
}

// callers checks that the model itself may call a tool: code that the service runs can't.
func (d *messagesReader) callers(field string, v jsonscan.Value) {
	direct := v.Len() == 0
	for it := v.Iter(); it.Next(); {
		direct = direct || it.Value().Is("direct")
	}
	switch {
	case !direct:
		d.refuse(field, "the service would call this tool by itself")
	case v.Len() > 1:
		d.warn(field, "the tool is called directly only")
	default:
	}
}

func (d *messagesReader) choice(r *Request, v jsonscan.Value) {
	if !d.object("tool_choice", v) {
		return
	}
	c := &ToolChoice{}
	switch kind, _ := v.Get("type").Str(); kind {
	case "auto":
		c.Kind = ChoiceAuto
	case "any":
		c.Kind = ChoiceAny
	case "none":
		c.Kind = ChoiceNone
	case "tool":
		c.Kind = ChoiceTool
		c.Name = d.str("tool_choice.name", v.Get("name"))
	default:
		d.bad("tool_choice.type", reasonKind)
	}
	r.Choice = c
	if off := v.Get("disable_parallel_tool_use"); off.Exists() {
		parallel := !d.bool("tool_choice.disable_parallel_tool_use", off)
		r.Parallel = &parallel
	}
}

// thinking reads how the model is to think. What output_config says of its effort may have
// come before.
func (d *messagesReader) thinking(r *Request, v jsonscan.Value) {
	if !d.object("thinking", v) {
		return
	}
	t := &Thinking{}
	if r.Thinking != nil {
		t.Effort = r.Thinking.Effort
	}
	switch kind, _ := v.Get("type").Str(); kind {
	case "enabled":
		t.Budget = d.int("thinking.budget_tokens", v.Get("budget_tokens"))
	case "adaptive":
	case "disabled":
		t = &Thinking{Off: true}
	case "between_tools":
		d.warn("thinking.type", "other services can't think between tools only: thinking is off")
		t = &Thinking{Off: true}
	default:
		d.bad("thinking.type", reasonKind)
	}
	if v.Get("display").Is("omitted") {
		d.warn("thinking.display", "thinking is shown as the service shows it")
	}
	r.Thinking = t
}

func (d *messagesReader) output(r *Request, v jsonscan.Value) {
	if !d.object("output_config", v) {
		return
	}
	for it := v.Iter(); it.Next(); {
		switch key, value := string(it.Key()), it.Value(); {
		case !value.Exists():
		case key == "effort":
			d.effort(r, d.str("output_config.effort", value))
		case key == "format":
			d.format(r, "output_config.format", value)
		default:
			d.warn("output_config", "has members that other services don't take")
		}
	}
}

func (d *messagesReader) effort(r *Request, effort string) {
	if effort == effortMax {
		effort = effortXHigh // the highest that there is elsewhere
	}
	if r.Thinking == nil {
		r.Thinking = &Thinking{}
	}
	if !r.Thinking.Off {
		r.Thinking.Effort = effort
	}
}

func (d *messagesReader) format(r *Request, field string, v jsonscan.Value) {
	if !d.object(field, v) {
		return
	}
	if !v.Get("type").Is("json_schema") {
		d.bad(field+".type", "must be json_schema")
	}
	if schema := v.Get("schema"); d.object(field+".schema", schema) {
		strict := true
		// The name is for APIs that must have one.
		r.Format = &Format{Schema: json.RawMessage(schema.Raw()), Name: "answer", Strict: &strict}
	}
}
