package jinja

// isJinjaGlobal tells whether a name is among the globals of every jinja2
// environment. raise_exception and strftime_now are not: transformers adds them.
func isJinjaGlobal(name string) bool {
	switch name {
	case "range", "dict", "lipsum", "cycler", "joiner", "namespace":
		return true
	default:
		return false
	}
}

// global returns the function that a name means unless the variables have one of
// that name; nil if none.
func global(name string) Value {
	switch name {
	case "range":
		return rangeFunc
	case "dict":
		return dictFunc
	case "lipsum":
		return lipsumFunc
	case "cycler":
		return cyclerFunc
	case "joiner":
		return joinerFunc
	case "namespace":
		return namespaceFunc
	case "raise_exception":
		return raiseFunc
	case "strftime_now":
		return strftimeFunc
	default:
		return nil
	}
}

// The functions.
//
//nolint:gochecknoglobals // constants, but for their type
var (
	rangeFunc     = method("range", makeRange)
	dictFunc      = &dictType{}
	namespaceFunc = &callable{name: "namespace", fn: makeNamespace, repr: "<class 'jinja2.utils.Namespace'>"}
	cyclerFunc    = &callable{name: "cycler", fn: makeCycler, repr: "<class 'jinja2.utils.Cycler'>"}
	joinerFunc    = &callable{name: "joiner", fn: makeJoiner, repr: "<class 'jinja2.utils.Joiner'>"}
	lipsumFunc    = method("lipsum", func(*state, args) (Value, error) {
		return nil, unsupported("lipsum, whose text is random")
	})
	raiseFunc    = method("raise_exception", raiseException)
	strftimeFunc = method("strftime_now", strftimeNow)
)

// makeDict is dict(...) and what a namespace starts with.
func makeDict(st *state, a args) (*Dict, error) {
	d := NewDict(len(a.kw))
	if len(a.pos) > 1 {
		return nil, raise(typeError, "dict expected at most 1 argument, got %d", len(a.pos))
	}
	if len(a.pos) == 1 {
		if err := st.updateDict(d, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		d.Set(k.name, k.value)
	}
	return d, nil
}

// updateDict adds the entries of a dict, or of an iterable of pairs.
func (st *state) updateDict(d *Dict, v Value) error {
	if src, ok := v.(*Dict); ok {
		if err := st.growItems(len(src.entries)); err != nil {
			return err
		}
		for _, e := range src.entries {
			if err := d.set(e.key, e.val); err != nil {
				return err
			}
		}
		return nil
	}
	if u, ok := v.(*Undefined); ok {
		return u.fail() // Python asks it for its keys first
	}
	it, err := st.iter(v)
	if err != nil {
		return err
	}
	for {
		var pair Value
		var ok bool
		if pair, ok, err = it.next(st); err != nil || !ok {
			return err
		}
		if failed := st.spend(valueSize); failed != nil {
			return failed
		}
		var items []Value
		if items, err = st.items(pair); err != nil {
			return err
		}
		if len(items) != 2 {
			return raise(valueError, "dictionary update sequence element has length %d; 2 is required", len(items))
		}
		if failed := d.set(items[0], items[1]); failed != nil {
			return failed
		}
	}
}

func makeDictValue(st *state, a args) (Value, error) {
	d, err := makeDict(st, a)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func makeNamespace(st *state, a args) (Value, error) {
	d, err := makeDict(st, a)
	if err != nil {
		return nil, err
	}
	return &namespace{d}, nil
}

func makeCycler(_ *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, raise(typeError, "cycler() got an unexpected keyword argument")
	}
	if len(a.pos) == 0 {
		return nil, raise(otherError, "at least one item has to be provided")
	}
	return &cycler{items: append([]Value(nil), a.pos...)}, nil
}

func makeJoiner(_ *state, a args) (Value, error) {
	j := &joiner{sep: String(", ")}
	switch {
	case len(a.pos) == 1 && len(a.kw) == 0:
		j.sep = a.pos[0]
	case len(a.pos) == 0 && len(a.kw) == 1 && a.kw[0].name == "sep":
		j.sep = a.kw[0].value
	case len(a.pos) > 0 || len(a.kw) > 0:
		return nil, raise(typeError, "joiner() takes one argument, sep")
	}
	return j, nil
}

// raiseException is transformers' raise_exception(message).
func raiseException(st *state, a args) (Value, error) {
	var v Value
	switch {
	case len(a.pos) == 1 && len(a.kw) == 0:
		v = a.pos[0]
	case len(a.pos) == 0 && len(a.kw) == 1 && a.kw[0].name == "message":
		v = a.kw[0].value
	default:
		return nil, raise(typeError, "raise_exception() takes one argument, message")
	}
	message, err := st.str(v)
	if err != nil {
		message = ""
	}
	return nil, &Error{Kind: Raised, Message: message}
}

// strftimeNow is transformers' strftime_now(format).
func strftimeNow(st *state, a args) (Value, error) {
	var v Value
	switch {
	case len(a.pos) == 1 && len(a.kw) == 0:
		v = a.pos[0]
	case len(a.pos) == 0 && len(a.kw) == 1 && a.kw[0].name == "format":
		v = a.kw[0].value
	default:
		return nil, raise(typeError, "strftime_now() takes one argument, format")
	}
	format, ok := asString(v)
	if !ok {
		return nil, raise(typeError, "strftime() argument 1 must be str, not %s", v.typeName())
	}
	if failed := st.work(len(format)); failed != nil {
		return nil, failed
	}
	s, err := strftime(st.now(), format)
	if err != nil {
		return nil, err
	}
	if err := st.grow(len(s)); err != nil {
		return nil, err
	}
	return String(s), nil
}
