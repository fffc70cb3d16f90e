package dialect

import (
	"encoding/json"
	"strconv"
)

// messagesThinking is how the model is to think.
type messagesThinking struct {
	// kind is thinking's type; "" leaves the field out.
	kind   string
	budget int64
	// effort is output_config's; "" leaves it out.
	effort string
	// shown asks for a summary of what was thought.
	shown bool
}

// The types of thinking.
const (
	thinkEnabled  = "enabled"
	thinkDisabled = "disabled"
	thinkAdaptive = "adaptive"
	thinkBetween  = "between_tools"
)

// fieldEffort is how most clients call it.
const fieldEffort = "reasoning_effort"

// plan settles max_tokens and thinking, which depend on each other: max_tokens holds what is
// thought, as OpenAI's max_completion_tokens does. Where nobody says how long an answer may
// be, thinking comes on top of the usual length.
func (w *messagesWriter) plan(o *RequestOptions) {
	w.limit = w.r.MaxTokens
	room := int64(0)
	if w.limit <= 0 && o != nil {
		w.limit = o.MaxTokens
	}
	if w.limit <= 0 {
		w.limit = DefaultMaxTokens
		room = 1
	}
	t := w.r.Thinking
	switch {
	case t == nil && w.forced() && w.model.stoppable():
		w.thinking.kind = thinkDisabled
		w.warn("tool_choice", "this model thinks by itself, but not where a tool must be called: it was told not to")
	case t == nil:
	case t.Off:
		w.dontThink()
	case w.model.has(claudeAdaptive):
		w.thinkAdaptive(t, room)
	default:
		w.thinkWithin(t, room)
	}
}

// dontThink turns thinking off, as the model has it.
func (w *messagesWriter) dontThink() {
	switch m := w.model; {
	case m.other:
		w.thinking.kind = thinkDisabled
	case m.thinker || m.has(claudeAlways) && !m.sonnet:
		w.thinking.effort = "low"
		w.warn(fieldEffort, "this model always thinks: it was told to make the least effort")
	case m.has(claudeAlways):
		w.thinking.kind = thinkBetween
	case m.has(claudeThinking):
		w.thinking.kind = thinkDisabled
	default: // off unless it is asked for
	}
}

// thinkAdaptive is for models that decide how much to think, guided by an effort.
func (w *messagesWriter) thinkAdaptive(t *Thinking, room int64) {
	effort := t.Effort
	if effort == "" {
		effort = EffortOf(t.Budget)
	}
	w.limit += room * max(BudgetOf(effort), 0)
	switch effort {
	case "":
	case "minimal":
		effort = "low"
	case "low", "medium", "high", effortMax:
	case effortXHigh:
		if !w.model.has(claudeNoSampling) {
			effort = "high" // the highest that all the models before took
		}
	default:
		w.warn(fieldEffort, "the service doesn't know this effort")
		effort = ""
	}
	w.thinking.effort = effort
	if w.forced() {
		w.warn(fieldEffort, "the service doesn't think where a tool must be called")
		if w.model.stoppable() {
			w.thinking.kind = thinkDisabled
			if effort == effortXHigh || effort == effortMax {
				w.thinking.effort = "high" // the highest that Opus 5 takes without thinking
			}
		}
		return
	}
	w.thinking.kind = thinkAdaptive
	w.thinking.shown = w.model.has(claudeOmits)
}

// thinkWithin is for models that are given a budget.
func (w *messagesWriter) thinkWithin(t *Thinking, room int64) {
	budget := t.Budget
	if budget == 0 {
		budget = BudgetOf(t.Effort)
	}
	switch {
	case !w.model.other && !w.model.has(claudeThinks), budget == 0:
		w.warn(fieldEffort, "this model doesn't think")
		return
	case w.forced():
		w.warn(fieldEffort, "the service doesn't think where a tool must be called")
		return
	case w.unthought():
		w.warn(fieldEffort, "the service doesn't think on in a turn that was begun without")
		return
	default:
	}
	w.limit += room * budget
	if budget >= w.limit {
		budget = w.limit / 2 //nolint:mnd // as much for the answer
	}
	if budget < budgetLow {
		w.warn(fieldEffort, "max_tokens leaves no room to think in")
		return
	}
	w.thinking = messagesThinking{kind: thinkEnabled, budget: budget}
}

