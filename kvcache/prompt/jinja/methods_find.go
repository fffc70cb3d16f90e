package jinja

import "strings"

// within resolves the optional start and end of a search to byte offsets of s. ok
// is false if start is behind the end of s.
func (st *state) within(s string, start, end Value) (from, to int, ok bool, err error) {
	if failed := st.work(len(s)); failed != nil {
		return 0, 0, false, failed
	}
	if isNone(start) && isNone(end) {
		return 0, len(s), true, nil
	}
	n := int64(runeLen(s))
	resolve := func(v Value, fallback int64) (int64, error) {
		if isNone(v) {
			return fallback, nil
		}
		i, failed := index(v)
		if failed != nil {
			return 0, failed
		}
		if i < 0 {
			i = max(i+n, 0)
		}
		return i, nil
	}
	a, err := resolve(start, 0)
	if err != nil {
		return 0, 0, false, err
	}
	b, err := resolve(end, n)
	if err != nil {
		return 0, 0, false, err
	}
	b = min(b, n)
	if a > b {
		return 0, 0, false, nil
	}
	from = runeOffset(s, int(a))
	return from, from + runeOffset(s[from:], int(b-a)), true, nil
}

// finder is find, rfind, index or rindex.
func finder(last, must bool) func(*state, args) (Value, error) {
	return func(st *state, a args) (Value, error) {
		sub, err := textArg(a.pos[1])
		if err != nil {
			return nil, err
		}
		s := self(a)
		from, to, ok, err := st.within(s, a.pos[2], a.pos[3])
		if err != nil {
			return nil, err
		}
		i := -1
		if ok {
			if last {
				i = strings.LastIndex(s[from:to], sub)
			} else {
				i = strings.Index(s[from:to], sub)
			}
		}
		if i < 0 {
			if must {
				return nil, raise(valueError, "substring not found")
			}
			return Int(-1), nil
		}
		return Int(runeLen(s[:from+i])), nil
	}
}

func stringCount(st *state, a args) (Value, error) {
	sub, err := textArg(a.pos[1])
	if err != nil {
		return nil, err
	}
	s := self(a)
	from, to, ok, err := st.within(s, a.pos[2], a.pos[3])
	if err != nil || !ok {
		return Int(0), err
	}
	if sub == "" {
		return Int(runeLen(s[from:to]) + 1), nil
	}
	return Int(strings.Count(s[from:to], sub)), nil
}

func hasPrefix(s, sub string) bool { return strings.HasPrefix(s, sub) }
func hasSuffix(s, sub string) bool { return strings.HasSuffix(s, sub) }

// affix is startswith or endswith, with one text or a tuple of them.
func affix(has func(s, sub string) bool) func(*state, args) (Value, error) {
	return func(st *state, a args) (Value, error) {
		s := self(a)
		one := a.pos[1:2]
		if t, ok := a.pos[1].(*Tuple); ok {
			one = t.items
		} else if !isString(a.pos[1]) {
			return nil, raise(typeError, "first arg must be str or a tuple of str, not %s", a.pos[1].typeName())
		}
		from, to, ok, err := 0, len(s), true, error(nil)
		if !isNone(a.pos[2]) || !isNone(a.pos[3]) {
			from, to, ok, err = st.within(s, a.pos[2], a.pos[3])
		}
		if err != nil {
			return nil, err
		}
		for _, v := range one {
			sub, isText := asString(v)
			if !isText {
				return nil, raise(typeError, "tuple for startswith must only contain str, not %s", v.typeName())
			}
			if failed := st.compared(len(sub)); failed != nil {
				return nil, failed
			}
			if ok && has(s[from:to], sub) {
				return Bool(true), nil
			}
		}
		return Bool(false), nil
	}
}

func stringRemovePrefix(_ *state, a args) (Value, error) {
	sub, err := textArg(a.pos[1])
	return String(strings.TrimPrefix(self(a), sub)), err
}

func stringRemoveSuffix(_ *state, a args) (Value, error) {
	sub, err := textArg(a.pos[1])
	return String(strings.TrimSuffix(self(a), sub)), err
}

// padding says where padding goes.
type padding uint8

const (
	padRight padding = iota
	padLeft
	padCenter
)

func padMethod(p padding) func(*state, args) (Value, error) {
	return func(st *state, a args) (Value, error) { return st.pad(self(a), a.pos[1], a.pos[2], p) }
}

func (st *state) pad(s string, width, fill Value, p padding) (Value, error) {
	w, err := index(width)
	if err != nil {
		return nil, err
	}
	char := " "
	if fill != nil {
		if char, err = textArg(fill); err != nil {
			return nil, err
		}
		if runeLen(char) != 1 {
			return nil, raise(typeError, "the fill character must be exactly one character long")
		}
	}
	n := int64(runeLen(s))
	if w <= n {
		return String(s), nil
	}
	total := w - n
	left := int64(0)
	switch p {
	case padLeft:
		left = total
	case padCenter:
		left = total/2 + total&w&1
	case padRight:
	}
	before, err := st.repeatString(char, left)
	if err != nil {
		return nil, err
	}
	after, err := st.repeatString(char, total-left)
	if err != nil {
		return nil, err
	}
	s, err = st.join(before+s, after)
	return String(s), err
}

func stringZfill(st *state, a args) (Value, error) {
	w, err := index(a.pos[1])
	if err != nil {
		return nil, err
	}
	s := self(a)
	zeros, err := st.repeatString("0", max(0, w-int64(runeLen(s))))
	if err != nil {
		return nil, err
	}
	sign := ""
	if zeros != "" && s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	s, err = st.join(sign+zeros, s)
	return String(s), err
}

func stringExpandTabs(st *state, a args) (Value, error) {
	size := int64(8)
	if a.pos[1] != nil {
		var err error
		if size, err = index(a.pos[1]); err != nil {
			return nil, err
		}
	}
	s := self(a)
	tabs := strings.Count(s, "\t")
	if size > 0 && tabs > 0 && size > int64(st.opts.MaxOutput/tabs) {
		return nil, limit("string longer than %d bytes", st.opts.MaxOutput)
	}
	if err := st.grow(len(s) + tabs*int(max(size, 0))); err != nil {
		return nil, err
	}
	var b strings.Builder
	column := int64(0)
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		switch r {
		case '\t':
			if size > 0 {
				gap := size - column%size
				column += gap
				b.WriteString(strings.Repeat(" ", int(gap)))
			}
		default:
			column++
			if r == '\n' || r == '\r' {
				column = 0
			}
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return String(b.String()), nil
}
