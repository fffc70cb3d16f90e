package jsonscan

import (
	"math"
	"slices"
)

// MaxFields bounds the top-level fields of an [Object]. Requests have dozens; a
// body of nothing but commas and colons must not take many times its size in
// memory.
const MaxFields = 4096

// usualFields is how many top-level fields an Object holds without growing.
const usualFields = 24

// field is where one top-level field lies: its key with the quotes, its value.
type field struct {
	key, keyEnd, val, end uint32
	escaped               bool
}

// Object is a validated JSON object and the place of each of its fields.
type Object struct {
	body   []byte
	fields []field
	// insert is where the first field of an empty object would go.
	insert int
}

// Parse validates a text that is one object and finds its fields, in one pass
// and with one allocation (more beyond 24 fields). The Object keeps body, which
// must not change while it is in use. A maxDepth of 0 means [DefaultDepth]. More
// than [MaxFields] fields are refused. The error is an [*Error].
func Parse(body []byte, maxDepth int) (Object, error) {
	if uint64(len(body)) > math.MaxUint32 {
		return Object{}, &Error{Offset: math.MaxInt32, Reason: reasonTooLong}
	}
	s := newScanner(body, maxDepth)
	s.maxFields = MaxFields
	start := skipSpace(body, 0)
	fields, end := s.fields(make([]field, 0, usualFields), start)
	if end >= 0 {
		if rest := skipSpace(body, end); rest < len(body) {
			end = s.fail(rest, reasonTrailing)
		}
	}
	if end < 0 {
		return Object{}, s.failure()
	}
	return Object{body: body, fields: fields, insert: start + 1}, nil
}

// fields scans the object at i and appends its fields to fs.
func (s *scanner) fields(fs []field, i int) ([]field, int) {
	b := s.b
	if i >= len(b) {
		return fs, s.fail(i, reasonEOF)
	}
	if b[i] != '{' {
		// Say what is wrong with broken text rather than that it is no object.
		if end := s.value(i, 0); end < 0 {
			return fs, end
		}
		return fs, s.fail(i, reasonNotObject)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return fs, i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return fs, s.fail(i, reasonChar)
		}
		if len(fs) == s.maxFields {
			return fs, s.fail(i, reasonFields)
		}
		keyEnd := s.str(i)
		if keyEnd < 0 {
			return fs, keyEnd
		}
		f := field{key: uint32(i), keyEnd: uint32(keyEnd), escaped: s.escaped}
		if i = s.colon(keyEnd); i < 0 {
			return fs, i
		}
		f.val = uint32(i)
		if i = s.value(i, 1); i < 0 {
			return fs, i
		}
		f.end = uint32(i)
		fs = append(fs, f)
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return fs, s.fail(i, reasonEOF)
		case b[i] == ',':
			i = skipSpace(b, i+1)
		case b[i] == '}':
			return fs, i + 1
		default:
			return fs, s.fail(i, reasonChar)
		}
	}
}

// Bytes is the text that was parsed.
func (o Object) Bytes() []byte { return o.body }

// Len counts the fields, duplicates included.
func (o Object) Len() int { return len(o.fields) }

// Get returns the value of the last field with that key: of duplicates it is the
// one that the engines' decoders take. A key that is there with null is found.
func (o Object) Get(key string) (Value, bool) {
	for _, f := range slices.Backward(o.fields) {
		if o.keyIs(f, key) {
			return o.value(f), true
		}
	}
	return Value{}, false
}

// Value is Get without the report: the zero Value when the key is absent.
func (o Object) Value(key string) Value {
	v, _ := o.Get(key)
	return v
}

// Count tells how many fields have that key.
func (o Object) Count(key string) int {
	n := 0
	for _, f := range o.fields {
		if o.keyIs(f, key) {
			n++
		}
	}
	return n
}

// Field returns the i-th field in the order of the text, 0 <= i < Len. The key
// shares the text's memory unless it holds escapes.
func (o Object) Field(i int) (key []byte, v Value) {
	f := o.fields[i]
	key = o.body[f.key+1 : f.keyEnd-1]
	if f.escaped {
		key = Unescape(nil, key)
	}
	return key, o.value(f)
}

func (o Object) value(f field) Value {
	return Value{raw: o.body[f.val:f.end:f.end], off: int(f.val)}
}

func (o Object) keyIs(f field, key string) bool {
	inside := o.body[f.key+1 : f.keyEnd-1]
	if !f.escaped {
		return string(inside) == key
	}
	return insideIs(inside, key)
}
