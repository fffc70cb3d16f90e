package jinja

// Filters that apply filters and tests. They are generators: nothing happens, and
// nothing goes wrong, until their items are asked for.

// keep copies arguments that outlive their call.
func keep(a args) args {
	return args{append([]Value(nil), a.pos...), append([]kwArg(nil), a.kw...)}
}

// lazily returns a generator over a.pos[0] that prepares its function only when
// the first item is asked for, and not for an empty sequence.
func lazily(a args, name string, prepare func(*state, args) (func(Value) (Value, bool, error), error)) (Value, error) {
	if len(a.pos) == 0 {
		return nil, raise(typeError, "%s misses its value", name)
	}
	a = keep(a)
	var it iterator
	var f func(Value) (Value, bool, error)
	return newGenerator(func(st *state) (Value, bool, error) {
		if it == nil {
			some, err := st.truth(a.pos[0])
			if err != nil || !some {
				return nil, false, err
			}
			if f, err = prepare(st, args{a.pos[1:], a.kw}); err != nil {
				return nil, false, err
			}
			if it, err = st.iter(a.pos[0]); err != nil {
				return nil, false, err
			}
		}
		for {
			v, ok, err := it.next(st)
			if err == nil && ok {
				err = st.step(1)
			}
			if err != nil || !ok {
				return nil, false, err
			}
			if v, ok, err = f(v); err != nil || ok {
				return v, ok, err
			}
		}
	}), nil
}

func filterMap(_ *state, a args) (Value, error) {
	return lazily(a, "map", func(st *state, a args) (func(Value) (Value, bool, error), error) {
		if attribute := a.keyword("attribute"); len(a.pos) == 0 && attribute != nil {
			fallback := a.keyword("default")
			for _, k := range a.kw {
				if k.name != "attribute" && k.name != "default" {
					return nil, raise(otherError, "unexpected keyword argument")
				}
			}
			get, err := st.attrGetter(attribute, fallback, false)
			return func(item Value) (Value, bool, error) {
				v, failed := get(item)
				return v, true, failed
			}, err
		}
		if len(a.pos) == 0 {
			return nil, raise(otherError, "map requires a filter argument")
		}
		def, err := st.named(st.lib.filters, "filter", a.pos[0])
		rest := args{a.pos[1:], a.kw}
		return func(v Value) (Value, bool, error) {
			if err != nil {
				return nil, false, err
			}
			v, err := st.apply(def, v, rest)
			return v, true, err
		}, nil
	})
}

// named finds a filter or test whose name is a value.
func (st *state) named(defs map[string]*builtin, kind string, name Value) (*builtin, error) {
	s, ok := asString(name)
	if !ok {
		if _, hashable := hashKey(name); !hashable {
			return nil, raise(typeError, "unhashable type: %s", name.typeName())
		}
		return nil, raise(otherError, "no %s of that name", kind)
	}
	def := defs[s]
	if def == nil {
		return nil, raise(otherError, "no %s of that name", kind)
	}
	if def.fn == nil {
		return nil, unsupported("%s %q", kind, s)
	}
	return def, nil
}

// apply calls a filter or test on v.
func (st *state) apply(def *builtin, v Value, a args) (Value, error) {
	mark := len(st.args)
	st.args = append(append(st.args, v), a.pos...)
	out, err := def.call(st, args{st.args[mark:], a.kw})
	st.args = st.args[:mark]
	return out, err
}

func filterSelect(_ *state, a args) (Value, error) { return selecting(a, "select", true, false) }

func filterReject(_ *state, a args) (Value, error) { return selecting(a, "reject", false, false) }

func filterSelectAttr(_ *state, a args) (Value, error) { return selecting(a, "selectattr", true, true) }

func filterRejectAttr(_ *state, a args) (Value, error) {
	return selecting(a, "rejectattr", false, true)
}

// selecting keeps the items for which a test, or the item itself, is as wanted.
func selecting(a args, name string, wanted, byAttr bool) (Value, error) {
	return lazily(a, name, func(st *state, a args) (func(Value) (Value, bool, error), error) {
		get := func(v Value) (Value, error) { return v, nil }
		if byAttr {
			if len(a.pos) == 0 {
				return nil, raise(otherError, "missing parameter for attribute name")
			}
			var err error
			if get, err = st.attrGetter(a.pos[0], nil, false); err != nil {
				return nil, err
			}
			a.pos = a.pos[1:]
		}
		test := func(v Value) (Value, error) { return v, nil }
		if len(a.pos) > 0 {
			def, failed := st.named(st.lib.tests, "test", a.pos[0])
			rest := args{a.pos[1:], a.kw}
			test = func(v Value) (Value, error) {
				if failed != nil {
					return nil, failed
				}
				return st.apply(def, v, rest)
			}
		}
		return func(item Value) (Value, bool, error) {
			v, err := get(item)
			if err != nil {
				return nil, false, err
			}
			if v, err = test(v); err != nil {
				return nil, false, err
			}
			ok, err := st.truth(v)
			return item, ok == wanted, err
		}, nil
	})
}
