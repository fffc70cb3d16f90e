package jinja

// args are the arguments of a call. They are valid during the call only: what
// keeps them copies them.
type args struct {
	pos []Value
	kw  []kwArg
}

type kwArg struct {
	name  string
	value Value
}

// keyword returns the value of a keyword argument, or nil.
func (a args) keyword(name string) Value {
	for i := range a.kw {
		if a.kw[i].name == name {
			return a.kw[i].value
		}
	}
	return nil
}

// argList is the arguments of a call in the source.
type argList struct {
	pos      []expr
	kw       []kwExpr
	dyn, kwd expr // *dyn, **kwd; may be nil
}

type kwExpr struct {
	name string
	x    expr
}

// eval puts positional arguments on the stack behind those that are there since
// mark. caller, if any, is passed as a keyword.
func (l *argList) eval(st *state, mark int, caller *macro) (args, error) {
	for _, x := range l.pos {
		v, err := x.eval(st)
		if err != nil {
			return args{}, err
		}
		st.args = append(st.args, v)
	}
	if len(l.kw) == 0 && l.dyn == nil && l.kwd == nil && caller == nil {
		return args{pos: st.args[mark:]}, nil
	}
	return l.evalRest(st, mark, caller)
}

func (l *argList) evalRest(st *state, mark int, caller *macro) (args, error) {
	kw := make([]kwArg, 0, len(l.kw)+1)
	for _, k := range l.kw {
		v, err := k.x.eval(st)
		if err != nil {
			return args{}, err
		}
		kw = append(kw, kwArg{k.name, v})
	}
	if caller != nil {
		kw = append(kw, kwArg{"caller", caller})
	}
	if l.dyn != nil {
		v, err := l.dyn.eval(st)
		if err != nil {
			return args{}, err
		}
		items, err := st.items(v)
		if err != nil {
			return args{}, err
		}
		st.args = append(st.args, items...)
	}
	if l.kwd != nil {
		v, err := l.kwd.eval(st)
		if err != nil {
			return args{}, err
		}
		if kw, err = appendKeywords(kw, v); err != nil {
			return args{}, err
		}
	}
	return args{st.args[mark:], kw}, nil
}

func appendKeywords(kw []kwArg, v Value) ([]kwArg, error) {
	d, ok := v.(*Dict)
	if !ok {
		if u, ok := v.(*Undefined); ok {
			return nil, u.fail()
		}
		return nil, raise(typeError, "argument after ** must be a mapping, not %s", v.typeName())
	}
	const most = 1000 // each is compared with all
	if len(d.entries) > most {
		return nil, limit("more than %d keyword arguments", most)
	}
	for _, e := range d.entries {
		name, ok := asString(e.key)
		if !ok {
			return nil, raise(typeError, "keywords must be strings")
		}
		for i := range kw {
			if kw[i].name == name {
				return nil, raise(typeError, "got multiple values for a keyword argument")
			}
		}
		kw = append(kw, kwArg{name, e.val})
	}
	return kw, nil
}

// callExpr calls what fn yields.
type callExpr struct {
	fn   expr
	args argList
	line int
}

func (x *callExpr) eval(st *state) (Value, error) { return x.evalWith(st, nil) }

func (x *callExpr) evalWith(st *state, caller *macro) (Value, error) {
	fn, err := x.fn.eval(st)
	if err != nil {
		return nil, err
	}
	mark := len(st.args)
	a, err := x.args.eval(st, mark, caller)
	if err != nil {
		return nil, err
	}
	v, err := st.callValue(fn, a)
	st.args = st.args[:mark]
	if err != nil {
		return nil, atLine(err, x.line)
	}
	return v, nil
}

// methodExpr is x.name(...): it calls methods of strings and dicts without making
// a bound method first.
type methodExpr struct {
	x        expr
	name     string
	undef    *Undefined
	onString *builtin // nil: strings have no such method
	onDict   *builtin
	args     argList
	line     int
}

func (x *methodExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	var def *builtin
	switch v.(type) {
	case String:
		def = x.onString
	case *Dict:
		def = x.onDict
	}
	mark := len(st.args)
	if def != nil {
		st.args = append(st.args, v)
	} else {
		if v, err = st.getattr(v, x.name); err != nil {
			return nil, err
		}
		if v == nil {
			v = x.undef
		}
	}
	a, err := x.args.eval(st, mark, nil)
	if err != nil {
		return nil, err
	}
	if def != nil {
		v, err = def.call(st, a)
	} else {
		v, err = st.callValue(v, a)
	}
	st.args = st.args[:mark]
	if err != nil {
		return nil, atLine(err, x.line)
	}
	return v, nil
}

// callValue calls v.
func (st *state) callValue(v Value, a args) (Value, error) {
	switch v := v.(type) {
	case *macro:
		return v.call(st, a)
	case *callable:
		return v.call(st, a)
	case *loopContext:
		return v.call(st, a)
	case *dictType, *alias:
		return makeDictValue(st, a)
	case *joiner:
		return v.call(st, a)
	case *Undefined:
		return nil, v.fail()
	default:
		return nil, raise(typeError, "%s object is not callable", v.typeName())
	}
}
