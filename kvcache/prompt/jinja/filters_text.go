package jinja

import (
	"strings"
	"unicode/utf8"
)

func filterUpper(st *state, a args) (Value, error)      { return st.softMap(a.pos[0], upper) }
func filterLower(st *state, a args) (Value, error)      { return st.softMap(a.pos[0], lower) }
func filterCapitalize(st *state, a args) (Value, error) { return st.softMap(a.pos[0], capitalize) }

// filterTitle makes each word's first character upper case. A word begins behind
// whitespace, a hyphen or an opening bracket.
func filterTitle(st *state, a args) (Value, error) {
	s, _, err := st.soft(a.pos[0])
	if err != nil {
		return nil, err
	}
	if err := st.grow(len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for s != "" {
		n := 0
		for n < len(s) {
			r, size := decodeRune(s[n:])
			if !isWordBreak(r) {
				break
			}
			n += size
		}
		b.WriteString(s[:n])
		s = s[n:]
		for n = 0; n < len(s); {
			r, size := decodeRune(s[n:])
			if isWordBreak(r) {
				break
			}
			n += size
		}
		if n > 0 {
			_, first := decodeRune(s)
			b.WriteString(upper(s[:first]))
			b.WriteString(lower(s[first:n]))
		}
		s = s[n:]
	}
	return String(b.String()), nil
}

func isWordBreak(r rune) bool {
	switch r {
	case '-', '(', '{', '[', '<':
		return true
	default:
		return isSpace(r)
	}
}

func filterTrim(st *state, a args) (Value, error) {
	s, isMarkup, err := st.soft(a.pos[0])
	if err != nil {
		return nil, err
	}
	if failed := st.work(len(s)); failed != nil {
		return nil, failed
	}
	s, err = strip(s, a.pos[1], true, true)
	if isMarkup {
		return markup(s), err
	}
	return String(s), err
}

func filterCenter(st *state, a args) (Value, error) {
	s, isMarkup, err := st.soft(a.pos[0])
	if err != nil {
		return nil, err
	}
	width := Value(Int(80))
	if a.pos[1] != nil {
		width = a.pos[1]
	}
	v, err := st.pad(s, width, nil, padCenter)
	if isMarkup && err == nil {
		text, _ := asString(v)
		return markup(text), nil
	}
	return v, err
}

func filterReplace(st *state, a args) (Value, error) {
	var texts [3]string
	for i := range texts {
		var err error
		if texts[i], err = st.str(a.pos[i]); err != nil {
			return nil, err
		}
	}
	count := int64(-1)
	if !isNone(a.pos[3]) {
		var err error
		if count, err = index(a.pos[3]); err != nil {
			return nil, err
		}
	}
	s, err := st.replace(texts[0], texts[1], texts[2], count)
	return String(s), err
}

func filterString(st *state, a args) (Value, error) {
	s, isMarkup, err := st.soft(a.pos[0])
	if isMarkup {
		return markup(s), err
	}
	return String(s), err
}

func filterSafe(st *state, a args) (Value, error) {
	s, _, err := st.soft(a.pos[0])
	return markup(s), err
}

func filterEscape(st *state, a args) (Value, error) {
	if m, ok := a.pos[0].(markup); ok {
		return m, nil
	}
	return filterForceEscape(st, a)
}

func filterForceEscape(st *state, a args) (Value, error) {
	s, err := st.str(a.pos[0])
	if err != nil {
		return nil, err
	}
	const growth = 5 // of a character that is escaped
	if err := st.grow(growth * len(s)); err != nil {
		return nil, err
	}
	return markup(escapeHTML(s)), nil
}

// filterIndent indents lines, not the first nor empty ones unless asked to.
func filterIndent(st *state, a args) (Value, error) {
	s, ok := asString(a.pos[0])
	if !ok {
		if u, ok := a.pos[0].(*Undefined); ok {
			return nil, u.fail()
		}
		return nil, raise(typeError, "can't indent %s", a.pos[0].typeName())
	}
	if _, isMarkup := a.pos[0].(markup); isMarkup {
		return nil, unsupported("indent of Markup")
	}
	indent, err := st.indentation(a.pos[1])
	if err != nil {
		return nil, err
	}
	first, err := argTruth(st, a.pos[2])
	if err != nil {
		return nil, err
	}
	blank, err := argTruth(st, a.pos[3])
	if err != nil {
		return nil, err
	}
	lines := splitLines(s+"\n", false)
	if len(lines) > st.opts.MaxOutput/(len(indent)+1) {
		return nil, limit("string longer than %d bytes", st.opts.MaxOutput)
	}
	if err := st.grow(len(s) + len(lines)*(len(indent)+1)); err != nil {
		return nil, err
	}
	var b strings.Builder
	if first {
		b.WriteString(indent)
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
			if blank || line != "" {
				b.WriteString(indent)
			}
		}
		b.WriteString(line)
	}
	return String(b.String()), nil
}

