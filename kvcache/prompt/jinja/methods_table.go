package jinja

// stringTable lists the methods of str. The first parameter is the string.
func stringTable() map[string]*builtin {
	m := func(name string, required int, fn func(*state, args) (Value, error), params ...string) builtin {
		return builtin{name: name, params: append([]string{"self"}, params...), required: required + 1, posOnly: true, fn: fn}
	}
	named := func(b builtin) builtin {
		b.posOnly = false
		return b
	}
	is := func(name string, f func(string) bool) builtin {
		return m(name, 0, func(st *state, a args) (Value, error) {
			s := self(a)
			return Bool(f(s)), st.work(len(s))
		})
	}
	maps := func(name string, f func(string) string) builtin {
		return m(name, 0, func(st *state, a args) (Value, error) {
			s := self(a)
			if err := st.grow(len(s)); err != nil {
				return nil, err
			}
			return String(f(s)), nil
		})
	}
	all := func(f func(rune) bool) func(string) bool {
		return func(s string) bool { return every(s, f) }
	}
	return table([]builtin{
		maps("capitalize", capitalize),
		maps("casefold", caseFold),
		maps("lower", lower),
		maps("upper", upper),
		maps("swapcase", swapCase),
		maps("title", titleCase),
		is("isalnum", all(isAlnumStrict)),
		is("isalpha", all(isAlpha)),
		is("isascii", isASCII),
		is("isdecimal", all(isDecimal)),
		is("isdigit", all(isDigitRune)),
		is("isidentifier", isIdentifier),
		is("islower", isLower),
		is("isnumeric", all(isNumeric)),
		is("isprintable", func(s string) bool { return s == "" || every(s, isPrintable) }),
		is("isspace", all(isSpace)),
		is("istitle", isTitle),
		is("isupper", isUpper),
		m("strip", 0, stripMethod(true, true), "chars"),
		m("lstrip", 0, stripMethod(true, false), "chars"),
		m("rstrip", 0, stripMethod(false, true), "chars"),
		named(m("split", 0, stringSplit, "sep", "maxsplit")),
		named(m("rsplit", 0, stringRSplit, "sep", "maxsplit")),
		named(m("splitlines", 0, stringSplitLines, "keepends")),
		m("partition", 1, stringPartition, "sep"),
		m("rpartition", 1, stringRPartition, "sep"),
		m("replace", 2, stringReplace, "old", "new", "count"),
		m("join", 1, stringJoin, "iterable"),
		m("startswith", 1, affix(hasPrefix), "prefix", "start", "end"),
		m("endswith", 1, affix(hasSuffix), "suffix", "start", "end"),
		m("removeprefix", 1, stringRemovePrefix, "prefix"),
		m("removesuffix", 1, stringRemoveSuffix, "suffix"),
		m("find", 1, finder(false, false), "sub", "start", "end"),
		m("rfind", 1, finder(true, false), "sub", "start", "end"),
		m("index", 1, finder(false, true), "sub", "start", "end"),
		m("rindex", 1, finder(true, true), "sub", "start", "end"),
		m("count", 1, stringCount, "sub", "start", "end"),
		m("center", 1, padMethod(padCenter), "width", "fillchar"),
		m("ljust", 1, padMethod(padRight), "width", "fillchar"),
		m("rjust", 1, padMethod(padLeft), "width", "fillchar"),
		m("zfill", 1, stringZfill, "width"),
		named(m("expandtabs", 0, stringExpandTabs, "tabsize")),
		{name: "format", variadic: true, fn: stringFormat},
		{name: "format_map", variadic: true, fn: stringFormatMap},
		{name: "encode"},
		{name: "translate"},
		{name: "maketrans"},
	})
}

func self(a args) string {
	s, _ := asString(a.pos[0])
	return s
}

func dictTable() map[string]*builtin {
	view := func(name string, kind viewKind) builtin {
		return builtin{name: name, params: []string{"self"}, required: 1, posOnly: true, fn: func(_ *state, a args) (Value, error) {
			return &dictView{a.pos[0].(*Dict), kind}, nil //nolint:forcetypeassert // found by type
		}}
	}
	return table([]builtin{
		view("keys", viewKeys), view("values", viewValues), view("items", viewItems),
		{name: "get", params: []string{"self", "key", "default"}, required: 2, posOnly: true, fn: dictGet},
		{name: "copy", params: []string{"self"}, required: 1, posOnly: true, fn: func(_ *state, a args) (Value, error) {
			return a.pos[0], nil // nothing can change it
		}},
		{name: "fromkeys", params: []string{"self", "iterable", "value"}, required: 2, posOnly: true, fn: dictFromKeys},
	})
}

func dictGet(st *state, a args) (Value, error) {
	if err := st.hashed(a.pos[1]); err != nil {
		return nil, err
	}
	d := a.pos[0].(*Dict) //nolint:forcetypeassert // found by type
	i, err := d.find(a.pos[1])
	switch {
	case err != nil:
		return nil, err
	case i >= 0:
		return d.entries[i].val, nil
	case a.pos[2] != nil:
		return a.pos[2], nil
	default:
		return None{}, nil
	}
}

func dictFromKeys(st *state, a args) (Value, error) {
	v := a.pos[2]
	if v == nil {
		v = None{}
	}
	keys, err := st.items(a.pos[1])
	if err != nil {
		return nil, err
	}
	if err := st.growItems(2 * len(keys)); err != nil {
		return nil, err
	}
	d := NewDict(len(keys))
	for _, k := range keys {
		if err := d.set(k, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// sequenceMethods are those of lists, tuples and ranges.
func sequenceMethods() []builtin {
	return []builtin{
		{name: "count", params: []string{"self", "value"}, required: 2, posOnly: true, fn: func(st *state, a args) (Value, error) {
			items, err := st.items(a.pos[0])
			if err != nil {
				return nil, err
			}
			if failed := st.work(len(items)); failed != nil {
				return nil, failed
			}
			n := 0
			for _, item := range items {
				ok, err := st.equal(item, a.pos[1])
				if err != nil {
					return nil, err
				}
				if ok {
					n++
				}
			}
			return Int(n), nil
		}},
		{name: "index", params: []string{"self", "value", "start", "stop"}, required: 2, posOnly: true, fn: sequenceIndex},
	}
}

func sequenceIndex(st *state, a args) (Value, error) {
	items, err := st.items(a.pos[0])
	if err != nil {
		return nil, err
	}
	bounds := [3]Value{None{}, None{}, None{}}
	for i, v := range a.pos[2:] {
		if v == nil {
			continue
		}
		if _, err = index(v); err != nil {
			return nil, err
		}
		bounds[i] = v
	}
	start, stop, _, err := sliceBounds(bounds, len(items))
	if err != nil {
		return nil, err
	}
	if failed := st.work(len(items)); failed != nil {
		return nil, failed
	}
	for i := start; i < stop; i++ {
		ok, err := st.equal(items[i], a.pos[1])
		if err != nil {
			return nil, err
		}
		if ok {
			return Int(i), nil
		}
	}
	return nil, raise(valueError, "value is not in the sequence")
}

func listTable() map[string]*builtin {
	return table(sequenceMethods(), []builtin{
		{name: "copy", params: []string{"self"}, required: 1, posOnly: true, fn: func(_ *state, a args) (Value, error) {
			return a.pos[0], nil // nothing can change it
		}},
	})
}

func tupleTable() map[string]*builtin { return table(sequenceMethods()) }
func rangeTable() map[string]*builtin { return table(sequenceMethods()) }
