package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth is about where CPython's decoder gives up.
const maxJSONDepth = 950

// FromJSON decodes a JSON document as Python's json.loads does: objects keep the
// order of their keys (a repeated key keeps its first place and its last value),
// ints have any size, floats are floats (1.0 stays 1.0), NaN, Infinity and
// -Infinity are accepted, and lone surrogates are kept. The error is an *Error of
// kind Runtime.
func FromJSON(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return nil, raise(valueError, "JSON is not valid UTF-8")
	}
	d := &jsonDecoder{s: string(data)}
	d.space()
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	d.space()
	if d.i < len(d.s) {
		return nil, d.fail("extra data")
	}
	return v, nil
}

type jsonDecoder struct {
	s string
	i int
}

func (d *jsonDecoder) fail(what string) error {
	return raise(valueError, "invalid JSON at byte %d: %s", d.i, what)
}

func (d *jsonDecoder) space() {
	for d.i < len(d.s) {
		switch d.s[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

func (d *jsonDecoder) skip(word string) bool {
	if !strings.HasPrefix(d.s[d.i:], word) {
		return false
	}
	d.i += len(word)
	return true
}

func (d *jsonDecoder) value(depth int) (Value, error) {
	if depth > maxJSONDepth {
		return nil, d.fail("nested too deep")
	}
	if d.i >= len(d.s) {
		return nil, d.fail("expected a value")
	}
	switch d.s[d.i] {
	case '"':
		d.i++
		s, err := d.str()
		return String(s), err
	case '{':
		d.i++
		return d.object(depth)
	case '[':
		d.i++
		return d.array(depth)
	}
	switch {
	case d.skip("null"):
		return None{}, nil
	case d.skip("true"):
		return Bool(true), nil
	case d.skip("false"):
		return Bool(false), nil
	case d.skip("NaN"):
		return Float(math.NaN()), nil
	case d.skip("Infinity"):
		return Float(math.Inf(1)), nil
	case d.skip("-Infinity"):
		return Float(math.Inf(-1)), nil
	}
	return d.number()
}

func (d *jsonDecoder) object(depth int) (Value, error) {
	out := &Dict{}
	d.space()
	if d.skip("}") {
		return out, nil
	}
	for {
		if !d.skip(`"`) {
			return nil, d.fail("expected a property name")
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		d.space()
		if !d.skip(":") {
			return nil, d.fail("expected ':'")
		}
		d.space()
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out.Set(key, v)
		d.space()
		switch {
		case d.skip("}"):
			return out, nil
		case d.skip(","):
			d.space()
		default:
			return nil, d.fail("expected ',' or '}'")
		}
	}
}

func (d *jsonDecoder) array(depth int) (Value, error) {
	out := &List{}
	d.space()
	if d.skip("]") {
		return out, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out.Append(v)
		d.space()
		switch {
		case d.skip("]"):
			return out, nil
		case d.skip(","):
			d.space()
		default:
			return nil, d.fail("expected ',' or ']'")
		}
	}
}

func (d *jsonDecoder) number() (Value, error) {
	start := d.i
	d.skip("-")
	switch {
	case d.skip("0"):
	case d.digits() == 0:
		d.i = start
		return nil, d.fail("expected a value")
	}
	whole := d.i
	if d.i+1 < len(d.s) && d.s[d.i] == '.' && isDigit(d.s[d.i+1]) {
		d.i++
		d.digits()
	}
	if n := exponentDigits(d.s[d.i:]); n > 0 {
		d.i += n
	}
	text := d.s[start:d.i]
	if d.i > whole {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, d.fail("invalid number")
		}
		return Float(f), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(n), nil
	}
	if len(strings.TrimPrefix(text, "-")) > maxIntDigits {
		return nil, d.fail("integer too long")
	}
	b, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, d.fail("invalid number")
	}
	return normInt(b), nil
}

func (d *jsonDecoder) digits() int {
	start := d.i
	for d.i < len(d.s) && isDigit(d.s[d.i]) {
		d.i++
	}
	return d.i - start
}

// exponentDigits returns the length of an exponent at the start of s.
func exponentDigits(s string) int {
	if s == "" || s[0]|0x20 != 'e' {
		return 0
	}
	i := 1
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	n := i
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	if n == i {
		return 0
	}
	return n
}

// str reads a string behind its opening quote.
func (d *jsonDecoder) str() (string, error) {
	start := d.i
	for d.i < len(d.s) {
		switch c := d.s[d.i]; {
		case c == '"':
			d.i++
			return d.s[start : d.i-1], nil
		case c == '\\':
			return d.escaped([]byte(d.s[start:d.i]))
		case c < ' ':
			return "", d.fail("control character in a string")
		}
		d.i++
	}
	return "", d.fail("unterminated string")
}

// escaped reads the rest of a string with escapes.
func (d *jsonDecoder) escaped(out []byte) (string, error) {
	for d.i < len(d.s) {
		c := d.s[d.i]
		d.i++
		switch {
		case c == '"':
			return string(out), nil
		case c < ' ':
			return "", d.fail("control character in a string")
		case c != '\\':
			out = append(out, c)
			continue
		}
		if d.i >= len(d.s) {
			break
		}
		e := d.s[d.i]
		d.i++
		if e == 'u' {
			r, err := d.unicodeEscape()
			if err != nil {
				return "", err
			}
			out = appendRune(out, r)
			continue
		}
		at := strings.IndexByte(`"\/bfnrt`, e)
		if at < 0 {
			return "", d.fail("invalid escape")
		}
		out = append(out, "\"\\/\b\f\n\r\t"[at])
	}
	return "", d.fail("unterminated string")
}

// unicodeEscape reads four digits, and a second escape if the two are a pair.
func (d *jsonDecoder) unicodeEscape() (rune, error) {
	r, ok := d.hex4()
	if !ok {
		return 0, d.fail("invalid \\u escape")
	}
	const high, low, end = 0xd800, 0xdc00, 0xe000
	if r >= high && r < low && strings.HasPrefix(d.s[d.i:], `\u`) {
		back := d.i
		d.i += 2
		second, ok := d.hex4()
		if !ok {
			return 0, d.fail("invalid \\u escape")
		}
		if second >= low && second < end {
			return 0x10000 + (r-high)<<10 + (second - low), nil
		}
		d.i = back
	}
	return r, nil
}

func (d *jsonDecoder) hex4() (rune, bool) {
	const width = 4
	if d.i+width > len(d.s) {
		return 0, false
	}
	n, err := strconv.ParseUint(d.s[d.i:d.i+width], 16, 32)
	if err != nil {
		return 0, false
	}
	d.i += width
	return rune(n), true
}
