package jinja

// sliceBounds resolves start, stop and step for a sequence of n items, as Python's
// slice.indices does.
func sliceBounds(bounds [3]Value, n int) (start, stop, step int64, err error) {
	var given [3]bool
	var b [3]int64
	for _, i := range [...]int{2, 0, 1} { // Python looks at the step first
		v := bounds[i]
		if _, none := v.(None); none {
			continue
		}
		given[i] = true
		if b[i], err = index(v); err != nil {
			return 0, 0, 0, raise(typeError, "slice indices must be integers or None or have an __index__ method")
		}
		if i == 2 && b[i] == 0 {
			return 0, 0, 0, raise(valueError, "slice step cannot be zero")
		}
	}
	step = 1
	if given[2] {
		step = b[2]
	}
	low, high := int64(0), int64(n)
	if step < 0 {
		low, high = -1, int64(n)-1
	}
	clamp := func(i int64) int64 {
		if i < 0 {
			return max(i+int64(n), low)
		}
		return min(i, high)
	}
	start, stop = low, high
	if step < 0 {
		start, stop = high, low
	}
	if given[0] {
		start = clamp(b[0])
	}
	if given[1] {
		stop = clamp(b[1])
	}
	return start, stop, step, nil
}

// sliceLen is how many items a resolved slice has.
func sliceLen(start, stop, step int64) int {
	switch {
	case step > 0 && start < stop:
		return int((stop-start-1)/step + 1)
	case step < 0 && start > stop:
		return int(uint64(start-stop-1)/uint64(-step) + 1)
	default:
		return 0
	}
}

// slice is v[start:stop:step].
func (st *state) slice(v Value, bounds [3]Value) (Value, error) {
	switch v := v.(type) {
	case String:
		s, err := st.sliceString(string(v), bounds)
		return String(s), err
	case markup:
		s, err := st.sliceString(string(v), bounds)
		return markup(s), err
	case *List:
		items, err := st.sliceItems(v.items, bounds)
		return NewList(items...), err
	case *Tuple:
		items, err := st.sliceItems(v.items, bounds)
		return NewTuple(items...), err
	case *rangeValue:
		start, stop, step, err := sliceBounds(bounds, v.len())
		if err != nil {
			return nil, err
		}
		if step < -maxRange || step > maxRange {
			return nil, unsupported("range with a very large step")
		}
		return &rangeValue{v.start + start*v.step, v.start + stop*v.step, v.step * step}, nil
	case *dictType:
		return nil, unsupported("a slice of the class dict")
	case *Undefined:
		return nil, v.fail()
	default:
		return nil, raise(typeError, "%s object can't be sliced", v.typeName())
	}
}

func (st *state) sliceItems(items []Value, bounds [3]Value) ([]Value, error) {
	start, stop, step, err := sliceBounds(bounds, len(items))
	if err != nil {
		return nil, err
	}
	n := sliceLen(start, stop, step)
	if n == 0 {
		return nil, nil
	}
	if step == 1 {
		return items[start : start+int64(n) : start+int64(n)], nil
	}
	if err := st.growItems(n); err != nil {
		return nil, err
	}
	out := make([]Value, n)
	for i := range out {
		out[i] = items[start+int64(i)*step]
	}
	return out, nil
}

func (st *state) sliceString(s string, bounds [3]Value) (string, error) {
	if err := st.work(len(s)); err != nil {
		return "", err
	}
	ascii := isASCII(s)
	n := len(s)
	if !ascii {
		n = runeLen(s)
	}
	start, stop, step, err := sliceBounds(bounds, n)
	if err != nil {
		return "", err
	}
	count := sliceLen(start, stop, step)
	if count == 0 {
		return "", nil
	}
	if step == 1 {
		if ascii {
			return s[start : start+int64(count)], nil
		}
		from := runeOffset(s, int(start))
		return s[from : from+runeOffset(s[from:], count)], nil
	}
	if err := st.grow(count); err != nil {
		return "", err
	}
	rs := toRunes(s)
	out := make([]rune, count)
	for i := range out {
		out[i] = rs[start+int64(i)*step]
	}
	return fromRunes(out), nil
}
