package jinja

import (
	"math"
	"math/big"
	"strings"
)

// maxBits bounds ints: Python has no bound, but who needs more asks for trouble.
const maxBits = 1 << 16

// asInt returns an int or bool as an int that fits 64 bits.
func asInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case Int:
		return int64(v), true
	case Bool:
		if v {
			return 1, true
		}
		return 0, true
	default:
		return 0, false
	}
}

// asBig returns an int of any size.
func asBig(v Value) (*big.Int, bool) {
	if b, ok := v.(*bigInt); ok {
		return b.v, true
	}
	if i, ok := asInt(v); ok {
		return big.NewInt(i), true
	}
	return nil, false
}

func isInt(v Value) bool {
	switch v.(type) {
	case Int, Bool, *bigInt:
		return true
	default:
		return false
	}
}

// asFloat converts a number as arithmetic with a float does.
func asFloat(v Value) (float64, bool, error) {
	switch v := v.(type) {
	case Float:
		return float64(v), true, nil
	case *bigInt:
		f, err := bigToFloat(v.v)
		return f, true, err
	default:
		i, ok := asInt(v)
		return float64(i), ok, nil
	}
}

func bigToFloat(b *big.Int) (float64, error) {
	f, _ := new(big.Float).SetInt(b).Float64()
	if math.IsInf(f, 0) {
		return 0, raise(overflowError, "int too large to convert to float")
	}
	return f, nil
}

func (op binOp) String() string {
	return [...]string{"+", "-", "*", "/", "//", "%", "**", "and", "or"}[op]
}

// binary applies an arithmetic operator.
func (st *state) binary(op binOp, l, r Value) (Value, error) {
	if a, ok := l.(Int); ok {
		if b, ok := r.(Int); ok {
			if v, ok := smallInts(op, int64(a), int64(b)); ok {
				return v, nil
			}
		}
	}
	if u, ok := l.(*Undefined); ok {
		return nil, u.fail()
	}
	if isString(l) && op == opMod {
		return st.percent(l, r)
	}
	switch op {
	case opAdd:
		if v, ok, err := st.addSequences(l, r); ok {
			return v, err
		}
	case opMul:
		if v, ok, err := st.repeat(l, r); ok {
			return v, err
		}
	case opSub:
		if view, ok := l.(*dictView); ok && view.kind != viewValues {
			if _, err := st.iter(r); err == nil {
				return nil, unsupported("sets")
			}
		}
	case opDiv, opFloorDiv, opMod, opPow, opAnd, opOr:
	}
	if u, ok := r.(*Undefined); ok {
		return nil, u.fail()
	}
	if isInt(l) && isInt(r) {
		a, _ := asBig(l)
		b, _ := asBig(r)
		if err := st.work(a.BitLen() + b.BitLen()); err != nil {
			return nil, err
		}
		return bigInts(op, a, b)
	}
	a, okA, errA := asFloat(l)
	b, okB, errB := asFloat(r)
	if !okA || !okB {
		return nil, raise(typeError, "unsupported operand type(s) for %v: %s and %s", op, l.typeName(), r.typeName())
	}
	if errA != nil {
		return nil, errA
	}
	if errB != nil {
		return nil, errB
	}
	return floats(op, a, b)
}

// smallInts computes what needs no big ints.
func smallInts(op binOp, a, b int64) (Value, bool) {
	switch op {
	case opAdd:
		c := a + b
		return Int(c), (c > a) == (b > 0)
	case opSub:
		c := a - b
		return Int(c), (c < a) == (b > 0)
	case opMul:
		const half = 1 << 31
		return Int(a * b), a > -half && a < half && b > -half && b < half
	case opFloorDiv:
		if b == 0 || b == -1 {
			return nil, false
		}
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return Int(q), true
	case opMod:
		if b == 0 || b == -1 {
			return nil, false
		}
		m := a % b
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return Int(m), true
	case opDiv, opPow, opAnd, opOr:
		return nil, false
	default:
		return nil, false
	}
}

func errZeroDivision() error { return raise(otherError, "division by zero") }

