package jinja

import "strings"

func filterLength(st *state, a args) (Value, error) {
	n, err := st.length(a.pos[0])
	return Int(n), err
}

func filterDefault(st *state, a args) (Value, error) {
	v := a.pos[0]
	_, use := v.(*Undefined)
	if !use {
		strict, err := argTruth(st, a.pos[2])
		if err != nil {
			return nil, err
		}
		if strict {
			ok, err := st.truth(v)
			if err != nil {
				return nil, err
			}
			use = !ok
		}
	}
	switch {
	case !use:
		return v, nil
	case a.pos[1] == nil:
		return String(""), nil
	default:
		return a.pos[1], nil
	}
}

//nolint:gochecknoglobals // constants, but for their type
var (
	noFirst     = &Undefined{hint: "no first item, sequence was empty"}
	noLast      = &Undefined{hint: "no last item, sequence was empty"}
	noAggregate = &Undefined{hint: "no aggregated item, sequence was empty"}
)

func filterFirst(st *state, a args) (Value, error) {
	it, err := st.iter(a.pos[0])
	if err != nil {
		return nil, err
	}
	v, ok, err := it.next(st)
	if !ok && err == nil {
		return noFirst, nil
	}
	return v, err
}

func filterLast(st *state, a args) (Value, error) {
	it, err := st.reversed(a.pos[0])
	if err != nil {
		return nil, err
	}
	v, ok, err := it.next(st)
	if !ok && err == nil {
		return noLast, nil
	}
	return v, err
}

func filterList(st *state, a args) (Value, error) {
	items, err := st.items(a.pos[0])
	if err != nil {
		return nil, err
	}
	return NewList(items...), nil
}

func filterReverse(st *state, a args) (Value, error) {
	if s, ok := asString(a.pos[0]); ok {
		if err := st.grow(len(s)); err != nil {
			return nil, err
		}
		rs := toRunes(s)
		for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {
			rs[i], rs[j] = rs[j], rs[i]
		}
		if _, isMarkup := a.pos[0].(markup); isMarkup {
			return markup(fromRunes(rs)), nil
		}
		return String(fromRunes(rs)), nil
	}
	it, err := st.reversed(a.pos[0])
	if err == nil {
		return &generator{it: it, kind: "reversed"}, nil
	}
	if !isClass(err, typeError) {
		return nil, err
	}
	items, err := st.items(a.pos[0])
	if isClass(err, typeError) {
		return nil, raise(otherError, "argument must be iterable")
	}
	if err != nil {
		return nil, err
	}
	out := make([]Value, len(items))
	for i, v := range items {
		out[len(items)-1-i] = v
	}
	return NewList(out...), nil
}

