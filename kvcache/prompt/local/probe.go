package local

import (
	"context"
	"regexp"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// generationTag is a statement that only transformers' environment has.
var generationTag = regexp.MustCompile(`\{%-?\s*generation\b`)

// refusesSystem reports whether a template fails on a system message that is not
// the first, rendered as vLLM does to find out: by plain Jinja, with nothing but
// messages.
func (t *chatTemplate) refusesSystem() bool {
	if generationTag.MatchString(t.source) {
		return true
	}
	turn := func(role string) jinja.Value {
		d := jinja.NewDict(2)
		d.Set("role", jinja.String(role))
		d.Set("content", jinja.String("t"))
		return d
	}
	const fields = 4
	vars := jinja.NewDict(fields)
	vars.Set("raise_exception", &jinja.Undefined{})
	vars.Set("strftime_now", &jinja.Undefined{})
	vars.Set("messages", jinja.NewList(turn(roleSystem), turn(roleUser), turn(roleSystem), turn(roleUser)))
	vars.Set("add_generation_prompt", jinja.Bool(false))
	_, err := t.Render(context.Background(), nil, vars)
	return err != nil
}

// effortText renders a greeting with a reasoning effort.
func (a *assets) effortText(effort string) (string, bool) {
	q := &query{generate: true, effort: effort, messages: []message{{role: roleUser, plain: true, text: "Hi"}}}
	text, err := q.text(context.Background(), a, nil)
	return string(text), err == nil
}