func bigInts(op binOp, a, b *big.Int) (Value, error) {
	switch op {
	case opAdd:
		return normInt(new(big.Int).Add(a, b)), nil
	case opSub:
		return normInt(new(big.Int).Sub(a, b)), nil
	case opMul:
		if a.BitLen()+b.BitLen() > maxBits {
			return nil, limit("int of more than %d bits", maxBits)
		}
		return normInt(new(big.Int).Mul(a, b)), nil
	case opPow:
		return powInts(a, b)
	case opDiv, opFloorDiv, opMod, opAnd, opOr:
	}
	if b.Sign() == 0 {
		return nil, errZeroDivision()
	}
	if op == opDiv {
		return divideInts(a, b)
	}
	q, m := new(big.Int).QuoRem(a, b, new(big.Int))
	if m.Sign() != 0 && m.Sign() != b.Sign() {
		m.Add(m, b)
		q.Sub(q, big.NewInt(1))
	}
	if op == opFloorDiv {
		return normInt(q), nil
	}
	return normInt(m), nil
}

// divideInts is the quotient rounded once, as Python's int / int.
func divideInts(a, b *big.Int) (Value, error) {
	if a.Sign() == 0 && b.Sign() < 0 {
		return Float(math.Copysign(0, -1)), nil
	}
	f, _ := new(big.Rat).SetFrac(a, b).Float64()
	if math.IsInf(f, 0) {
		return nil, raise(overflowError, "integer division result too large for a float")
	}
	return Float(f), nil
}

func powInts(a, b *big.Int) (Value, error) {
	if b.Sign() < 0 {
		x, err := bigToFloat(a)
		if err != nil {
			return nil, err
		}
		y, err := bigToFloat(b)
		if err != nil {
			return nil, err
		}
		return floats(opPow, x, y)
	}
	if a.BitLen() > 1 {
		if !b.IsInt64() || b.Int64() > maxBits || int64(a.BitLen())*b.Int64() > maxBits {
			return nil, limit("int of more than %d bits", maxBits)
		}
		return normInt(new(big.Int).Exp(a, b, nil)), nil
	}
	// The powers of -1, 0 and 1.
	switch {
	case b.Sign() == 0:
		return Int(1), nil
	case a.Sign() < 0 && b.Bit(0) == 0:
		return Int(1), nil
	default:
		return normInt(new(big.Int).Set(a)), nil
	}
}

func floats(op binOp, a, b float64) (Value, error) {
	switch op {
	case opAdd:
		return Float(a + b), nil
	case opSub:
		return Float(a - b), nil
	case opMul:
		return Float(a * b), nil
	case opPow:
		return powFloats(a, b)
	case opDiv, opFloorDiv, opMod, opAnd, opOr:
	}
	if b == 0 {
		return nil, errZeroDivision()
	}
	if op == opDiv {
		return Float(a / b), nil
	}
	q, m := divmodFloats(a, b)
	if op == opFloorDiv {
		return Float(q), nil
	}
	return Float(m), nil
}

// divmodFloats follows CPython: the remainder has the divisor's sign, and the
// quotient is computed from it.
func divmodFloats(a, b float64) (q, m float64) {
	m = math.Mod(a, b)
	div := (a - m) / b
	if m != 0 {
		if (b < 0) != (m < 0) {
			m += b
			div--
		}
	} else {
		m = math.Copysign(0, b)
	}
	if div == 0 {
		return math.Copysign(0, a/b), m
	}
	q = math.Floor(div)
	if div-q > 0.5 {
		q++
	}
	return q, m
}

func powFloats(a, b float64) (Value, error) {
	if a == 0 && b < 0 {
		return nil, raise(otherError, "0.0 cannot be raised to a negative power")
	}
	if a < 0 && !math.IsInf(a, 0) && !math.IsInf(b, 0) && b != math.Trunc(b) && !math.IsNaN(b) {
		return nil, unsupported("complex numbers")
	}
	f, ok := exactPow(a, b)
	if !ok {
		return nil, unsupported("power with a fraction")
	}
	if math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		return nil, raise(overflowError, "result too large")
	}
	return Float(f), nil
}

// exactPow is the power rounded once, as C's pow yields it in all but rare cases;
// Go's is less exact. It knows whole exponents and square roots.
func exactPow(a, b float64) (float64, bool) {
	const (
		precision = 256
		maxWhole  = 1 << 20
	)
	switch {
	case a == 0 || a == 1 || math.IsInf(a, 0) || math.IsNaN(a) || b == 0 || math.IsInf(b, 0) || math.IsNaN(b):
		return math.Pow(a, b), true
	case b == 0.5:
		return math.Sqrt(a), true
	case b != math.Trunc(b) || math.Abs(b) > maxWhole:
		return 0, false
	}
	result := new(big.Float).SetPrec(precision).SetInt64(1)
	factor := new(big.Float).SetPrec(precision).SetFloat64(a)
	for n := int(math.Abs(b)); n > 0; n >>= 1 {
		if n&1 == 1 {
			result.Mul(result, factor)
		}
		if n > 1 {
			factor.Mul(factor, factor)
		}
	}
	if b < 0 {
		result.Quo(new(big.Float).SetPrec(precision).SetInt64(1), result)
	}
	f, _ := result.Float64()
	return f, true
}

