package jsonscan

import (
	"bytes"
	"math"
	"strconv"
)

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. KindNone is the zero Value: no value at all, which is not null.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// Value is a span of a validated text. The zero Value stands for an absent one
// and answers false to everything.
type Value struct {
	raw []byte
	off int
}

// ParseValue validates a text that is any one value. It allocates nothing unless
// it fails. A maxDepth of 0 means [DefaultDepth].
func ParseValue(text []byte, maxDepth int) (Value, error) {
	s := newScanner(text, maxDepth)
	start, end := s.text()
	if end < 0 {
		return Value{}, s.failure()
	}
	return Value{raw: text[start:end:end], off: start}, nil
}

// Kind tells the value's type by its first byte.
func (v Value) Kind() Kind {
	if len(v.raw) == 0 {
		return KindNone
	}
	switch v.raw[0] {
	case 'n':
		return KindNull
	case 't', 'f':
		return KindBool
	case '"':
		return KindString
	case '[':
		return KindArray
	case '{':
		return KindObject
	default:
		return KindNumber
	}
}

// Raw is the value as it is spelled; it shares the text's memory. Nil for the
// zero Value.
func (v Value) Raw() []byte { return v.raw }

// Offset is the index of the value's first byte in the text.
func (v Value) Offset() int { return v.off }

// Exists reports whether there is a value other than null.
func (v Value) Exists() bool { return len(v.raw) > 0 && v.raw[0] != 'n' }

// Bool returns a boolean.
func (v Value) Bool() (value, ok bool) {
	if v.Kind() != KindBool {
		return false, false
	}
	return v.raw[0] == 't', true
}

// Text returns what a string means. Without escapes it shares the text's memory,
// else it is a new slice.
func (v Value) Text() ([]byte, bool) {
	if v.Kind() != KindString {
		return nil, false
	}
	inside := v.inside()
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside, true
	}
	return Unescape(make([]byte, 0, len(inside)), inside), true
}

// AppendText appends what a string means to dst.
func (v Value) AppendText(dst []byte) ([]byte, bool) {
	if v.Kind() != KindString {
		return dst, false
	}
	return Unescape(dst, v.inside()), true
}

// Str returns what a string means, as a string.
func (v Value) Str() (string, bool) {
	t, ok := v.Text()
	return string(t), ok
}

// Is reports whether the value is a string that means s.
func (v Value) Is(s string) bool {
	return v.Kind() == KindString && insideIs(v.inside(), s)
}

// Empty reports whether the value is "", [], {}, null or absent.
func (v Value) Empty() bool {
	switch v.Kind() {
	case KindNone, KindNull:
		return true
	case KindString:
		return len(v.raw) == len(`""`)
	case KindArray, KindObject:
		return skipSpace(v.raw, 1) == len(v.raw)-1
	default:
		return false
	}
}

func (v Value) inside() []byte { return v.raw[1 : len(v.raw)-1] }

// maxExactFloat is the largest magnitude below which every integer is a float64.
const maxExactFloat = 1 << 53

// Int returns a number that is an integer and fits, however it is spelled: 7,
// 7.0 and 70e-1 are the same.
func (v Value) Int() (int64, bool) {
	if v.Kind() != KindNumber {
		return 0, false
	}
	if n, ok := shortInt(v.raw); ok {
		return n, true
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err == nil {
		return n, true
	}
	f, ok := v.Float()
	if !ok || f != math.Trunc(f) || math.Abs(f) > maxExactFloat || !bytes.ContainsAny(v.raw, ".eE") {
		return 0, false
	}
	return int64(f), true
}

// shortInt reads an integer of at most 18 digits.
func shortInt(raw []byte) (int64, bool) {
	const most = 18
	neg := raw[0] == '-'
	if neg {
		raw = raw[1:]
	}
	if len(raw) > most {
		return 0, false
	}
	var n int64
	for _, c := range raw {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// Float returns a number; false if it is beyond a float64.
func (v Value) Float() (float64, bool) {
	if v.Kind() != KindNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	return f, err == nil
}

// Get returns the last member of an object with that key, which is the one that
// decoders take, or the zero Value. It allocates nothing.
func (v Value) Get(key string) Value {
	if v.Kind() != KindObject {
		return Value{}
	}
	var found Value
	for it := v.Iter(); it.Next(); {
		if insideIs(it.key, key) {
			found = it.value
		}
	}
	return found
}

// Len counts the elements of an array or the members of an object.
func (v Value) Len() int {
	n := 0
	for it := v.Iter(); it.Next(); {
		n++
	}
	return n
}

// Uint32s returns an array whose elements are all integers of 32 bits without
// sign, such as token ids, with one allocation.
func (v Value) Uint32s() ([]uint32, bool) {
	if v.Kind() != KindArray {
		return nil, false
	}
	if v.Empty() {
		return []uint32{}, true
	}
	ids := make([]uint32, 0, bytes.Count(v.raw, []byte{','})+1)
	for it := v.Iter(); it.Next(); {
		n, ok := it.value.Int()
		if !ok || n < 0 || n > math.MaxUint32 {
			return nil, false
		}
		ids = append(ids, uint32(n))
	}
	return ids, true
}

// Field is Get with the report whether the key is there, be it with null.
func (v Value) Field(key string) (Value, bool) {
	found := v.Get(key)
	return found, found.Kind() != KindNone
}
