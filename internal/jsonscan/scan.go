package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// DefaultDepth is the nesting accepted when a caller states none. Engines parse
// with recursion limits of about a thousand; no request comes near 512.
const DefaultDepth = 512

// scanner validates the text b. Its methods take the index of the first byte of
// a construct and return the index after its last one, or -1 after fail.
type scanner struct {
	b         []byte
	maxDepth  int
	maxFields int // recorded by fields, not those of nested objects
	err       Error
	// escaped says whether the last string scanned holds a backslash.
	escaped bool
}

func newScanner(b []byte, maxDepth int) scanner {
	if maxDepth <= 0 {
		maxDepth = DefaultDepth
	}
	return scanner{b: b, maxDepth: maxDepth}
}

func (s *scanner) fail(at int, reason string) int {
	s.err = Error{Offset: at, Reason: reason}
	if at >= len(s.b) {
		s.err = Error{Offset: len(s.b), Reason: reasonEOF}
	}
	return -1
}

// failure allocates the error only where there is one.
func (s *scanner) failure() error {
	e := s.err
	return &e
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// text scans a whole text that is one value.
func (s *scanner) text() (start, end int) {
	start = skipSpace(s.b, 0)
	end = s.value(start, 0)
	if end < 0 {
		return start, end
	}
	if rest := skipSpace(s.b, end); rest < len(s.b) {
		return start, s.fail(rest, reasonTrailing)
	}
	return start, end
}

// value scans any value; depth is the number of containers around it.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.b) {
		return s.fail(i, reasonEOF)
	}
	switch s.b[i] {
	case '"':
		return s.str(i)
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number(i)
	default:
		return s.fail(i, reasonChar)
	}
}

func (s *scanner) literal(i int, word string) int {
	for k := range len(word) {
		if i+k >= len(s.b) || s.b[i+k] != word[k] {
			return s.fail(i+k, reasonChar)
		}
	}
	return i + len(word)
}

func (s *scanner) object(i, depth int) int {
	if depth >= s.maxDepth {
		return s.fail(i, reasonDepth)
	}
	i = skipSpace(s.b, i+1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		if i = s.key(i); i < 0 {
			return i
		}
		if i = s.value(i, depth+1); i < 0 {
			return i
		}
		i = skipSpace(s.b, i)
		switch {
		case i >= len(s.b):
			return s.fail(i, reasonEOF)
		case s.b[i] == ',':
			i = skipSpace(s.b, i+1)
		case s.b[i] == '}':
			return i + 1
		default:
			return s.fail(i, reasonChar)
		}
	}
}

// key scans a member's name and the colon and returns where its value begins.
func (s *scanner) key(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.fail(i, reasonChar)
	}
	if i = s.str(i); i < 0 {
		return i
	}
	return s.colon(i)
}

func (s *scanner) colon(i int) int {
	i = skipSpace(s.b, i)
	if i >= len(s.b) || s.b[i] != ':' {
		return s.fail(i, reasonChar)
	}
	return skipSpace(s.b, i+1)
}

func (s *scanner) array(i, depth int) int {
	if depth >= s.maxDepth {
		return s.fail(i, reasonDepth)
	}
	i = skipSpace(s.b, i+1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth+1); i < 0 {
			return i
		}
		i = skipSpace(s.b, i)
		switch {
		case i >= len(s.b):
			return s.fail(i, reasonEOF)
		case s.b[i] == ',':
			i = skipSpace(s.b, i+1)
		case s.b[i] == ']':
			return i + 1
		default:
			return s.fail(i, reasonChar)
		}
	}
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func digits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

func (s *scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b) || !isDigit(b[i]):
		return s.fail(i, reasonNumber)
	case b[i] == '0':
		i++
	default:
		i = digits(b, i)
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = digits(b, from); i == from {
			return s.fail(i, reasonNumber)
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		if i = digits(b, from); i == from {
			return s.fail(i, reasonNumber)
		}
	}
	if i < len(b) && isDigit(b[i]) { // 01
		return s.fail(i, reasonNumber)
	}
	return i
}

// One byte value repeated over a word.
const (
	ones      = 0x0101010101010101
	highBits  = 0x80 * ones
	spaces    = 0x20 * ones
	quotes    = '"' * ones
	backslash = '\\' * ones
	wordBytes = 8
	bitsAByte = 8
)

// plain returns the index of the first byte at or after i that needs a look: a
// quote, a backslash, a control character or one beyond ASCII.
func plain(b []byte, i int) int {
	for i+wordBytes <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^quotes, w^backslash
		// Each term sets the high bit of a byte that matches; a borrow can set it
		// wrongly only above a true match, and the lowest one is what we take.
		m := (w-spaces)&^w | (q-ones)&^q | (e-ones)&^e | w
		if m &= highBits; m != 0 {
			return i + bits.TrailingZeros64(m)/bitsAByte
		}
		i += wordBytes
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// str scans a string from its opening quote.
func (s *scanner) str(i int) int {
	b := s.b
	s.escaped = false
	i++
	for {
		i = plain(b, i)
		if i >= len(b) {
			return s.fail(i, reasonEOF)
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			s.escaped = true
			if i = s.escape(i + 1); i < 0 {
				return i
			}
		case c < ' ':
			return s.fail(i, reasonControl)
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, n := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && n == 1 {
					s.err = Error{Offset: i, Reason: reasonUTF8}
					return -1
				}
				i += n
			}
		}
	}
}

const hexDigits = 4

// escape scans what follows a backslash.
func (s *scanner) escape(i int) int {
	if i >= len(s.b) {
		return s.fail(i, reasonEOF)
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for k := i + 1; k <= i+hexDigits; k++ {
			if k >= len(s.b) || unhex(s.b[k]) < 0 {
				return s.fail(k, reasonEscape)
			}
		}
		return i + 1 + hexDigits
	default:
		return s.fail(i, reasonEscape)
	}
}

func unhex(c byte) rune {
	switch {
	case isDigit(c):
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	default:
		return -1
	}
}