// forced reports whether a tool must be called.
func (w *messagesWriter) forced() bool {
	c := w.r.Choice
	return c != nil && (c.Kind == ChoiceAny || c.Kind == ChoiceTool) && len(w.r.Tools) > 0
}

// unthought reports whether the answer would go on with a turn that the model began without
// thinking that it can be shown: of other services', or of none. Results of tools don't end
// a turn.
func (w *messagesWriter) unthought() bool {
	for i := len(w.turns) - 1; i >= 0; i-- {
		t := &w.turns[i]
		if t.Role == User {
			if i == len(w.turns)-1 && t.Parts[0].Kind != ToolResult {
				return false // a turn of its own
			}
			continue
		}
		return t.Parts[0].Kind != Reasoning
	}
	return false
}

// reasoning writes thinking and output_config.
func (w *messagesWriter) reasoning() {
	switch w.thinking.kind {
	case "":
	case thinkEnabled:
		w.member("thinking")
		w.text(`{"type":"enabled","budget_tokens":`)
		w.b = strconv.AppendInt(w.b, w.thinking.budget, 10)
		w.text(`}`)
	default:
		w.member("thinking")
		w.text(`{"type":"` + w.thinking.kind + `"`)
		if w.thinking.shown {
			w.text(`,"display":"summarized"`)
		}
		w.text(`}`)
	}
	format := w.r.Format
	if w.thinking.effort == "" && format == nil {
		return
	}
	w.member("output_config")
	w.text(`{`)
	if w.thinking.effort != "" {
		w.text(`"effort":"` + w.thinking.effort + `"`)
	}
	if format != nil {
		w.comma(w.thinking.effort == "")
		w.format(format)
	}
	w.text(`}`)
}

func (w *messagesWriter) format(f *Format) {
	const field = "response_format"
	switch {
	case f.Schema == nil:
		w.refuse(field, "the service has no mode for just any JSON: give a schema (json_schema)")
	case !w.model.other && !w.model.has(claudeStrict):
		w.refuse(field, "this model has no structured outputs")
	default:
		w.text(`"format":{"type":"json_schema","schema":`)
		w.raw(f.Schema)
		w.text(`}`)
	}
}

// sampling writes temperature, top_p and top_k as far as the model takes them.
func (w *messagesWriter) sampling() {
	r, thinks := w.r, w.thinking.kind == thinkEnabled || w.thinking.kind == thinkAdaptive
	temperature := w.sampler("temperature", r.Temperature, func(v float64) string {
		if thinks && v != 1 {
			return "the service takes none but 1 while the model thinks"
		}
		return ""
	})
	if v, _ := temperature.Float64(); v > 1 {
		w.warn("temperature", "the service's scale ends at 1: the highest was taken")
		temperature = "1"
	}
	topP := w.sampler("top_p", r.TopP, func(v float64) string {
		const least = 0.95
		switch {
		case thinks && v < least:
			return "the service takes none below 0.95 while the model thinks"
		case temperature != "" && v != 1 && w.model.has(claudeStrict):
			return "this model takes temperature or top_p: temperature was taken"
		default:
			return ""
		}
	})
	if temperature != "" && w.model.has(claudeStrict) {
		topP = ""
	}
	topK := r.TopK
	if v, err := topK.Float64(); err != nil || v <= 0 {
		topK = "" // engines write 0 or -1 for none
	}
	topK = w.sampler("top_k", topK, func(float64) string {
		if thinks {
			return "the service takes none while the model thinks"
		}
		return ""
	})
	w.number("temperature", temperature)
	w.number("top_p", topP)
	w.number("top_k", topK)
}

// sampler returns the value that may be sent, if any: why says what is against it.
func (w *messagesWriter) sampler(field string, n json.Number, why func(v float64) string) json.Number {
	v, err := n.Float64()
	if n == "" || err != nil {
		return ""
	}
	reason := why(v)
	if w.model.has(claudeNoSampling) {
		if v == 1 { // what it is anyhow
			return ""
		}
		reason = "this model takes none"
	}
	if reason == "" {
		return n
	}
	w.warn(field, reason)
	return ""
}

func (w *messagesWriter) number(name string, n json.Number) {
	if n != "" {
		w.member(name)
		w.text(n.String())
	}
}
