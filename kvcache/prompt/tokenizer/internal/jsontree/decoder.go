// Package jsontree reads JSON in one pass, strictly and within bounds: the two large parts
// of a tokenizer file (vocabulary and merges) as a stream, the small ones as trees that
// keep the order of keys. encoding/json would match keys regardless of case, keep the last
// of two equal keys, and turn half a surrogate pair into U+FFFD; the engine does neither.
package jsontree

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrSyntax is wrapped by every error about the text not being the JSON that was asked for.
var ErrSyntax = errors.New("malformed JSON")

// maxDepth bounds nesting. Real files need less than ten levels.
const maxDepth = 64

// A Decoder reads one JSON text. It isn't safe for concurrent use.
type Decoder struct {
	data    []byte
	pos     int
	depth   int
	scratch []byte
}

// NewDecoder reads from data, which it doesn't change.
func NewDecoder(data []byte) *Decoder { return &Decoder{data: data} }

func (d *Decoder) fail(what string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrSyntax, d.pos, what)
}

func (d *Decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (d *Decoder) peek() byte {
	d.space()
	if d.pos == len(d.data) {
		return 0
	}
	return d.data[d.pos]
}

func (d *Decoder) expect(c byte) error {
	if d.peek() != c {
		return d.fail("expected " + strconv.QuoteRune(rune(c)))
	}
	d.pos++
	return nil
}

// End checks that nothing follows.
func (d *Decoder) End() error {
	if d.space(); d.pos != len(d.data) {
		return d.fail("something follows the value")
	}
	return nil
}

// Object calls f with each key; f must read the value. The key is valid until then.
func (d *Decoder) Object(f func(key []byte) error) error {
	return d.list('{', '}', func() error {
		key, err := d.Bytes()
		if err != nil {
			return err
		}
		if err := d.expect(':'); err != nil {
			return err
		}
		return f(key)
	})
}

// Array calls f for each item; f must read it.
func (d *Decoder) Array(f func() error) error { return d.list('[', ']', f) }

func (d *Decoder) list(begin, end byte, item func() error) error {
	if err := d.expect(begin); err != nil {
		return err
	}
	if d.depth++; d.depth > maxDepth {
		return d.fail("nested too deeply")
	}
	if d.peek() == end {
		d.pos++
		d.depth--
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch d.peek() {
		case ',':
			d.pos++
		case end:
			d.pos++
			d.depth--
			return nil
		default:
			return d.fail("expected a comma or the end of the list")
		}
	}
}

// Null reads null if it is next, and says so.
func (d *Decoder) Null() bool {
	if d.peek() == 'n' && d.word("null") {
		return true
	}
	return false
}

// IsArray and IsObject say what comes next.
func (d *Decoder) IsArray() bool { return d.peek() == '[' }

// IsObject says whether an object comes next.
func (d *Decoder) IsObject() bool { return d.peek() == '{' }

// IsString says whether a string comes next.
func (d *Decoder) IsString() bool { return d.peek() == '"' }

func (d *Decoder) word(w string) bool {
	if len(d.data)-d.pos < len(w) || string(d.data[d.pos:d.pos+len(w)]) != w {
		return false
	}
	d.pos += len(w)
	return true
}

// Uint32 reads an integer from 0 to 4294967295.
func (d *Decoder) Uint32() (uint32, error) {
	d.space()
	start := d.pos
	raw, err := d.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(raw, 10, 32)
	if err != nil {
		d.pos = start
		return 0, d.fail("expected an integer below 2^32")
	}
	return uint32(v), nil
}

func (d *Decoder) digits() bool {
	start := d.pos
	for d.pos < len(d.data) && d.data[d.pos]-'0' <= 9 {
		d.pos++
	}
	return d.pos > start
}

func (d *Decoder) at(c byte) bool {
	if d.pos < len(d.data) && d.data[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *Decoder) number() (string, error) {
	d.space()
	start := d.pos
	d.at('-')
	if !d.at('0') && !d.digits() {
		return "", d.fail("expected a number")
	}
	if d.at('.') && !d.digits() {
		return "", d.fail("expected digits")
	}
	if d.at('e') || d.at('E') {
		if !d.at('+') {
			d.at('-')
		}
		if !d.digits() {
			return "", d.fail("expected digits")
		}
	}
	return string(d.data[start:d.pos]), nil
}

// Bytes reads a string. The result is valid until the next call of any method.
func (d *Decoder) Bytes() ([]byte, error) {
	if err := d.expect('"'); err != nil {
		return nil, err
	}
	start := d.pos
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c == '"':
			s := d.data[start:d.pos]
			d.pos++
			return d.checked(s)
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			return nil, d.fail("control character in a string")
		default:
			d.pos++
		}
	}
	return nil, d.fail("the string doesn't end")
}

func (d *Decoder) checked(s []byte) ([]byte, error) {
	if !utf8.Valid(s) {
		return nil, d.fail("the string isn't UTF-8")
	}
	return s, nil
}

// escaped reads on at the first backslash of a string that began at start.
func (d *Decoder) escaped(start int) ([]byte, error) {
	out := d.scratch[:0]
	out = append(out, d.data[start:d.pos]...)
	defer func() { d.scratch = out[:0] }()
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		d.pos++
		switch {
		case c == '"':
			return d.checked(out)
		case c < ' ':
			return nil, d.fail("control character in a string")
		case c != '\\':
			out = append(out, c)
			continue
		}
		if d.pos == len(d.data) {
			break
		}
		c = d.data[d.pos]
		d.pos++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, err := d.unicode()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
		default:
			return nil, d.fail("unknown escape")
		}
	}
	return nil, d.fail("the string doesn't end")
}

func (d *Decoder) unicode() (rune, error) {
	r, ok := d.hex4()
	if !ok {
		return 0, d.fail("expected four hexadecimal digits")
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if !d.word(`\u`) {
		return 0, d.fail("half a surrogate pair")
	}
	low, ok := d.hex4()
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, d.fail("half a surrogate pair")
	}
	return r, nil
}

func (d *Decoder) hex4() (rune, bool) {
	const n = 4
	if len(d.data)-d.pos < n {
		return 0, false
	}
	var r rune
	for _, c := range d.data[d.pos : d.pos+n] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	d.pos += n
	return r, true
}

// Raw skips a value and returns its text.
func (d *Decoder) Raw() ([]byte, error) {
	d.space()
	start := d.pos
	err := d.Skip()
	return d.data[start:d.pos], err
}