// addSequences concatenates strings, lists and tuples; ok is false for others.
func (st *state) addSequences(l, r Value) (Value, bool, error) {
	switch a := l.(type) {
	case String:
		switch b := r.(type) {
		case String:
			s, err := st.join(string(a), string(b))
			return String(s), true, err
		case markup:
			s, err := st.join(escapeHTML(string(a)), string(b))
			return markup(s), true, err
		}
	case markup:
		switch b := r.(type) {
		case String:
			s, err := st.join(string(a), escapeHTML(string(b)))
			return markup(s), true, err
		case markup:
			s, err := st.join(string(a), string(b))
			return markup(s), true, err
		}
	case *List:
		if b, ok := r.(*List); ok {
			items, err := st.joinItems(a.items, b.items)
			return NewList(items...), true, err
		}
	case *Tuple:
		if b, ok := r.(*Tuple); ok {
			items, err := st.joinItems(a.items, b.items)
			return NewTuple(items...), true, err
		}
	}
	return nil, false, nil
}

func (st *state) join(a, b string) (string, error) {
	if err := st.grow(len(a) + len(b)); err != nil {
		return "", err
	}
	return a + b, nil
}

func (st *state) joinItems(a, b []Value) ([]Value, error) {
	if err := st.growItems(len(a) + len(b)); err != nil {
		return nil, err
	}
	return append(append(make([]Value, 0, len(a)+len(b)), a...), b...), nil
}

// repeat multiplies a sequence by an int, on either side.
func (st *state) repeat(l, r Value) (Value, bool, error) {
	if isSequence(r) && !isSequence(l) {
		l, r = r, l
	}
	if !isSequence(l) {
		return nil, false, nil
	}
	if u, ok := r.(*Undefined); ok {
		return nil, true, u.fail()
	}
	if !isInt(r) {
		return nil, true, raise(typeError, "can't multiply sequence by non-int of type %s", r.typeName())
	}
	count, fits := asInt(r)
	if !fits {
		return nil, true, raise(overflowError, "cannot fit 'int' into an index-sized integer")
	}
	count = max(count, 0)
	switch s := l.(type) {
	case String:
		text, err := st.repeatString(string(s), count)
		return String(text), true, err
	case markup:
		text, err := st.repeatString(string(s), count)
		return markup(text), true, err
	case *List:
		items, err := st.repeatItems(s.items, count)
		return NewList(items...), true, err
	case *Tuple:
		items, err := st.repeatItems(s.items, count)
		return NewTuple(items...), true, err
	default:
		return nil, false, nil
	}
}

func isSequence(v Value) bool {
	switch v.(type) {
	case String, markup, *List, *Tuple:
		return true
	default:
		return false
	}
}

func (st *state) repeatString(s string, n int64) (string, error) {
	if s == "" || n == 0 {
		return "", nil
	}
	if n > int64(st.opts.MaxOutput/len(s)) {
		return "", limit("string longer than %d bytes", st.opts.MaxOutput)
	}
	if err := st.grow(len(s) * int(n)); err != nil {
		return "", err
	}
	return strings.Repeat(s, int(n)), nil
}

func (st *state) repeatItems(items []Value, n int64) ([]Value, error) {
	if len(items) == 0 || n == 0 {
		return nil, nil
	}
	if n > int64(st.opts.MaxOutput/len(items)) {
		return nil, limit("list longer than %d", st.opts.MaxOutput)
	}
	if err := st.growItems(len(items) * int(n)); err != nil {
		return nil, err
	}
	out := make([]Value, 0, len(items)*int(n))
	for range n {
		out = append(out, items...)
	}
	return out, nil
}

// sign applies unary minus or plus.
func (st *state) sign(op unaryOp, v Value) (Value, error) {
	switch v := v.(type) {
	case Int, Bool, *bigInt:
		b, _ := asBig(v)
		if op == opNeg {
			return normInt(new(big.Int).Neg(b)), nil
		}
		return normInt(new(big.Int).Set(b)), nil
	case Float:
		if op == opNeg {
			return -v, nil
		}
		return v, nil
	case *Undefined:
		return nil, v.fail()
	default:
		return nil, raise(typeError, "bad operand type for unary operator: %s", v.typeName())
	}
}
