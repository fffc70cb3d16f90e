package jinja

// filterTable lists jinja2's filters, with transformers' tojson. One without a
// function is refused when the template is compiled.
func filterTable() map[string]*builtin {
	f := func(name string, required int, fn func(*state, args) (Value, error), params ...string) builtin {
		return builtin{name: name, params: params, required: required, fn: fn}
	}
	late := func(name string, fn func(*state, args) (Value, error)) builtin {
		return builtin{name: name, variadic: true, late: true, fn: fn}
	}
	one := func(name string, fn func(*state, args) (Value, error)) builtin {
		return builtin{name: name, params: []string{"x"}, required: 1, posOnly: true, fn: fn}
	}
	return table([]builtin{
		one("abs", filterAbs),
		one("count", filterLength),
		one("length", filterLength),
		one("e", filterEscape),
		one("escape", filterEscape),
		f("attr", 2, filterAttr, "obj", "name"),
		f("batch", 2, filterBatch, "value", "linecount", "fill_with"),
		f("capitalize", 1, filterCapitalize, "s"),
		f("center", 1, filterCenter, "value", "width"),
		f("d", 1, filterDefault, "value", "default_value", "boolean"),
		f("default", 1, filterDefault, "value", "default_value", "boolean"),
		f("dictsort", 1, filterDictsort, "value", "case_sensitive", "by", "reverse"),
		f("filesizeformat", 1, filterFileSize, "value", "binary"),
		f("first", 1, filterFirst, "seq"),
		f("float", 1, filterFloat, "value", "default"),
		f("forceescape", 1, filterForceEscape, "value"),
		{name: "format", variadic: true, fn: filterFormat},
		f("groupby", 2, filterGroupby, "value", "attribute", "default", "case_sensitive"),
		f("indent", 1, filterIndent, "s", "width", "first", "blank"),
		f("int", 1, filterInt, "value", "default", "base"),
		f("items", 1, filterItems, "value"),
		f("join", 1, filterJoin, "value", "d", "attribute"),
		f("last", 1, filterLast, "seq"),
		f("list", 1, filterList, "value"),
		f("lower", 1, filterLower, "s"),
		late("map", filterMap),
		f("max", 1, filterMax, "value", "case_sensitive", "attribute"),
		f("min", 1, filterMin, "value", "case_sensitive", "attribute"),
		{name: "pprint"},
		{name: "random"},
		late("reject", filterReject),
		late("rejectattr", filterRejectAttr),
		f("replace", 3, filterReplace, "s", "old", "new", "count"),
		f("reverse", 1, filterReverse, "value"),
		f("round", 1, filterRound, "value", "precision", "method"),
		f("safe", 1, filterSafe, "value"),
		late("select", filterSelect),
		late("selectattr", filterSelectAttr),
		f("slice", 2, filterSlice, "value", "slices", "fill_with"),
		f("sort", 1, filterSort, "value", "reverse", "case_sensitive", "attribute"),
		one("string", filterString),
		f("striptags", 1, filterStriptags, "value"),
		f("sum", 1, filterSum, "iterable", "attribute", "start"),
		f("title", 1, filterTitle, "s"),
		f("tojson", 1, toJSON, "x", "ensure_ascii", "indent", "separators", "sort_keys"),
		f("trim", 1, filterTrim, "value", "chars"),
		f("truncate", 1, filterTruncate, "s", "length", "killwords", "end", "leeway"),
		f("unique", 1, filterUnique, "value", "case_sensitive", "attribute"),
		f("upper", 1, filterUpper, "s"),
		f("urlencode", 1, filterURLEncode, "value"),
		{name: "urlize"},
		f("wordcount", 1, filterWordcount, "s"),
		{name: "wordwrap"},
		f("xmlattr", 1, filterXMLAttr, "d", "autospace"),
	})
}

// Helpers for arguments that may be left out.

func argTruth(st *state, v Value) (bool, error) {
	if v == nil {
		return false, nil
	}
	return st.truth(v)
}

// isNone tells whether an argument is left out or None.
func isNone(v Value) bool {
	if v == nil {
		return true
	}
	_, none := v.(None)
	return none
}

// soft is markupsafe.soft_str: str(v), but Markup stays Markup.
func (st *state) soft(v Value) (s string, isMarkup bool, err error) {
	if m, ok := v.(markup); ok {
		return string(m), true, nil
	}
	s, err = st.str(v)
	return s, false, err
}

// softMap applies f to soft_str(v).
func (st *state) softMap(v Value, f func(string) string) (Value, error) {
	s, isMarkup, err := st.soft(v)
	if err != nil {
		return nil, err
	}
	if err := st.grow(len(s)); err != nil {
		return nil, err
	}
	s = f(s)
	if isMarkup {
		return markup(s), nil
	}
	return String(s), nil
}
