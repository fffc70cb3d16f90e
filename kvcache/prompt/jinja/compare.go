package jinja

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// truth is bool(v).
func (st *state) truth(v Value) (bool, error) {
	switch v := v.(type) {
	case Bool:
		return bool(v), nil
	case String:
		return v != "", nil
	case markup:
		return v != "", nil
	case *Undefined, None:
		return false, nil
	case Int:
		return v != 0, nil
	case Float:
		return v != 0, nil
	case *List:
		return len(v.items) > 0, nil
	case *Tuple:
		return len(v.items) > 0, nil
	case *Dict:
		return len(v.entries) > 0, nil
	case *dictView:
		return len(v.d.entries) > 0, nil
	case *rangeValue:
		return v.len() > 0, nil
	case *loopContext:
		n, err := v.len(st)
		return n > 0, err
	default:
		return true, nil
	}
}

// compare applies a comparison operator.
func (st *state) compare(op compareOp, l, r Value) (bool, error) {
	switch op {
	case cmpEq:
		return st.equal(l, r)
	case cmpNe:
		ok, err := st.equal(l, r)
		return !ok, err
	case cmpIn:
		return st.contains(r, l)
	case cmpNotIn:
		ok, err := st.contains(r, l)
		return !ok, err
	case cmpLt, cmpLe, cmpGt, cmpGe:
		return st.order(op, l, r)
	default:
		return false, unsupported("comparison")
	}
}

// equal is l == r.
func (st *state) equal(l, r Value) (bool, error) {
	switch a := l.(type) {
	case String:
		b, ok := asString(r)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		return string(a) == b, st.compared(len(b))
	case markup:
		b, ok := asString(r)
		return ok && string(a) == b, nil
	case None:
		_, ok := r.(None)
		return ok, nil
	case *Undefined:
		_, ok := r.(*Undefined)
		return ok, nil
	case Int, Bool, Float, *bigInt:
		c, ok := compareNumbers(l, r)
		return ok && c == 0, nil
	case *List:
		if b, ok := r.(*List); ok {
			return st.equalItems(a.items, b.items)
		}
		return false, nil
	case *Tuple:
		if b, ok := r.(*Tuple); ok {
			return st.equalItems(a.items, b.items)
		}
		return false, nil
	case *Dict:
		if b, ok := r.(*Dict); ok {
			return st.equalDicts(a, b)
		}
		return false, nil
	case *rangeValue:
		b, ok := r.(*rangeValue)
		return ok && a.equal(b), nil
	case *dictView:
		return st.equalViews(a, r)
	case missing:
		_, ok := r.(missing)
		return ok, nil
	case *alias:
		if b, ok := r.(*alias); ok {
			return st.equal(a.key, b.key)
		}
		return false, nil
	default:
		return l == r, nil
	}
}

// identical is a shortcut that containers take before they compare.
func identical(a, b Value) bool {
	switch a.(type) {
	case *List, *Tuple, *Dict, *bigInt:
		return a == b
	case Float: // equal unless NaN, which only the same object is; constants are shared
		return false
	default:
		return false
	}
}

