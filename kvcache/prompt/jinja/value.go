package jinja

import "math/big"

// Value is a Python value. The types that callers make are [None], [Bool], [Int],
// [Float], [String], [*List], [*Tuple], [*Dict] and what [BigInt] returns; the
// rest (functions, views, generators, undefined) arise while rendering. Values
// given to Render are never modified: they can be shared by concurrent renders,
// once nobody changes them any more.
type Value interface {
	// typeName is type(v).__name__, for error messages.
	typeName() string
}

// None is Python's None.
type None struct{}

// Bool is Python's bool, which is also an int: True == 1.
type Bool bool

// Int is a Python int that fits 64 bits. Larger ones come from [BigInt].
type Int int64

// Float is Python's float.
type Float float64

// String is Python's str. Its bytes are UTF-8, except that a lone surrogate (which
// Python allows, e.g. from JSON "\ud800") is kept as its three bytes.
type String string

// markup is markupsafe.Markup: a str that escapes what is added to it. It comes
// from the filters safe, escape and forceescape.
type markup string

// bigInt is an int beyond 64 bits; only normInt makes it.
type bigInt struct{ v *big.Int }

// List is Python's list.
type List struct{ items []Value }

// Tuple is Python's tuple.
type Tuple struct {
	items []Value
	group bool // groupby's named tuple, which also has .grouper and .list
}

func (None) typeName() string    { return "NoneType" }
func (Bool) typeName() string    { return "bool" }
func (Int) typeName() string     { return "int" }
func (Float) typeName() string   { return "float" }
func (String) typeName() string  { return "str" }
func (markup) typeName() string  { return "Markup" }
func (*bigInt) typeName() string { return "int" }
func (*List) typeName() string   { return "list" }
func (*Tuple) typeName() string  { return "tuple" }
func (*Dict) typeName() string   { return "dict" }

// BigInt returns the int of value v, which is copied.
func BigInt(v *big.Int) Value { return normInt(new(big.Int).Set(v)) }

// normInt owns v.
func normInt(v *big.Int) Value {
	if v.IsInt64() {
		return Int(v.Int64())
	}
	return &bigInt{v}
}

// NewList returns a list of items. It keeps the slice.
func NewList(items ...Value) *List { return &List{items: items} }

// Append adds v at the end.
func (l *List) Append(v Value) { l.items = append(l.items, v) }

// Len returns the number of items.
func (l *List) Len() int { return len(l.items) }

// At returns item i, counted from 0. It panics if there is none.
func (l *List) At(i int) Value { return l.items[i] }

// NewTuple returns a tuple of items. It keeps the slice.
func NewTuple(items ...Value) *Tuple { return &Tuple{items: items} }

// newPair returns a tuple of two, in one piece.
func newPair(a, b Value) *Tuple {
	p := &struct {
		Tuple
		both [2]Value
	}{both: [2]Value{a, b}}
	p.items = p.both[:]
	return &p.Tuple
}

// Len returns the number of items.
func (t *Tuple) Len() int { return len(t.items) }

// At returns item i, counted from 0. It panics if there is none.
func (t *Tuple) At(i int) Value { return t.items[i] }
