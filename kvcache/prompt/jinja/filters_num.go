package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

func filterAbs(_ *state, a args) (Value, error) {
	switch v := a.pos[0].(type) {
	case Float:
		return Float(math.Abs(float64(v))), nil
	case *Undefined:
		return nil, raise(typeError, "bad operand type for abs()")
	default:
		b, ok := asBig(v)
		if !ok {
			return nil, raise(typeError, "bad operand type for abs(): %s", v.typeName())
		}
		return normInt(new(big.Int).Abs(b)), nil
	}
}

// filterInt converts to an int, by way of a float if need be, or else to the
// default.
func filterInt(st *state, a args) (Value, error) {
	fallback := Value(Int(0))
	if a.pos[1] != nil {
		fallback = a.pos[1]
	}
	v, err := st.toInt(a.pos[0], a.pos[2])
	if err == nil || !isClass(err, typeError, valueError) {
		return v, err
	}
	f, err := st.toFloat(a.pos[0])
	if err == nil {
		v, err = floatToInt(f)
	}
	if isClass(err, typeError, valueError, overflowError) {
		return fallback, nil
	}
	return v, err
}

// toInt is int(v), or int(v, base) of a string.
func (st *state) toInt(v, base Value) (Value, error) {
	if s, ok := asString(v); ok {
		b := int64(10)
		if base != nil {
			var err error
			if b, err = index(base); err != nil {
				return nil, err
			}
		}
		if err := st.work(len(s)); err != nil {
			return nil, err
		}
		return parseInt(s, int(min(max(b, -1), 99)))
	}
	switch v := v.(type) {
	case Int, *bigInt:
		return v, nil
	case Bool:
		n, _ := asInt(v)
		return Int(n), nil
	case Float:
		return floatToInt(float64(v))
	case *Undefined:
		return nil, v.fail()
	default:
		return nil, raise(typeError, "int() argument must be a string or a number, not %s", v.typeName())
	}
}

// parseInt is int(s, base).
func parseInt(s string, base int) (Value, error) {
	const maxBase = 36
	bad := raise(valueError, "invalid literal for int()")
	if base != 0 && (base < 2 || base > maxBase) {
		return nil, raise(valueError, "int() base must be >= 2 and <= 36, or 0")
	}
	s = asciiDigits(trimRightSpace(trimLeftSpace(s)))
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	prefixed := false
	if len(s) > 1 && s[0] == '0' {
		prefixBase := map[byte]int{'b': 2, 'o': 8, 'x': 16}[s[1]|0x20]
		if prefixBase != 0 && (base == 0 || base == prefixBase) {
			base, s, prefixed = prefixBase, s[2:], true
		}
	}
	if base == 0 {
		base = 10
		if len(s) > 1 && s[0] == '0' && strings.Trim(s, "0_") != "" {
			return nil, bad
		}
	}
	if prefixed {
		s = strings.TrimPrefix(s, "_")
	}
	if s == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") || strings.ContainsAny(s, "+-") {
		return nil, bad
	}
	s = strings.ReplaceAll(s, "_", "")
	if base&(base-1) != 0 && len(s) > maxIntDigits {
		return nil, raise(valueError, "exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
	}
	if len(s) > maxBits/4 {
		return nil, limit("int of more than %d bits", maxBits)
	}
	b, ok := new(big.Int).SetString(s, base)
	if !ok {
		return nil, bad
	}
	if neg {
		b.Neg(b)
	}
	return normInt(b), nil
}

func filterFloat(st *state, a args) (Value, error) {
	f, err := st.toFloat(a.pos[0])
	if isClass(err, typeError, valueError) {
		if a.pos[1] != nil {
			return a.pos[1], nil
		}
		return Float(0), nil
	}
	return Float(f), err
}

// toFloat is float(v).
func (st *state) toFloat(v Value) (float64, error) {
	if s, ok := asString(v); ok {
		if err := st.work(len(s)); err != nil {
			return 0, err
		}
		return parseFloat(s)
	}
	if u, ok := v.(*Undefined); ok {
		return 0, u.fail()
	}
	f, ok, err := asFloat(v)
	if !ok {
		return 0, raise(typeError, "float() argument must be a string or a number, not %s", v.typeName())
	}
	return f, err
}

