package jinja

// builtin is a filter, test, method or function. The first parameter of all but
// functions is what it is applied to.
type builtin struct {
	name     string
	params   []string
	required int  // how many of params have no default
	posOnly  bool // params can't be given by name
	variadic bool // fn takes any arguments and checks them itself
	late     bool // not evaluated at compile time
	fn       func(st *state, a args) (Value, error)
}

// call binds a to the parameters and calls fn with one positional argument for
// each; those left out are nil.
func (b *builtin) call(st *state, a args) (Value, error) {
	if b.fn == nil {
		return nil, unsupported("%s", b.name)
	}
	if b.variadic || len(a.kw) == 0 && len(a.pos) == len(b.params) {
		return b.fn(st, a)
	}
	if len(a.pos) > len(b.params) {
		return nil, raise(typeError, "%s takes at most %d arguments (%d given)", b.name, len(b.params), len(a.pos))
	}
	mark := len(st.args)
	st.args = append(st.args, a.pos...)
	for range len(b.params) - len(a.pos) {
		st.args = append(st.args, nil)
	}
	bound := st.args[mark:]
	for _, k := range a.kw {
		i := b.index(k.name)
		if i < 0 {
			return nil, raise(typeError, "%s got an unexpected keyword argument", b.name)
		}
		if bound[i] != nil {
			return nil, raise(typeError, "%s got multiple values for argument %q", b.name, b.params[i])
		}
		bound[i] = k.value
	}
	for i := range b.required {
		if bound[i] == nil {
			return nil, raise(typeError, "%s misses argument %q", b.name, b.params[i])
		}
	}
	v, err := b.fn(st, args{pos: bound})
	st.args = st.args[:mark]
	return v, err
}

func (b *builtin) index(name string) int {
	if b.posOnly {
		return -1
	}
	for i, p := range b.params {
		if p == name {
			return i
		}
	}
	return -1
}

// callable is a function as a value: a global or a bound method.
type callable struct {
	name string
	fn   func(st *state, a args) (Value, error)
	repr string // what it prints as; "": as something with an address in it
}

func (*callable) typeName() string { return "builtin_function_or_method" }

func (c *callable) call(st *state, a args) (Value, error) {
	if err := st.step(1); err != nil {
		return nil, err
	}
	return c.fn(st, a)
}

func method(name string, fn func(st *state, a args) (Value, error)) *callable {
	return &callable{name: name, fn: fn}
}

// bind makes a method of a builtin and its receiver.
func (b *builtin) bind(receiver Value) *callable {
	return &callable{name: b.name, fn: func(st *state, a args) (Value, error) {
		mark := len(st.args)
		st.args = append(append(st.args, receiver), a.pos...)
		v, err := b.call(st, args{st.args[mark:], a.kw})
		st.args = st.args[:mark]
		return v, err
	}}
}

// library is all builtins by name.
type library struct {
	filters, tests                             map[string]*builtin
	strings, dicts, lists, tuples, ranges, num map[string]*builtin
}

// lib is all builtins.
//
//nolint:gochecknoglobals // a table that nothing changes
var lib = library{
	filters: filterTable(), tests: testTable(),
	strings: stringTable(), dicts: dictTable(), lists: listTable(), tuples: tupleTable(),
	ranges: rangeTable(), num: numberTable(),
}

// table indexes builtins.
func table(groups ...[]builtin) map[string]*builtin {
	out := map[string]*builtin{}
	for _, g := range groups {
		for i := range g {
			out[g[i].name] = &g[i]
		}
	}
	return out
}
