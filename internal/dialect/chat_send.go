package dialect

import (
	"encoding/json"
	"strings"
)

func (chatCodec) EncodeRequest(r *Request, o *RequestOptions, note func(Warning)) ([]byte, error) {
	e := chatWriter{note: note, gemini: geminiOf(r.Model)}
	e.w.b = make([]byte, 0, 1024)
	e.w.open('{')
	e.w.key("model").str(r.Model)
	if err := e.messages(r); err != nil {
		return nil, err
	}
	if err := e.tools(r); err != nil {
		return nil, err
	}
	if len(r.Stop) > maxStops {
		return nil, &UnsupportedError{Field: "stop", Service: chatName, Reason: "it takes four stop sequences at most"}
	}
	e.reasons = openAIReasons(r.Model) && (o == nil || !o.OldMaxTokens)
	if e.reasons && len(r.Stop) > 0 {
		return nil, &UnsupportedError{
			Field: "stop", Service: chatName, Reason: "this model takes no stop sequences: leave them out, or take another model",
		}
	}
	e.limits(r, o)
	e.form(r)
	if r.Stream {
		// Usage is asked for in any case: whoever counts tokens here needs it, and clients
		// that didn't ask don't get to see it.
		e.w.key("stream").bool(true)
		e.w.key("stream_options").raw(`{"include_usage":true}`)
	}
	if err := Leftover(r.Rest, chatName, e.takes, note); err != nil {
		return nil, err
	}
	e.w.end('}')
	return e.w.b, nil
}

// What the API takes at most: bytes of a tool's name, and stop sequences.
const (
	maxToolName = 64
	maxStops    = 4
)

// chatWriter writes one body.
type chatWriter struct {
	w      jsonWriter
	note   func(Warning)
	gemini gemini
	// reasons: the model is one of OpenAI's that takes no sampling parameters.
	reasons bool
}

func (e *chatWriter) warn(field, reason string) { e.note(Warning{Field: field, Reason: reason}) }

// takes writes the members of other bodies that mean the same here.
func (e *chatWriter) takes(m *Member) bool {
	same := m.From == chatName && !strings.Contains(m.Name, ".") // not those of an inner object
	if m.From == responsesName {
		switch m.Name {
		case "service_tier", "prompt_cache_key", "safety_identifier":
			same = true
		default:
		}
	}
	if same {
		e.w.key(m.Name).raw(string(m.Raw))
	}
	return same
}

func (e *chatWriter) tools(r *Request) error {
	w := &e.w
	if len(r.Tools) > 0 {
		w.key("tools").open('[')
		for i := range r.Tools {
			t := &r.Tools[i]
			if len(t.Name) > maxToolName {
				return &UnsupportedError{Field: at("tools", i) + ".name", Service: chatName, Reason: "names of tools have 64 bytes at most"}
			}
			w.open('{')
			w.key("type").str("function")
			w.key("function").open('{')
			w.key("name").str(t.Name)
			if t.Description != "" {
				w.key("description").str(t.Description)
			}
			if len(t.Schema) > 0 {
				w.key("parameters").raw(string(t.Schema))
			}
			e.flag("strict", t.Strict)
			w.end('}')
			w.end('}')
			e.cache(at("tools", i), t.Cache)
		}
		w.end(']')
	}
	if len(r.Tools) == 0 { // the API refuses both without any
		if r.Choice != nil && (r.Choice.Kind == ChoiceAny || r.Choice.Kind == ChoiceTool) {
			return &UnsupportedError{Field: "tool_choice", Service: chatName, Reason: "there are no tools that could be called"}
		}
		return nil
	}
	if r.Choice != nil {
		e.choice(r.Choice)
	}
	e.flag("parallel_tool_calls", r.Parallel)
	return nil
}

func (e *chatWriter) choice(c *ToolChoice) {
	w := e.w.key("tool_choice")
	switch c.Kind {
	case ChoiceNone:
		w.str("none")
	case ChoiceAny:
		w.str("required")
	case ChoiceTool:
		w.open('{')
		w.key("type").str("function")
		w.key("function").open('{')
		w.key("name").str(c.Name)
		w.end('}')
		w.end('}')
	case ChoiceAuto:
		w.str("auto")
	}
}

func (e *chatWriter) flag(name string, v *bool) {
	if v != nil {
		e.w.key(name).bool(*v)
	}
}

func (e *chatWriter) cache(field string, mark json.RawMessage) {
	if len(mark) > 0 {
		e.warn(field+".cache_control", "the service decides itself what it caches")
	}
}

func (e *chatWriter) limits(r *Request, o *RequestOptions) {
	w := &e.w
	if r.MaxTokens > 0 {
		name := "max_completion_tokens"
		if o != nil && o.OldMaxTokens {
			name = "max_tokens"
		}
		w.key(name).int(r.MaxTokens)
	}
	e.sampler("temperature", r.Temperature)
	e.sampler("top_p", r.TopP)
	if r.TopK != "" {
		e.warn("top_k", "the API has no such bound; top_p is the nearest")
	}
	if len(r.Stop) > 0 {
		w.key("stop").open('[')
		for _, s := range r.Stop {
			w.str(s)
		}
		w.end(']')
	}
	if r.User != "" {
		w.key("user").str(r.User)
	}
}

// sampler writes a parameter of sampling, where the model takes any. 1 is what both are anyhow.
func (e *chatWriter) sampler(field string, n json.Number) {
	switch v, err := n.Float64(); {
	case n == "":
	case !e.reasons:
		e.w.key(field).raw(string(n))
	case err != nil || v != 1:
		e.warn(field, "this model takes none")
	default:
	}
}

// form writes what the answer is to be like.
func (e *chatWriter) form(r *Request) {
	w := &e.w
	switch t := r.Thinking; {
	case t == nil:
	case t.Off:
		e.warn("thinking", "not all models of the service can be told not to reason: they do as they are set up")
	default:
		effort := t.Effort
		if effort == "" && t.Budget > 0 {
			effort = EffortOf(t.Budget)
			e.warn("thinking.budget_tokens", "it became an effort: the service bounds reasoning by words only")
		}
		if effort == "" {
			e.warn("thinking", "the model decides itself whether and how much it reasons")
		} else {
			w.key("reasoning_effort").str(effort)
		}
	}
	f := r.Format
	if f == nil {
		return
	}
	w.key("response_format").open('{')
	if f.Schema == nil {
		w.key("type").str("json_object")
		w.end('}')
		return
	}
	name := f.Name
	if name == "" {
		name = "answer" // the API wants one
	}
	w.key("type").str("json_schema")
	w.key("json_schema").open('{')
	w.key("name").str(name)
	w.key("schema").raw(string(f.Schema))
	e.flag("strict", f.Strict)
	w.end('}')
	w.end('}')
}