func filterJoin(st *state, a args) (Value, error) {
	sep := ""
	if a.pos[1] != nil {
		var err error
		if sep, err = st.str(a.pos[1]); err != nil {
			return nil, err
		}
	}
	it, err := st.iter(a.pos[0])
	if err != nil {
		return nil, err
	}
	get := func(v Value) (Value, error) { return v, nil }
	if !isNone(a.pos[2]) {
		if get, err = st.attrGetter(a.pos[2], nil, false); err != nil {
			return nil, err
		}
	}
	var out []byte
	for first := true; ; first = false {
		v, ok, err := it.next(st)
		if err == nil && ok {
			err = st.step(1)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if v, err = get(v); err != nil {
			return nil, err
		}
		s, err := st.str(v)
		if err != nil {
			return nil, err
		}
		if !first {
			out = append(out, sep...)
		}
		out = append(out, s...)
		if len(out) > st.opts.MaxOutput {
			break
		}
	}
	if err := st.grow(len(out)); err != nil {
		return nil, err
	}
	return String(out), nil
}

// attrGetter returns a function that looks up a path of attributes: "a.b.0".
func (st *state) attrGetter(attribute, fallback Value, foldCase bool) (func(Value) (Value, error), error) {
	var parts []Value
	switch s, ok := asString(attribute); {
	case attribute == nil:
	case ok:
		if err := st.grow(len(s)); err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(s, ".") {
			if isDigits(part) {
				n, err := parseInt(part, 10)
				if err != nil {
					return nil, err
				}
				parts = append(parts, n)
				continue
			}
			parts = append(parts, String(part))
		}
	case isNone(attribute):
	default:
		parts = []Value{attribute}
	}
	return func(v Value) (Value, error) {
		for _, part := range parts {
			next, err := st.getitem(v, part)
			if err != nil {
				return nil, err
			}
			if next == nil {
				next = undefinedElement
			}
			if _, undefined := next.(*Undefined); undefined && !isNone(fallback) {
				next = fallback
			}
			v = next
		}
		if foldCase {
			return st.ignoreCase(v)
		}
		return v, nil
	}, nil
}

// isDigits is str.isdigit.
func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// ignoreCase makes strings lower case, for sorting.
func (st *state) ignoreCase(v Value) (Value, error) {
	switch s := v.(type) {
	case String:
		return String(lower(string(s))), st.grow(len(s))
	case markup:
		return markup(lower(string(s))), st.grow(len(s))
	default:
		return v, nil
	}
}

func filterBatch(_ *state, a args) (Value, error) {
	b := &batcher{src: a.pos[0], size: a.pos[1], fill: a.pos[2]}
	return newGenerator(b.next), nil
}

// batcher makes lists of size items of src.
type batcher struct {
	src, size, fill Value
	it              iterator
	finished        bool
	batch           []Value
}

func (b *batcher) next(st *state) (Value, bool, error) {
	if b.it == nil {
		var err error
		if b.it, err = st.iter(b.src); err != nil {
			return nil, false, err
		}
	}
	for !b.finished {
		v, ok, err := b.it.next(st)
		if err == nil && ok {
			err = st.spend(valueSize)
		}
		if err != nil {
			return nil, false, err
		}
		if !ok {
			b.finished = true
			break
		}
		full, err := st.equal(Int(len(b.batch)), b.size)
		if err != nil {
			return nil, false, err
		}
		if full {
			out := NewList(b.batch...)
			b.batch = []Value{v}
			return out, true, nil
		}
		b.batch = append(b.batch, v)
	}
	if len(b.batch) == 0 {
		return nil, false, nil
	}
	out, err := b.filled(st)
	b.batch = nil
	return out, true, err
}

// filled returns the last batch, filled up.
func (b *batcher) filled(st *state) (Value, error) {
	if isNone(b.fill) {
		return NewList(b.batch...), nil
	}
	short, err := st.order(cmpLt, Int(len(b.batch)), b.size)
	if err != nil || !short {
		return NewList(b.batch...), err
	}
	n, err := index(b.size)
	if err != nil {
		return nil, err
	}
	filler, err := st.repeatItems([]Value{b.fill}, n-int64(len(b.batch)))
	return NewList(append(b.batch, filler...)...), err
}

func filterSlice(_ *state, a args) (Value, error) {
	src, count, fill := a.pos[0], a.pos[1], a.pos[2]
	started := false
	var seq []Value
	var slices, size, extra, offset, number int64
	return newGenerator(func(st *state) (Value, bool, error) {
		if !started {
			started = true
			var err error
			if seq, err = st.items(src); err != nil {
				return nil, false, err
			}
			if slices, err = index(count); err != nil {
				return nil, false, err
			}
			q, err := st.binary(opFloorDiv, Int(len(seq)), Int(slices))
			if err != nil {
				return nil, false, err
			}
			size, _ = asInt(q)
			extra = int64(len(seq)) - size*slices
		}
		if number >= slices {
			return nil, false, nil
		}
		start := offset + number*size
		if number < extra {
			offset++
		}
		end := offset + (number+1)*size
		items := append([]Value(nil), seq[start:end]...)
		if !isNone(fill) && number >= extra {
			items = append(items, fill)
		}
		number++
		if err := st.growItems(len(items) + 1); err != nil {
			return nil, false, err
		}
		return NewList(items...), true, nil
	}), nil
}

func filterItems(_ *state, a args) (Value, error) {
	src := a.pos[0]
	i := 0
	return newGenerator(func(*state) (Value, bool, error) {
		switch d := src.(type) {
		case *Undefined:
			return nil, false, nil
		case *Dict:
			if i >= len(d.entries) {
				return nil, false, nil
			}
			i++
			return newPair(d.entries[i-1].key, d.entries[i-1].val), true, nil
		default:
			return nil, false, raise(typeError, "can only get item pairs from a mapping")
		}
	}), nil
}

func filterAttr(st *state, a args) (Value, error) {
	name, ok := asString(a.pos[1])
	if !ok {
		return nil, raise(typeError, "attribute name must be string, not %s", a.pos[1].typeName())
	}
	v, err := st.attribute(a.pos[0], name)
	if v == nil && err == nil {
		return undefinedElement, nil
	}
	return v, err
}
