package jinja

// testTable lists jinja2's tests.
func testTable() map[string]*builtin {
	pure := func(name string, f func(Value) bool) builtin {
		return builtin{name: name, params: []string{"value"}, required: 1, fn: func(_ *state, a args) (Value, error) {
			return Bool(f(a.pos[0])), nil
		}}
	}
	compares := func(op compareOp, names ...string) []builtin {
		var out []builtin
		for _, name := range names {
			out = append(out, builtin{
				name: name, params: []string{"a", "b"}, required: 2, posOnly: true,
				fn: func(st *state, a args) (Value, error) {
					ok, err := st.compare(op, a.pos[0], a.pos[1])
					return Bool(ok), err
				},
			})
		}
		return out
	}
	remainder := func(name string, divisor, want int) builtin {
		return builtin{name: name, params: []string{"value"}, required: 1, fn: func(st *state, a args) (Value, error) {
			return st.leaves(a.pos[0], Int(divisor), want)
		}}
	}
	isType := func(name string, f func(Value) bool) builtin { return pure(name, f) }
	return table([]builtin{
		remainder("odd", 2, 1),
		remainder("even", 2, 0),
		{name: "divisibleby", params: []string{"value", "num"}, required: 2, fn: func(st *state, a args) (Value, error) {
			return st.leaves(a.pos[0], a.pos[1], 0)
		}},
		pure("defined", func(v Value) bool { _, is := v.(*Undefined); return !is }),
		pure("undefined", func(v Value) bool { _, is := v.(*Undefined); return is }),
		{name: "filter", params: []string{"value"}, required: 1, fn: func(st *state, a args) (Value, error) {
			return nameIn(a.pos[0], st.lib.filters)
		}},
		{name: "test", params: []string{"value"}, required: 1, fn: func(st *state, a args) (Value, error) {
			return nameIn(a.pos[0], st.lib.tests)
		}},
		pure("none", func(v Value) bool { _, is := v.(None); return is }),
		pure("boolean", func(v Value) bool { _, is := v.(Bool); return is }),
		pure("false", func(v Value) bool { b, is := v.(Bool); return is && !bool(b) }),
		pure("true", func(v Value) bool { b, is := v.(Bool); return is && bool(b) }),
		isType("integer", func(v Value) bool { _, isBool := v.(Bool); return isInt(v) && !isBool }),
		isType("float", func(v Value) bool { _, is := v.(Float); return is }),
		isType("string", isString),
		isType("mapping", func(v Value) bool { _, is := v.(*Dict); return is }),
		isType("number", isNumber),
		isType("sequence", isSequenceTest),
		{name: "lower", params: []string{"value"}, required: 1, fn: caseTest(isLower)},
		{name: "upper", params: []string{"value"}, required: 1, fn: caseTest(isUpper)},
		{name: "iterable", params: []string{"value"}, required: 1, fn: func(st *state, a args) (Value, error) {
			_, err := st.iter(a.pos[0])
			if isClass(err, typeError) {
				return Bool(false), nil
			}
			return Bool(true), err
		}},
		pure("callable", isCallable),
		{name: "sameas", params: []string{"value", "other"}, required: 2, fn: func(_ *state, a args) (Value, error) {
			return Bool(same(a.pos[0], a.pos[1])), nil
		}},
		pure("escaped", func(v Value) bool { _, is := v.(markup); return is }),
		{name: "in", params: []string{"value", "seq"}, required: 2, fn: func(st *state, a args) (Value, error) {
			ok, err := st.contains(a.pos[1], a.pos[0])
			return Bool(ok), err
		}},
	},
		compares(cmpEq, "==", "eq", "equalto"),
		compares(cmpNe, "!=", "ne"),
		compares(cmpGt, ">", "gt", "greaterthan"),
		compares(cmpGe, ">=", "ge"),
		compares(cmpLt, "<", "lt", "lessthan"),
		compares(cmpLe, "<=", "le"),
	)
}

// leaves tests v % divisor == want. For a string that is formatting.
func (st *state) leaves(v, divisor Value, want int) (Value, error) {
	m, err := st.binary(opMod, v, divisor)
	if err != nil {
		return nil, err
	}
	ok, err := st.equal(m, Int(want))
	return Bool(ok), err
}

func nameIn(v Value, defs map[string]*builtin) (Value, error) {
	if _, hashable := hashKey(v); !hashable {
		return nil, raise(typeError, "unhashable type: %s", v.typeName())
	}
	s, ok := asString(v)
	return Bool(ok && defs[s] != nil), nil
}

func caseTest(f func(string) bool) func(*state, args) (Value, error) {
	return func(st *state, a args) (Value, error) {
		s, err := st.str(a.pos[0])
		return Bool(f(s)), err
	}
}

// isSequenceTest tells what has a length and items: dicts, too.
func isSequenceTest(v Value) bool {
	switch v.(type) {
	case String, markup, *List, *Tuple, *Dict, *rangeValue, *Undefined:
		return true
	default:
		return false
	}
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *macro, *callable, *loopContext, *joiner, *Undefined, *dictType, *alias:
		return true
	default:
		return false
	}
}

// same tests identity. Strings and numbers that are equal count as the same object:
// Python mostly agrees for those that templates compare, but promises nothing.
func same(a, b Value) bool {
	switch x := a.(type) {
	case None, Bool, Int, String:
		return a == b
	case markup, Float:
		return false
	case *Undefined:
		y, ok := b.(*Undefined)
		return ok && x == y && x == undefinedElement
	default:
		return a == b
	}
}
