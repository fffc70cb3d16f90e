package jinja

import (
	"strconv"
	"strings"
)

// stringFormat is str.format in the sandbox.
func stringFormat(st *state, a args) (Value, error) {
	f := &formatter{st: st, pos: a.pos[1:], kw: func(name string) (Value, error) {
		if v := a.keyword(name); v != nil {
			return v, nil
		}
		return nil, raise(lookupError, "format misses a key")
	}}
	return f.run(self(a))
}

// stringFormatMap is str.format_map: the keys come from a dict.
func stringFormatMap(st *state, a args) (Value, error) {
	if len(a.kw) > 0 || len(a.pos) != 2 {
		return nil, raise(typeError, "format_map() takes exactly one argument")
	}
	m := a.pos[1]
	f := &formatter{st: st, kw: func(name string) (Value, error) {
		d, ok := m.(*Dict)
		if !ok {
			return nil, raise(typeError, "format_map() needs a mapping")
		}
		v, ok := d.Get(name)
		if !ok {
			return nil, raise(lookupError, "format misses a key")
		}
		return v, nil
	}}
	return f.run(self(a))
}

type formatter struct {
	st     *state
	pos    []Value
	kw     func(name string) (Value, error)
	auto   int
	manual bool
}

// run formats s, whose fields may have fields in their specifications.
func (f *formatter) run(s string) (Value, error) {
	if err := f.st.work(len(s)); err != nil {
		return nil, err
	}
	const depth = 2
	s, err := f.format(s, depth)
	if err != nil {
		return nil, err
	}
	return String(s), f.st.grow(len(s))
}

// format replaces the fields in s. depth is how deep fields may nest.
func (f *formatter) format(s string, depth int) (string, error) {
	if depth < 0 {
		return "", raise(valueError, "max string recursion exceeded")
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{', '}':
			if i+1 < len(s) && s[i+1] == c {
				b.WriteByte(c)
				i++
				continue
			}
			if c == '}' {
				return "", raise(valueError, "single '}' encountered in format string")
			}
			n, text, err := f.field(s[i+1:], depth)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
			i += n
			if b.Len() > f.st.opts.MaxOutput {
				return "", limit("string longer than %d bytes", f.st.opts.MaxOutput)
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// field formats the field behind a "{" and returns its length with the "}".
func (f *formatter) field(s string, depth int) (int, string, error) {
	end, level := -1, 1
	for i := 0; i < len(s) && end < 0; i++ {
		switch s[i] {
		case '{':
			level++
		case '}':
			if level--; level == 0 {
				end = i
			}
		}
	}
	if end < 0 {
		return 0, "", raise(valueError, "expected '}' before end of string")
	}
	body := s[:end]
	name, conv, specText, err := splitField(body)
	if err != nil {
		return 0, "", err
	}
	v, err := f.lookup(name)
	if err != nil {
		return 0, "", err
	}
	switch conv {
	case 0:
	case 's', 'r':
		text := f.st.str
		if conv == 'r' {
			text = f.st.repr
		}
		converted, failed := text(v)
		if failed != nil {
			return 0, "", failed
		}
		v = String(converted)
	case 'a':
		return 0, "", unsupported("conversion !a")
	default:
		return 0, "", raise(valueError, "unknown conversion specifier")
	}
	if specText, err = f.format(specText, depth-1); err != nil {
		return 0, "", err
	}
	text, err := f.st.formatValue(v, specText)
	return end + 1, text, err
}

// splitField takes "name!r:spec" apart.
func splitField(s string) (name string, conv byte, spec string, err error) {
	inBrackets := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '[':
			inBrackets = true
		case c == ']':
			inBrackets = false
		case inBrackets:
		case c == '{':
			return "", 0, "", raise(valueError, "unexpected '{' in field name")
		case c == ':':
			return s[:i], 0, s[i+1:], nil
		case c == '!':
			if i+1 >= len(s) {
				return "", 0, "", raise(valueError, "end of string while looking for conversion specifier")
			}
			rest := s[i+2:]
			if rest != "" && rest[0] != ':' {
				return "", 0, "", raise(valueError, "expected ':' after conversion specifier")
			}
			return s[:i], s[i+1], strings.TrimPrefix(rest, ":"), nil
		}
	}
	return s, 0, "", nil
}

// lookup resolves "0.name[key]".
func (f *formatter) lookup(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	first, rest := name[:end], name[end:]
	v, err := f.first(first)
	for err == nil && rest != "" {
		if rest[0] == '.' {
			v, rest, err = f.attr(v, rest[1:])
		} else {
			v, rest, err = f.item(v, rest[1:])
		}
		if v == nil {
			v = undefinedElement
		}
	}
	return v, err
}

// attr resolves "name..." on v and returns what follows the name.
func (f *formatter) attr(v Value, s string) (Value, string, error) {
	n := strings.IndexAny(s, ".[")
	if n < 0 {
		n = len(s)
	}
	if n == 0 {
		return nil, "", raise(valueError, "empty attribute in format string")
	}
	v, err := f.st.getattr(v, s[:n])
	return v, s[n:], err
}

// item resolves "key]..." on v and returns what follows.
func (f *formatter) item(v Value, s string) (Value, string, error) {
	text, rest, ok := strings.Cut(s, "]")
	if !ok {
		return nil, "", raise(valueError, "missing ']' in format string")
	}
	if text == "" {
		return nil, "", raise(valueError, "empty attribute in format string")
	}
	if rest != "" && rest[0] != '.' && rest[0] != '[' {
		return nil, "", raise(valueError, "only '.' or '[' may follow ']' in format field specifier")
	}
	var key Value = String(text)
	if isDigits(text) {
		var err error
		if key, err = parseInt(text, 10); err != nil {
			return nil, "", err
		}
	}
	v, err := f.st.getitem(v, key)
	return v, rest, err
}

func (f *formatter) first(name string) (Value, error) {
	switch {
	case name == "":
		if f.manual {
			return nil, raise(valueError, "cannot switch from manual field specification to automatic field numbering")
		}
		name = strconv.Itoa(f.auto)
		f.auto++
	case isDigits(name):
		if f.auto > 0 {
			return nil, raise(valueError, "cannot switch from automatic field numbering to manual field specification")
		}
		f.manual = true
	default:
		return f.kw(name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || i >= len(f.pos) {
		return nil, raise(lookupError, "replacement index out of range")
	}
	return f.pos[i], nil
}

// formatValue is format(v, spec).
func (st *state) formatValue(v Value, specText string) (string, error) {
	if specText == "" {
		return st.str(v)
	}
	switch v.(type) {
	case String, markup, Int, *bigInt, Bool, Float:
	default:
		return "", raise(typeError, "unsupported format string passed to %s.__format__", v.typeName())
	}
	if _, isMarkup := v.(markup); isMarkup {
		return "", unsupported("formatting of Markup")
	}
	p, err := parseSpec(specText)
	if err != nil {
		return "", err
	}
	if s, ok := v.(String); ok {
		return p.text(string(s))
	}
	if f, ok := v.(Float); ok {
		if p.align == 0 {
			p.align = '>'
		}
		return p.float(float64(f))
	}
	b, _ := asBig(v)
	if p.align == 0 {
		p.align = '>'
	}
	return p.integer(b)
}