// indentation returns a text to indent by, given as such or as a number of spaces.
func (st *state) indentation(width Value) (string, error) {
	if width == nil {
		return "    ", nil
	}
	if text, ok := asString(width); ok {
		return text, nil
	}
	n, err := index(width)
	if err != nil {
		return "", err
	}
	return st.repeatString(" ", max(n, 0))
}

func filterTruncate(st *state, a args) (Value, error) {
	number := func(v Value, fallback int64) (int64, error) {
		if v == nil {
			return fallback, nil
		}
		return index(v)
	}
	const defaultLength, defaultLeeway = 255, 5
	length, err := number(a.pos[1], defaultLength)
	if err != nil {
		return nil, err
	}
	end := "..."
	if a.pos[3] != nil {
		var ok bool
		if end, ok = asString(a.pos[3]); !ok {
			return nil, raise(typeError, "truncate: end must be a string")
		}
	}
	leeway := int64(defaultLeeway)
	if !isNone(a.pos[4]) {
		if leeway, err = index(a.pos[4]); err != nil {
			return nil, err
		}
	}
	if length < int64(runeLen(end)) || leeway < 0 {
		return nil, raise(otherError, "truncate: length or leeway too small")
	}
	n, err := st.length(a.pos[0])
	if err != nil {
		return nil, err
	}
	if int64(n)-length <= leeway {
		return a.pos[0], nil
	}
	s, ok := a.pos[0].(String)
	if !ok {
		return nil, unsupported("truncate of %s", a.pos[0].typeName())
	}
	kill, err := argTruth(st, a.pos[2])
	if err != nil {
		return nil, err
	}
	head := string(s)[:runeOffset(string(s), int(length)-runeLen(end))]
	if !kill {
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			head = head[:i]
		}
	}
	text, err := st.join(head, end)
	return String(text), err
}

func filterWordcount(st *state, a args) (Value, error) {
	s, _, err := st.soft(a.pos[0])
	if err != nil {
		return nil, err
	}
	if err := st.work(len(s)); err != nil {
		return nil, err
	}
	n, inside := 0, false
	for i := 0; i < len(s); {
		r, size := decodeRune(s[i:])
		i += size
		word := r == '_' || isAlnum(r)
		if word && !inside {
			n++
		}
		inside = word
	}
	return Int(n), nil
}

// filterFormat is the filter format: printf with the arguments as a tuple, or the
// keywords as a dict.
func filterFormat(st *state, a args) (Value, error) {
	if len(a.pos) == 0 {
		return nil, raise(typeError, "format misses its value")
	}
	if len(a.pos) > 1 && len(a.kw) > 0 {
		return nil, raise(otherError, "can't handle positional and keyword arguments at the same time")
	}
	s, isMarkup, err := st.soft(a.pos[0])
	if err != nil {
		return nil, err
	}
	var format Value = String(s)
	if isMarkup {
		format = markup(s)
	}
	if len(a.kw) > 0 {
		d, err := makeDict(st, args{kw: a.kw})
		if err != nil {
			return nil, err
		}
		return st.percent(format, d)
	}
	return st.percent(format, NewTuple(append([]Value(nil), a.pos[1:]...)...))
}

