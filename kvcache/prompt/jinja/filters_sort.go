package jinja

import (
	"sort"
	"strings"
)

// keyed is an item with what it is sorted by.
type keyed struct{ item, key Value }

// sortKeyed sorts as Python's sorted does: stable, also in reverse.
func (st *state) sortKeyed(items []keyed, reverse bool) error {
	var failed error
	less := func(a, b Value) bool {
		if failed != nil {
			return false
		}
		if failed = st.step(1); failed != nil {
			return false
		}
		ok, err := st.order(cmpLt, a, b)
		if err != nil {
			failed = err
		}
		return ok
	}
	sort.SliceStable(items, func(i, j int) bool {
		if reverse {
			return less(items[j].key, items[i].key)
		}
		return less(items[i].key, items[j].key)
	})
	return failed
}

// keys evaluates the sort key of each item.
func (st *state) keys(items []Value, get func(Value) (Value, error)) ([]keyed, error) {
	if err := st.growItems(2 * len(items)); err != nil {
		return nil, err
	}
	out := make([]keyed, len(items))
	for i, v := range items {
		if err := st.step(1); err != nil {
			return nil, err
		}
		k, err := get(v)
		if err != nil {
			return nil, err
		}
		out[i] = keyed{v, k}
	}
	return out, nil
}

func itemsOf(ks []keyed) *List {
	out := make([]Value, len(ks))
	for i := range ks {
		out[i] = ks[i].item
	}
	return NewList(out...)
}

// filterSort sorts by one or several attributes, given with commas.
func filterSort(st *state, a args) (Value, error) {
	reverse, err := argTruth(st, a.pos[1])
	if err != nil {
		return nil, err
	}
	caseSensitive, err := argTruth(st, a.pos[2])
	if err != nil {
		return nil, err
	}
	paths := []Value{a.pos[3]}
	if s, ok := asString(a.pos[3]); ok {
		paths = nil
		for p := range strings.SplitSeq(s, ",") {
			paths = append(paths, String(p))
		}
	}
	var getters []func(Value) (Value, error)
	for _, p := range paths {
		var get func(Value) (Value, error)
		if get, err = st.attrGetter(p, nil, !caseSensitive); err != nil {
			return nil, err
		}
		getters = append(getters, get)
	}
	items, err := st.items(a.pos[0])
	if err != nil {
		return nil, err
	}
	ks, err := st.keys(items, func(v Value) (Value, error) {
		key := make([]Value, len(getters))
		for i, get := range getters {
			k, failed := get(v)
			if failed != nil {
				return nil, failed
			}
			key[i] = k
		}
		return NewList(key...), nil
	})
	if err != nil {
		return nil, err
	}
	if err := st.sortKeyed(ks, reverse); err != nil {
		return nil, err
	}
	return itemsOf(ks), nil
}

func filterDictsort(st *state, a args) (Value, error) {
	caseSensitive, err := argTruth(st, a.pos[1])
	if err != nil {
		return nil, err
	}
	pos := 0
	if a.pos[2] != nil {
		switch by, _ := asString(a.pos[2]); by {
		case "key":
		case "value":
			pos = 1
		default:
			return nil, raise(otherError, `you can only sort by either "key" or "value"`)
		}
	}
	reverse, err := argTruth(st, a.pos[3])
	if err != nil {
		return nil, err
	}
	d, ok := a.pos[0].(*Dict)
	if !ok {
		if ns, isNS := a.pos[0].(*namespace); isNS {
			_ = ns
			return nil, unsupported("dictsort of a namespace")
		}
		return nil, raise(otherError, "dictsort needs a dict")
	}
	items := make([]Value, len(d.entries))
	for i, e := range d.entries {
		items[i] = newPair(e.key, e.val)
	}
	ks, err := st.keys(items, func(v Value) (Value, error) {
		k := v.(*Tuple).items[pos] //nolint:forcetypeassert // made above
		if !caseSensitive {
			return st.ignoreCase(k)
		}
		return k, nil
	})
	if err != nil {
		return nil, err
	}
	if err := st.sortKeyed(ks, reverse); err != nil {
		return nil, err
	}
	return itemsOf(ks), nil
}

