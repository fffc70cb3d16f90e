package jinja

import (
	"fmt"
	"iter"
	"math"
	"math/big"
)

// Dict is Python's dict: it keeps the order in which keys were first set. The
// zero value is an empty dict. Reading is safe for concurrent use, Set is not.
type Dict struct {
	entries []entry
	index   map[any]int // by hashKey; nil while there are few entries
}

type entry struct {
	key, val Value
}

// smallDict is the size up to which a scan beats a map. Most objects of a chat
// request have two to four keys.
const smallDict = 8

// NewDict returns an empty dict with room for n entries.
func NewDict(n int) *Dict { return &Dict{entries: make([]entry, 0, n)} }

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	if i := d.findString(key); i >= 0 {
		return d.entries[i].val, true
	}
	return nil, false
}

// Set sets the value of a string key. A key that exists keeps its place.
func (d *Dict) Set(key string, v Value) { d.setString(String(key), v) }

// All iterates over the entries in order.
func (d *Dict) All() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for _, e := range d.entries {
			if !yield(e.key, e.val) {
				return
			}
		}
	}
}

func (d *Dict) findString(key string) int {
	if d.index != nil {
		if i, ok := d.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		switch k := d.entries[i].key.(type) {
		case String:
			if string(k) == key {
				return i
			}
		case markup:
			if string(k) == key {
				return i
			}
		}
	}
	return -1
}

func (d *Dict) setString(key String, v Value) {
	if i := d.findString(string(key)); i >= 0 {
		d.entries[i].val = v
		return
	}
	d.add(key, string(key), v)
}

func (d *Dict) add(key Value, hash any, v Value) {
	d.entries = append(d.entries, entry{key, v})
	if d.index != nil {
		d.index[hash] = len(d.entries) - 1
		return
	}
	if len(d.entries) <= smallDict {
		return
	}
	d.index = make(map[any]int, 2*len(d.entries))
	for i, e := range d.entries {
		h, ok := hashKey(e.key)
		if ok {
			d.index[h] = i
		}
	}
}

// find returns the place of a key of any type, or -1. The error is that the key
// can't be hashed.
func (d *Dict) find(key Value) (int, error) {
	if s, ok := key.(String); ok {
		return d.findString(string(s)), nil
	}
	h, ok := hashKey(key)
	if !ok {
		return -1, raise(typeError, "unhashable type: %s", key.typeName())
	}
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i, nil
		}
		return -1, nil
	}
	for i := range d.entries {
		if k, ok := hashKey(d.entries[i].key); ok && k == h {
			return i, nil
		}
	}
	return -1, nil
}

func (d *Dict) set(key, v Value) error {
	i, err := d.find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.entries[i].val = v
		return nil
	}
	h, _ := hashKey(key)
	d.add(key, h, v)
	return nil
}

// Go values that stand for Python keys in a map. Python's 1, 1.0 and True are one
// key.
type (
	tupleKey struct{ text string }
	bigKey   struct{ text string }
	noneKey  struct{}
	undefKey struct{}
)

// hashKey maps equal hashable values to equal comparable ones.
func hashKey(v Value) (any, bool) {
	switch v := v.(type) {
	case String:
		return string(v), true
	case markup:
		return string(v), true
	case Int:
		return int64(v), true
	case Bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case Float:
		f := float64(v)
		if f == math.Trunc(f) && f >= -(1<<63) && f < 1<<63 {
			return int64(f), true
		}
		if f == math.Trunc(f) && !math.IsInf(f, 0) {
			return bigKey{floatToBig(f).String()}, true
		}
		return f, true
	case *bigInt:
		return bigKey{v.v.String()}, true
	case None:
		return noneKey{}, true
	case *Undefined:
		return undefKey{}, true
	case *Tuple:
		budget := maxHashed
		return hashTuple(v, &budget)
	case *dictView:
		return v, v.kind == viewValues
	case *List, *Dict:
		return nil, false
	case *alias:
		k, ok := hashKey(v.key)
		return aliasKey{k}, ok
	default:
		return v, true // by identity
	}
}

// maxHashed bounds how much a tuple may hold to be a key. Python has no bound, and
// would compute for ever on tuples that hold each other.
const maxHashed = 1000

func hashTuple(t *Tuple, budget *int) (any, bool) {
	text := make([]byte, 0, 32)
	for _, item := range t.items {
		if *budget--; *budget < 0 {
			return nil, false
		}
		var h any
		var ok bool
		if inner, isTuple := item.(*Tuple); isTuple {
			h, ok = hashTuple(inner, budget)
		} else {
			h, ok = hashKey(item)
		}
		if !ok {
			return nil, false
		}
		text = appendHash(text, h)
	}
	return tupleKey{string(text)}, true
}

func appendHash(dst []byte, h any) []byte {
	switch h := h.(type) {
	case string:
		return fmt.Appendf(dst, "s%d:%s", len(h), h)
	case tupleKey:
		return fmt.Appendf(dst, "t%d:%s", len(h.text), h.text)
	case Value:
		return fmt.Appendf(dst, "%T:%p;", h, h) // by identity
	default:
		return fmt.Appendf(dst, "%T:%v;", h, h)
	}
}

// floatToBig converts an integral float.
func floatToBig(f float64) *big.Int {
	v, _ := new(big.Float).SetFloat64(f).Int(nil)
	return v
}
