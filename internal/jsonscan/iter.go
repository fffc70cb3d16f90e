package jsonscan

import "bytes"

// Iter walks the elements of an array or the members of an object:
//
//	for it := v.Iter(); it.Next(); {
//		use(it.Key(), it.Value())
//	}
//
// It relies on the text having been validated, so that it can't fail.
type Iter struct {
	raw    []byte
	next   int
	off    int
	object bool
	key    []byte
	value  Value
}

// Iter returns an iterator; over nothing if v is no container.
func (v Value) Iter() Iter {
	switch v.Kind() {
	case KindArray:
		return Iter{raw: v.raw, off: v.off, next: 1}
	case KindObject:
		return Iter{raw: v.raw, off: v.off, next: 1, object: true}
	default:
		return Iter{}
	}
}

// Next moves to the next item and reports whether there is one.
func (it *Iter) Next() bool {
	b := it.raw
	i := skipSpace(b, it.next)
	if i < len(b) && b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	if i >= len(b)-1 { // the closing bracket, or no container at all
		it.next = len(b)
		return false
	}
	if it.object {
		end := skipString(b, i)
		it.key = b[i+1 : end-1]
		i = skipSpace(b, end) // the colon
		i = skipSpace(b, i+1) // the value
	}
	end := skip(b, i)
	it.value = Value{raw: b[i:end:end], off: it.off + i}
	it.next = end
	return true
}

// Key is what the member's key means; nil in an array. It shares the text's
// memory unless the key holds escapes.
func (it *Iter) Key() []byte {
	if bytes.IndexByte(it.key, '\\') < 0 {
		return it.key
	}
	return Unescape(nil, it.key)
}

// Value is the current item.
func (it *Iter) Value() Value { return it.value }

// skip returns the index after the valid value at i.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	default:
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
			i++
		}
		return i
	}
}

// skipNested counts brackets outside strings.
func skipNested(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		default:
		}
		i++
	}
}

// skipString returns the index after the valid string at i.
func skipString(b []byte, i int) int {
	i++
	for {
		i += bytes.IndexByte(b[i:], '"')
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}
