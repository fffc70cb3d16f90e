package local

import (
	"slices"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// reservedNames are template arguments that are parameters of the functions that
// the engine calls on the way to the template: a request that names them changes
// more than the template's variables, or is refused.
//
//nolint:gochecknoglobals // a table
var reservedNames = [...]string{
	"messages", "tools", "tokenize", "conversation", "model_config", "tokenizer", "chat_template", "self",
	"padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask",
	"tokenizer_kwargs", "conversations",
}

// reserved returns the first such argument, "" if there is none.
func reserved(d *jinja.Dict) string {
	for _, name := range reservedNames {
		if _, found := d.Get(name); found {
			return name
		}
	}
	return ""
}

// unset reports whether the engine takes an argument for absent.
func unset(v jinja.Value) bool {
	return v == jinja.Value(jinja.None{}) || v == jinja.Value(jinja.String("auto"))
}

const usualVariables = 16

// variables makes what a template sees: special tokens, beneath the model's default
// arguments, beneath the request's, beneath what the API itself sets; of those
// only what the template reads. Then the conversation.
func (q *query) variables(a *assets, t *chatTemplate, conversation *jinja.List) (*jinja.Dict, error) {
	vars := jinja.NewDict(usualVariables)
	for _, s := range a.specials {
		vars.Set(s.name, jinja.String(s.token.Content))
	}
	documents := jinja.Value(jinja.None{})
	take := func(name string, v jinja.Value) {
		switch {
		case unset(v):
		case name == "documents":
			documents = v
		case name == "add_generation_prompt", name == "continue_final_message":
			// The API sets them always, whatever the arguments say.
		case t.takes(name):
			vars.Set(name, v)
		default:
		}
	}
	for _, d := range [...]*jinja.Dict{a.defaults, q.user} {
		if d == nil {
			continue
		}
		for k, v := range d.All() {
			if name, ok := k.(jinja.String); ok {
				take(string(name), v)
			}
		}
	}
	if q.documents != nil {
		documents = q.documents
	}
	if q.effort != "" {
		take("reasoning_effort", jinja.String(q.effort))
		if q.user == nil || !has(q.user, "enable_thinking") {
			take("enable_thinking", jinja.Bool(q.effort != "none"))
		}
	}
	if err := checkDocuments(documents); err != nil {
		return nil, err
	}
	vars.Set("messages", conversation)
	vars.Set("tools", jinja.None{})
	if q.tools != nil {
		vars.Set("tools", q.tools)
	}
	vars.Set("documents", documents)
	vars.Set("add_generation_prompt", jinja.Bool(q.generate))
	return vars, nil
}

func has(d *jinja.Dict, key string) bool {
	_, found := d.Get(key)
	return found
}

// checkDocuments: transformers takes a list of objects or nothing.
func checkDocuments(v jinja.Value) error {
	if v == jinja.Value(jinja.None{}) {
		return nil
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return errField
	}
	for i := range list.Len() {
		if _, isDict := list.At(i).(*jinja.Dict); !isDict {
			return errField
		}
	}
	return nil
}

// probe finds out about the model's templates what vLLM finds out at its start.
func (a *assets) probe() {
	a.mergeSystem, a.noThinking = true, "low"
	if a.plain == nil {
		return
	}
	a.mergeSystem = a.plain.refusesSystem() || a.tools != a.plain && a.tools.refusesSystem()
	if a.model.DisabledThinking != "" {
		a.noThinking = a.model.DisabledThinking
		return
	}
	none, ok := a.effortText("none")
	same := slices.ContainsFunc([]string{"low", "medium", "high", "xhigh", "max"}, func(effort string) bool {
		text, rendered := a.effortText(effort)
		return rendered && text == none
	})
	if ok && !same {
		a.noThinking = "none"
	}
}
