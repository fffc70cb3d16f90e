package jinja

import "math"

// viewKind says which part of a dict a view shows.
type viewKind uint8

const (
	viewKeys viewKind = iota
	viewValues
	viewItems
)

// dictView is what dict.keys(), values() and items() return.
type dictView struct {
	d    *Dict
	kind viewKind
}

func (v *dictView) typeName() string {
	return [...]string{"dict_keys", "dict_values", "dict_items"}[v.kind]
}

func (v *dictView) at(i int) Value {
	e := &v.d.entries[i]
	switch v.kind {
	case viewKeys:
		return e.key
	case viewValues:
		return e.val
	default:
		return newPair(e.key, e.val)
	}
}

// rangeValue is a range. The sandbox keeps ranges short.
type rangeValue struct{ start, stop, step int64 }

func (*rangeValue) typeName() string { return "range" }

func (r *rangeValue) len() int {
	var n int64
	switch {
	case r.step > 0 && r.start < r.stop:
		n = (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		n = (r.start-r.stop-1)/-r.step + 1
	}
	return int(min(n, math.MaxInt32))
}

func (r *rangeValue) at(i int) Value { return Int(r.start + int64(i)*r.step) }

func (r *rangeValue) contains(n int64) bool {
	if r.step > 0 && (n < r.start || n >= r.stop) || r.step < 0 && (n > r.start || n <= r.stop) {
		return false
	}
	return (n-r.start)%r.step == 0
}

func (r *rangeValue) equal(o *rangeValue) bool {
	n := r.len()
	return n == o.len() && (n == 0 || r.start == o.start && (n == 1 || r.step == o.step))
}

// maxRange is the sandbox's MAX_RANGE.
const maxRange = 100_000

// rangeBound keeps bounds where no arithmetic overflows.
const rangeBound = 1 << 61

func makeRange(_ *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, raise(typeError, "range() takes no keyword arguments")
	}
	n := [3]int64{0, 0, 1}
	if len(a.pos) == 0 || len(a.pos) > len(n) {
		return nil, raise(typeError, "range expected 1 to 3 arguments, got %d", len(a.pos))
	}
	for i, v := range a.pos {
		k, err := index(v)
		if err != nil {
			return nil, err
		}
		if k < -rangeBound || k > rangeBound {
			return nil, unsupported("range over very large ints")
		}
		n[i] = k
	}
	if len(a.pos) == 1 {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		return nil, raise(valueError, "range() arg 3 must not be zero")
	}
	r := &rangeValue{n[0], n[1], n[2]}
	if r.len() > maxRange {
		return nil, raise(overflowError, "range too big, the sandbox blocks ranges larger than %d", maxRange)
	}
	return r, nil
}

// index converts what Python accepts as an index. Large ones saturate where sums
// with lengths don't overflow.
func index(v Value) (int64, error) {
	const most = 1 << 62
	if i, ok := asInt(v); ok {
		return max(-most, min(i, most)), nil
	}
	if b, ok := v.(*bigInt); ok {
		return most * int64(b.v.Sign()), nil
	}
	return 0, raise(typeError, "%s object cannot be interpreted as an integer", v.typeName())
}

// namespace is jinja2's namespace: the one value that a template changes.
type namespace struct{ attrs *Dict }

func (*namespace) typeName() string { return "Namespace" }

// joiner yields nothing when first called and its separator from then on.
type joiner struct {
	sep  Value
	used bool
}

func (*joiner) typeName() string { return "Joiner" }

func (j *joiner) call(_ *state, a args) (Value, error) {
	if len(a.pos) > 0 || len(a.kw) > 0 {
		return nil, raise(typeError, "joiner takes no arguments")
	}
	if !j.used {
		j.used = true
		return String(""), nil
	}
	return j.sep, nil
}

// cycler yields its items in turn.
type cycler struct {
	items []Value
	pos   int
}

func (*cycler) typeName() string { return "Cycler" }
