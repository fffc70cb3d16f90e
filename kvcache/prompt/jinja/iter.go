package jinja

// iterator yields values until ok is false. Most are lazy, as Python's are: what
// goes wrong does so when the value is asked for.
type iterator interface {
	next(st *state) (v Value, ok bool, err error)
}

type iterFunc func(st *state) (Value, bool, error)

func (f iterFunc) next(st *state) (Value, bool, error) { return f(st) }

type sliceIter struct {
	items []Value
	i     int
}

func (it *sliceIter) next(*state) (Value, bool, error) {
	if it.i >= len(it.items) {
		return nil, false, nil
	}
	it.i++
	return it.items[it.i-1], true, nil
}

// indexIter iterates over n items by index, backwards if step is -1.
type indexIter struct {
	at   func(i int) Value
	i, n int
}

func (it *indexIter) next(*state) (Value, bool, error) {
	if it.i >= it.n {
		return nil, false, nil
	}
	it.i++
	return it.at(it.i - 1), true, nil
}

type stringIter struct{ s string }

func (it *stringIter) next(*state) (Value, bool, error) {
	if it.s == "" {
		return nil, false, nil
	}
	_, n := decodeRune(it.s)
	c := it.s[:n]
	it.s = it.s[n:]
	return String(c), true, nil
}

// generator is an iterator as a value. It can be gone through once.
type generator struct {
	it   iterator
	kind string // type name
	done bool
}

func (g *generator) typeName() string { return g.kind }

func (g *generator) next(st *state) (Value, bool, error) {
	if g.done {
		return nil, false, nil
	}
	v, ok, err := g.it.next(st)
	if err != nil || !ok {
		g.done = true
	}
	return v, ok, err
}

func newGenerator(f iterFunc) *generator { return &generator{it: f, kind: "generator"} }

// iter is iter(v).
func (st *state) iter(v Value) (iterator, error) {
	switch v := v.(type) {
	case *List:
		return &sliceIter{items: v.items}, nil
	case *Tuple:
		return &sliceIter{items: v.items}, nil
	case *Dict:
		return &indexIter{at: func(i int) Value { return v.entries[i].key }, n: len(v.entries)}, nil
	case *dictView:
		return &indexIter{at: v.at, n: len(v.d.entries)}, nil
	case *rangeValue:
		return &indexIter{at: v.at, n: v.len()}, nil
	case String:
		return &stringIter{s: string(v)}, nil
	case markup:
		return &stringIter{s: string(v)}, nil
	case *Undefined:
		return &sliceIter{}, nil
	case *generator:
		return v, nil
	case *loopContext:
		return iterFunc(func(st *state) (Value, bool, error) {
			item, ok, err := v.next(st)
			if err != nil || !ok {
				return nil, false, err
			}
			return newPair(item, v), true, nil
		}), nil
	case *alias:
		return nil, unsupported("iterating over a types.GenericAlias")
	default:
		return nil, raise(typeError, "%s object is not iterable", v.typeName())
	}
}

// drain reads an iterator to its end.
func (st *state) drain(it iterator) ([]Value, error) {
	var out []Value
	for {
		v, ok, err := it.next(st)
		if err != nil || !ok {
			return out, err
		}
		if err := st.step(1); err != nil {
			return nil, err
		}
		if err := st.spend(valueSize); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

// items is list(v); the result must not be modified.
func (st *state) items(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.items, nil
	case *Tuple:
		return v.items, nil
	}
	it, err := st.iter(v)
	if err != nil {
		return nil, err
	}
	return st.drain(it)
}

// length is len(v).
func (st *state) length(v Value) (int, error) {
	switch v := v.(type) {
	case String:
		return st.stringLen(string(v))
	case markup:
		return st.stringLen(string(v))
	case *List:
		return len(v.items), nil
	case *Tuple:
		return len(v.items), nil
	case *Dict:
		return len(v.entries), nil
	case *dictView:
		return len(v.d.entries), nil
	case *rangeValue:
		return v.len(), nil
	case *Undefined:
		return 0, nil
	case *loopContext:
		return v.len(st)
	default:
		return 0, raise(typeError, "object of type %s has no len()", v.typeName())
	}
}

func (st *state) stringLen(s string) (int, error) {
	return runeLen(s), st.work(len(s))
}

// reversed is reversed(v).
func (st *state) reversed(v Value) (iterator, error) {
	switch v := v.(type) {
	case *List:
		return backwards(len(v.items), func(i int) Value { return v.items[i] }), nil
	case *Tuple:
		return backwards(len(v.items), func(i int) Value { return v.items[i] }), nil
	case *Dict:
		return backwards(len(v.entries), func(i int) Value { return v.entries[i].key }), nil
	case *dictView:
		return backwards(len(v.d.entries), v.at), nil
	case *rangeValue:
		return backwards(v.len(), v.at), nil
	case String, markup:
		s, _ := asString(v)
		if err := st.work(len(s)); err != nil {
			return nil, err
		}
		return iterFunc(func(*state) (Value, bool, error) {
			if s == "" {
				return nil, false, nil
			}
			_, n := decodeLastRune(s)
			c := s[len(s)-n:]
			s = s[:len(s)-n]
			return String(c), true, nil
		}), nil
	case *Undefined:
		return &sliceIter{}, nil
	default:
		return nil, raise(typeError, "%s object is not reversible", v.typeName())
	}
}

func backwards(n int, at func(int) Value) iterator {
	return &indexIter{at: func(i int) Value { return at(n - 1 - i) }, n: n}
}