// parseFloat is float(s).
func parseFloat(s string) (float64, error) {
	bad := raise(valueError, "could not convert string to float")
	s = asciiDigits(trimRightSpace(trimLeftSpace(s)))
	sign := 1.0
	body := s
	if strings.HasPrefix(body, "-") {
		sign = -1
	}
	body = strings.TrimPrefix(strings.TrimPrefix(body, "-"), "+")
	if len(body) < len(s)-1 {
		return 0, bad
	}
	switch strings.ToLower(body) {
	case "inf", "infinity":
		return math.Inf(int(sign)), nil
	case "nan":
		return math.NaN(), nil
	}
	for i := range len(body) {
		c := body[i]
		between := c == '_' && i > 0 && i+1 < len(body) && isDigit(body[i-1]) && isDigit(body[i+1])
		if !isDigit(c) && c != '.' && c|0x20 != 'e' && c != '+' && c != '-' && !between {
			return 0, bad
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(body, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, bad
	}
	return sign * f, nil
}

// filterRound rounds; the result is an int only if the input is.
func filterRound(st *state, a args) (Value, error) {
	how := "common"
	if a.pos[2] != nil {
		var ok bool
		how, ok = asString(a.pos[2])
		if !ok || how != "common" && how != "ceil" && how != "floor" {
			return nil, raise(otherError, "method must be common, ceil or floor")
		}
	}
	precision := Value(Int(0))
	if a.pos[1] != nil {
		precision = a.pos[1]
	}
	if how == "common" {
		return st.round(a.pos[0], precision)
	}
	scale, err := st.binary(opPow, Int(10), precision)
	if err != nil {
		return nil, err
	}
	v, err := st.binary(opMul, a.pos[0], scale)
	if err != nil {
		return nil, err
	}
	if f, ok := v.(Float); ok {
		x := math.Floor(float64(f))
		if how == "ceil" {
			x = math.Ceil(float64(f))
		}
		if v, err = floatToInt(x); err != nil {
			return nil, err
		}
	} else if !isInt(v) {
		return nil, raise(typeError, "must be real number, not %s", v.typeName())
	}
	return st.binary(opDiv, v, scale)
}

// round is round(v, precision).
func (st *state) round(v, precision Value) (Value, error) {
	if u, ok := v.(*Undefined); ok {
		return nil, raise(typeError, "type %s doesn't define __round__", u.typeName())
	}
	if !isNumber(v) {
		return nil, raise(typeError, "type %s doesn't define __round__", v.typeName())
	}
	if isNone(precision) {
		if f, ok := v.(Float); ok {
			return floatToInt(math.RoundToEven(float64(f)))
		}
		return st.toInt(v, nil)
	}
	n, err := index(precision)
	if err != nil {
		return nil, err
	}
	if f, ok := v.(Float); ok {
		return roundFloat(float64(f), n)
	}
	return roundInt(v, n)
}

func roundFloat(f float64, n int64) (Value, error) {
	const most, least = 323, -309 // beyond, nothing or everything is rounded away
	if math.IsInf(f, 0) || math.IsNaN(f) || n > most {
		return Float(f), nil
	}
	if n < least {
		return Float(math.Copysign(0, f)), nil
	}
	if n >= 0 {
		r, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(n), 64), 64)
		if err != nil {
			return nil, raise(overflowError, "rounded value too large to represent")
		}
		return Float(r), nil
	}
	// To tens, hundreds, ...: exactly, half to even.
	b, exact := new(big.Float).SetFloat64(f).Int(nil)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(-n), nil)
	q, m := new(big.Int).QuoRem(b, scale, new(big.Int))
	twice := new(big.Int).Lsh(new(big.Int).Abs(m), 1)
	up := twice.Cmp(scale) > 0 || twice.Cmp(scale) == 0 && (exact != big.Exact || q.Bit(0) == 1)
	if up {
		q.Add(q, big.NewInt(int64(sgn(f))))
	}
	r, err := bigToFloat(q.Mul(q, scale))
	if err != nil {
		return nil, raise(overflowError, "rounded value too large to represent")
	}
	return Float(math.Copysign(r, f)), nil
}

func sgn(f float64) int {
	if f < 0 {
		return -1
	}
	return 1
}

func roundInt(v Value, n int64) (Value, error) {
	b, _ := asBig(v)
	if n >= 0 {
		return normInt(new(big.Int).Set(b)), nil
	}
	if -n > maxIntDigits {
		return nil, limit("rounding to more than %d digits", maxIntDigits)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(-n), nil)
	q, m := new(big.Int).DivMod(b, scale, new(big.Int))
	c := new(big.Int).Lsh(m, 1).Cmp(scale)
	if c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return normInt(q.Mul(q, scale)), nil
}

func filterFileSize(st *state, a args) (Value, error) {
	f, err := st.toFloat(a.pos[0])
	if err != nil {
		return nil, err
	}
	binary, err := argTruth(st, a.pos[1])
	if err != nil {
		return nil, err
	}
	base, suffix := 1000.0, "B"
	if binary {
		base, suffix = 1024.0, "iB"
	}
	switch {
	case f == 1:
		return String("1 Byte"), nil
	case f < base:
		v, err := floatToInt(f)
		if err != nil {
			return nil, err
		}
		s, err := st.str(v)
		return String(s + " Bytes"), err
	}
	letters := "kMGTPEZY"
	if binary {
		letters = "KMGTPEZY"
	}
	unit := base
	for i := 0; ; i++ {
		unit *= base
		if f < unit || i == len(letters)-1 {
			s := formatFixed(base*f/unit, 1)
			return String(s + " " + letters[i:i+1] + suffix), nil
		}
	}
}

// floatToInt is int(f).
func floatToInt(f float64) (Value, error) {
	switch {
	case math.IsNaN(f):
		return nil, raise(valueError, "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		return nil, raise(overflowError, "cannot convert float infinity to integer")
	case f > -(1<<62) && f < 1<<62:
		return Int(int64(f)), nil
	default:
		b, _ := new(big.Float).SetFloat64(f).Int(nil)
		return normInt(b), nil
	}
}
