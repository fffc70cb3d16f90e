package jinja

// markupAttr returns an attribute of Markup. Most of its methods are those of str
// that return Markup; those that take texts escape them, which no chat template
// asks for, so they are refused when they are called.
func (st *state) markupAttr(m markup, name string) Value {
	def := st.lib.strings[name]
	if def == nil {
		switch name {
		case "unescape", "striptags":
			return refused(name)
		}
		return nil
	}
	switch name {
	case "upper", "lower", "capitalize", "title", "swapcase", "casefold", "strip", "lstrip", "rstrip", "splitlines", "zfill", "expandtabs":
		return &callable{name: name, fn: func(st *state, a args) (Value, error) {
			v, err := def.bind(String(m)).fn(st, a)
			return asMarkup(v), err
		}}
	case "startswith", "endswith", "find", "rfind", "index", "rindex", "count",
		"isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
		"isprintable", "isspace", "istitle", "isupper":
		return def.bind(String(m))
	case "split", "rsplit":
		return &callable{name: name, fn: func(st *state, a args) (Value, error) {
			v, err := def.bind(String(m)).fn(st, a)
			return asMarkup(v), err
		}}
	default:
		return refused(name)
	}
}

func refused(name string) *callable {
	return &callable{name: name, fn: func(*state, args) (Value, error) {
		return nil, unsupported("method %s of Markup", name)
	}}
}

// asMarkup makes strings Markup, also those in a list.
func asMarkup(v Value) Value {
	switch v := v.(type) {
	case String:
		return markup(v)
	case *List:
		out := make([]Value, len(v.items))
		for i, item := range v.items {
			out[i] = asMarkup(item)
		}
		return NewList(out...)
	default:
		return v
	}
}