// filterStriptags removes comments and tags, and folds whitespace.
func filterStriptags(st *state, a args) (Value, error) {
	s, err := st.str(a.pos[0])
	if err != nil {
		return nil, err
	}
	if err := st.grow(len(s)); err != nil {
		return nil, err
	}
	s = cutBetween(s, "<!--", "-->")
	s = cutBetween(s, "<", ">")
	s = strings.Join(splitSpace(s, -1), " ")
	if strings.Contains(s, "&") {
		return nil, unsupported("entities in striptags")
	}
	return String(s), nil
}

func cutBetween(s, open, end string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, open)
		if i < 0 {
			break
		}
		j := strings.Index(s[i:], end)
		if j < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i+j+len(end):]
	}
	return b.String() + s
}

// filterURLEncode quotes a string for a URL, or pairs for a query.
func filterURLEncode(st *state, a args) (Value, error) {
	switch a.pos[0].(type) {
	case *Dict, *List, *Tuple, *generator, *dictView, *rangeValue, *Undefined:
	default:
		s, err := st.str(a.pos[0])
		if err != nil {
			return nil, err
		}
		if err := st.grow(3 * len(s)); err != nil {
			return nil, err
		}
		if !utf8.ValidString(s) {
			return nil, errSurrogate()
		}
		return String(quoteURL(s, false)), nil
	}
	src := a.pos[0]
	if d, ok := src.(*Dict); ok {
		src = &dictView{d, viewItems}
	}
	it, err := st.iter(src)
	if err != nil {
		return nil, err
	}
	var parts []string
	for {
		pair, ok, err := it.next(st)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		kv, err := st.items(pair)
		if err != nil {
			return nil, err
		}
		if len(kv) != 2 {
			return nil, raise(valueError, "urlencode needs pairs")
		}
		var texts [2]string
		for i := range texts {
			if texts[i], err = st.str(kv[i]); err != nil {
				return nil, err
			}
			if !utf8.ValidString(texts[i]) {
				return nil, errSurrogate()
			}
			if err := st.grow(3 * len(texts[i])); err != nil {
				return nil, err
			}
		}
		parts = append(parts, quoteURL(texts[0], true)+"="+quoteURL(texts[1], true))
	}
	return String(strings.Join(parts, "&")), nil
}

func errSurrogate() error { return raise(valueError, "lone surrogates can't be encoded") }

func quoteURL(s string, query bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("_.-~", c) >= 0, c == '/' && !query:
			b.WriteByte(c)
		case c == ' ' && query:
			b.WriteByte('+')
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&0xf]})
		}
	}
	return b.String()
}

// filterXMLAttr writes a dict as attributes of an element.
func filterXMLAttr(st *state, a args) (Value, error) {
	d, ok := a.pos[0].(*Dict)
	if !ok {
		return nil, raise(otherError, "xmlattr needs a dict")
	}
	var b strings.Builder
	for _, e := range d.entries {
		if _, undefined := e.val.(*Undefined); undefined || isNone(e.val) {
			continue
		}
		key, ok := asString(e.key)
		if !ok {
			return nil, raise(typeError, "attribute names must be strings")
		}
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			return nil, raise(valueError, "invalid character in attribute name")
		}
		val, isMarkup, err := st.soft(e.val)
		if err != nil {
			return nil, err
		}
		if !isMarkup {
			val = escapeHTML(val)
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(escapeHTML(key) + `="` + val + `"`)
		if err := st.grow(b.Len()); err != nil {
			return nil, err
		}
	}
	s := b.String()
	space := true
	if a.pos[1] != nil {
		var err error
		if space, err = st.truth(a.pos[1]); err != nil {
			return nil, err
		}
	}
	if space && s != "" {
		s = " " + s
	}
	return String(s), nil
}