func filterGroupby(st *state, a args) (Value, error) {
	caseSensitive, err := argTruth(st, a.pos[3])
	if err != nil {
		return nil, err
	}
	get, err := st.attrGetter(a.pos[1], a.pos[2], !caseSensitive)
	if err != nil {
		return nil, err
	}
	exact, err := st.attrGetter(a.pos[1], a.pos[2], false)
	if err != nil {
		return nil, err
	}
	items, err := st.items(a.pos[0])
	if err != nil {
		return nil, err
	}
	ks, err := st.keys(items, get)
	if err != nil {
		return nil, err
	}
	if failed := st.sortKeyed(ks, false); failed != nil {
		return nil, failed
	}
	var out []Value
	for i := 0; i < len(ks); {
		var group []Value
		key := ks[i].key
		for ; i < len(ks); i++ {
			var same bool
			if same, err = st.equal(key, ks[i].key); err != nil {
				return nil, err
			}
			if !same && len(group) > 0 {
				break
			}
			group = append(group, ks[i].item)
		}
		if !caseSensitive {
			if key, err = exact(group[0]); err != nil {
				return nil, err
			}
		}
		out = append(out, &Tuple{items: []Value{key, NewList(group...)}, group: true})
	}
	return NewList(out...), nil
}

func filterUnique(st *state, a args) (Value, error) {
	caseSensitive, err := argTruth(st, a.pos[1])
	if err != nil {
		return nil, err
	}
	u := &uniquer{src: a.pos[0], attribute: a.pos[2], foldCase: !caseSensitive}
	return newGenerator(u.next), nil
}

// uniquer yields the items of src whose key is new.
type uniquer struct {
	src, attribute Value
	foldCase       bool
	it             iterator
	get            func(Value) (Value, error)
	seen           Dict
}

func (u *uniquer) next(st *state) (Value, bool, error) {
	if u.it == nil {
		var err error
		if u.get, err = st.attrGetter(u.attribute, nil, u.foldCase); err != nil {
			return nil, false, err
		}
		if u.it, err = st.iter(u.src); err != nil {
			return nil, false, err
		}
	}
	for {
		v, ok, err := u.it.next(st)
		if err == nil && ok {
			err = st.step(1)
		}
		if err != nil || !ok {
			return nil, false, err
		}
		key, err := u.get(v)
		if err != nil {
			return nil, false, err
		}
		i, err := u.seen.find(key)
		if err != nil {
			return nil, false, err
		}
		if i < 0 {
			if failed := st.spend(valueSize); failed != nil {
				return nil, false, failed
			}
			return v, true, u.seen.set(key, None{})
		}
	}
}

func filterMin(st *state, a args) (Value, error) { return st.extreme(a, cmpLt) }
func filterMax(st *state, a args) (Value, error) { return st.extreme(a, cmpGt) }

func (st *state) extreme(a args, op compareOp) (Value, error) {
	caseSensitive, err := argTruth(st, a.pos[1])
	if err != nil {
		return nil, err
	}
	items, err := st.items(a.pos[0])
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return noAggregate, nil
	}
	get, err := st.attrGetter(a.pos[2], nil, !caseSensitive)
	if err != nil {
		return nil, err
	}
	ks, err := st.keys(items, get)
	if err != nil {
		return nil, err
	}
	best := 0
	for i := 1; i < len(ks); i++ {
		better, err := st.order(op, ks[i].key, ks[best].key)
		if err != nil {
			return nil, err
		}
		if better {
			best = i
		}
	}
	return ks[best].item, nil
}

func filterSum(st *state, a args) (Value, error) {
	var total Value = Int(0)
	if a.pos[2] != nil {
		total = a.pos[2]
	}
	get := func(v Value) (Value, error) { return v, nil }
	if !isNone(a.pos[1]) {
		var err error
		if get, err = st.attrGetter(a.pos[1], nil, false); err != nil {
			return nil, err
		}
	}
	it, err := st.iter(a.pos[0])
	if err != nil {
		return nil, err
	}
	if isString(total) {
		return nil, raise(typeError, "sum() can't sum strings")
	}
	for {
		v, ok, err := it.next(st)
		if err == nil && ok {
			err = st.step(1)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			return total, nil
		}
		if v, err = get(v); err != nil {
			return nil, err
		}
		if total, err = st.binary(opAdd, total, v); err != nil {
			return nil, err
		}
	}
}
