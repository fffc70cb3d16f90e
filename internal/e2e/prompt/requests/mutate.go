package requests

import (
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// keys are names that mean something somewhere in a request, and may turn up where
// they don't.
var keys = [...]string{
	"role", "content", "type", "text", "name", "tool_calls", "tool_call_id", "id", "function", "arguments", "reasoning",
	"reasoning_content", "refusal", "thinking", "input", "output", "call_id", "status", "summary", "tools", "tool_choice", "system",
	"instructions", "parameters", "description", "strict", "defer_loading", "input_schema", "documents", "task", "closed",
	"cache_control", "annotations", "phase", "namespace", "encrypted_content", "developer", "audio", "function_call", "caller",
	"add_generation_prompt", "continue_final_message", "add_special_tokens", "reasoning_effort", "chat_template_kwargs",
	"enable_thinking", "messages", "truncation", "truncate_prompt_tokens", "prompt", "max_tokens", "is_error", "signature",
}

// Mutate changes one to three things in a request's body: a value to another, also
// of another type, a field away or added or twice, an item of a list away or twice.
// The result is still JSON, and mostly still a request.
func (g *Generator) Mutate(body []byte) []byte {
	for range 1 + g.IntN(3) {
		v, err := jsonscan.ParseValue(body, 0)
		if err != nil {
			return body
		}
		m := &mutator{Generator: g, at: g.IntN(count(v))}
		var b strings.Builder
		m.write(&b, v)
		body = []byte(b.String())
	}
	return body
}

// count is the number of values within v, itself included.
func count(v jsonscan.Value) int {
	n := 1
	for it := v.Iter(); it.Next(); {
		n += count(it.Value())
	}
	return n
}

type mutator struct {
	*Generator
	at int // values until the one that is changed
}

func (m *mutator) write(b *strings.Builder, v jsonscan.Value) {
	if m.at == 0 {
		m.at = -1
		m.change(b, v)
		return
	}
	m.at--
	m.copy(b, v)
}

// copy writes v, with what is changed within it.
func (m *mutator) copy(b *strings.Builder, v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.KindArray:
		b.WriteByte('[')
		m.items(b, v)
		b.WriteByte(']')
	case jsonscan.KindObject:
		b.WriteByte('{')
		m.items(b, v)
		b.WriteByte('}')
	default:
		b.Write(v.Raw())
	}
}

func (m *mutator) items(b *strings.Builder, v jsonscan.Value) {
	first := true
	for it := v.Iter(); it.Next(); {
		if !first {
			b.WriteByte(',')
		}
		first = false
		if v.Kind() == jsonscan.KindObject {
			b.WriteString(quote(string(it.Key())) + ":")
		}
		m.write(b, it.Value())
	}
}

func (m *mutator) change(b *strings.Builder, v jsonscan.Value) {
	isList, isObject := v.Kind() == jsonscan.KindArray, v.Kind() == jsonscan.KindObject
	switch {
	case (isList || isObject) && m.chance(70):
		m.changeItems(b, v, isObject)
	case m.chance(30):
		b.WriteString(pick(m.Generator, "null", `""`, "[]", "{}", "true", "0", `"text"`, `"auto"`, `"none"`,
			`"assistant"`, `"tool"`, `"user"`, `"developer"`))
	case v.Kind() == jsonscan.KindString && m.chance(30):
		b.WriteString("[" + string(v.Raw()) + "]")
	default:
		b.WriteString(m.value(2))
	}
}

// changeItems takes one item away, writes it twice, gives it another key, or adds
// one.
func (m *mutator) changeItems(b *strings.Builder, v jsonscan.Value, isObject bool) {
	n := v.Len()
	chosen, how := m.IntN(n+1), m.IntN(4)
	key := func(k string) string {
		if isObject {
			return quote(k) + ":"
		}
		return ""
	}
	var out []string
	i := 0
	for it := v.Iter(); it.Next(); i++ {
		item := key(string(it.Key())) + string(it.Value().Raw())
		if i != chosen {
			out = append(out, item)
			continue
		}
		switch how {
		case 0:
		case 1:
			out = append(out, item, item)
		case 2:
			out = append(out, key(keys[m.IntN(len(keys))])+string(it.Value().Raw()))
		default:
			out = append(out, item, key(keys[m.IntN(len(keys))])+m.value(2))
		}
	}
	if chosen == n {
		out = append(out, key(keys[m.IntN(len(keys))])+m.value(2))
	}
	if isObject {
		b.WriteString("{" + strings.Join(out, ",") + "}")
		return
	}
	b.WriteString(list(out))
}