func (st *state) equalItems(a, b []Value) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	if err := st.nest(); err != nil {
		return false, err
	}
	defer st.unnest()
	for i := range a {
		if err := st.step(1); err != nil {
			return false, err
		}
		if identical(a[i], b[i]) {
			continue
		}
		if ok, err := st.equal(a[i], b[i]); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (st *state) equalDicts(a, b *Dict) (bool, error) {
	if a == b {
		return true, nil
	}
	if len(a.entries) != len(b.entries) {
		return false, nil
	}
	if err := st.nest(); err != nil {
		return false, err
	}
	defer st.unnest()
	for _, e := range a.entries {
		if err := st.step(1); err != nil {
			return false, err
		}
		i, err := b.find(e.key)
		if err != nil || i < 0 {
			return false, err
		}
		if ok, err := st.equal(e.val, b.entries[i].val); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// equalViews compares keys and items as sets; values are equal to nothing.
func (st *state) equalViews(a *dictView, r Value) (bool, error) {
	b, ok := r.(*dictView)
	if !ok || a.kind == viewValues || b.kind == viewValues {
		return ok && a == b, nil
	}
	if a.kind != b.kind || len(a.d.entries) != len(b.d.entries) {
		return false, nil
	}
	for _, e := range a.d.entries {
		if err := st.step(1); err != nil {
			return false, err
		}
		i, err := b.d.find(e.key)
		if err != nil || i < 0 {
			return false, err
		}
		if a.kind == viewItems {
			if ok, err := st.equal(e.val, b.d.entries[i].val); err != nil || !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// compareNumbers orders two numbers exactly, whatever their types; ok is false if
// one is no number or NaN.
func compareNumbers(l, r Value) (int, bool) {
	if a, ok := asInt(l); ok {
		if b, ok := asInt(r); ok {
			return cmp.Compare(a, b), true
		}
	}
	f, isF := l.(Float)
	g, isG := r.(Float)
	switch {
	case isF && isG:
		return cmp.Compare(float64(f), float64(g)), !isNaN(f) && !isNaN(g)
	case isF:
		b, ok := asBig(r)
		if !ok || isNaN(f) {
			return 0, false
		}
		return compareFloatInt(float64(f), b), true
	case isG:
		b, ok := asBig(l)
		if !ok || isNaN(g) {
			return 0, false
		}
		return -compareFloatInt(float64(g), b), true
	}
	a, okA := asBig(l)
	b, okB := asBig(r)
	if !okA || !okB {
		return 0, false
	}
	return a.Cmp(b), true
}

func isNaN(f Float) bool { return math.IsNaN(float64(f)) }

func compareFloatInt(f float64, b *big.Int) int {
	if math.IsInf(f, 0) {
		return cmp.Compare(f, 0)
	}
	x := new(big.Float).SetFloat64(f)
	return x.Cmp(new(big.Float).SetInt(b))
}

func isNumber(v Value) bool {
	_, isFloat := v.(Float)
	return isFloat || isInt(v)
}

func byOrder(op compareOp, c int) bool {
	switch op {
	case cmpLt:
		return c < 0
	case cmpLe:
		return c <= 0
	case cmpGt:
		return c > 0
	default:
		return c >= 0
	}
}

// order is l < r and the like.
func (st *state) order(op compareOp, l, r Value) (bool, error) {
	if isNumber(l) && isNumber(r) {
		c, ok := compareNumbers(l, r)
		return ok && byOrder(op, c), nil
	}
	if a, ok := asString(l); ok {
		if b, ok := asString(r); ok {
			return byOrder(op, strings.Compare(a, b)), st.compared(min(len(a), len(b)))
		}
	}
	switch a := l.(type) {
	case *Undefined:
		return false, a.fail()
	case *List:
		if b, ok := r.(*List); ok {
			return st.orderItems(op, a.items, b.items)
		}
	case *Tuple:
		if b, ok := r.(*Tuple); ok {
			return st.orderItems(op, a.items, b.items)
		}
	case *dictView:
		if _, ok := r.(*dictView); ok {
			return false, unsupported("order of dict views")
		}
	}
	if u, ok := r.(*Undefined); ok {
		return false, u.fail()
	}
	return false, raise(typeError, "order not supported between %s and %s", l.typeName(), r.typeName())
}

// orderItems orders by the first items that differ.
func (st *state) orderItems(op compareOp, a, b []Value) (bool, error) {
	if err := st.nest(); err != nil {
		return false, err
	}
	defer st.unnest()
	for i := 0; i < len(a) && i < len(b); i++ {
		if err := st.step(1); err != nil {
			return false, err
		}
		if identical(a[i], b[i]) {
			continue
		}
		same, err := st.equal(a[i], b[i])
		if err != nil {
			return false, err
		}
		if !same {
			return st.order(op, a[i], b[i])
		}
	}
	return byOrder(op, cmp.Compare(len(a), len(b))), nil
}

// contains is v in container.
func (st *state) contains(container, v Value) (bool, error) {
	switch c := container.(type) {
	case String:
		return st.substring(string(c), v)
	case markup:
		return st.substring(string(c), v)
	case *Dict:
		if err := st.hashed(v); err != nil {
			return false, err
		}
		i, err := c.find(v)
		return i >= 0, err
	case *dictView:
		return st.viewContains(c, v)
	case *rangeValue:
		if isInt(v) {
			n, ok := asInt(v)
			return ok && c.contains(n), nil
		}
	}
	it, err := st.iter(container)
	if err != nil {
		return false, err
	}
	for {
		item, ok, err := it.next(st)
		if err != nil || !ok {
			return false, err
		}
		if err := st.step(1); err != nil {
			return false, err
		}
		if identical(item, v) {
			return true, nil
		}
		if ok, err := st.equal(item, v); err != nil || ok {
			return ok, err
		}
	}
}

func (st *state) substring(s string, v Value) (bool, error) {
	sub, ok := asString(v)
	if !ok {
		return false, raise(typeError, "'in <string>' requires string as left operand, not %s", v.typeName())
	}
	if err := st.work(len(s)); err != nil {
		return false, err
	}
	return strings.Contains(s, sub), nil
}

func (st *state) viewContains(view *dictView, v Value) (bool, error) {
	switch view.kind {
	case viewKeys:
		i, err := view.d.find(v)
		return i >= 0, err
	case viewItems:
		t, ok := v.(*Tuple)
		if !ok || len(t.items) != 2 {
			return false, nil
		}
		i, err := view.d.find(t.items[0])
		if err != nil || i < 0 {
			return false, err
		}
		return st.equal(view.d.entries[i].val, t.items[1])
	default:
		for _, e := range view.d.entries {
			if err := st.step(1); err != nil {
				return false, err
			}
			if ok, err := st.equal(e.val, v); err != nil || ok {
				return ok, err
			}
		}
		return false, nil
	}
}

// nest counts a level of nested values being walked.
func (st *state) nest() error {
	st.nested++
	if st.nested > maxNesting {
		return limit("values nested deeper than %d", maxNesting)
	}
	return nil
}

func (st *state) unnest() { st.nested-- }

// maxNesting is about where CPython's recursion limit ends a walk over values.
const maxNesting = 900
