package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// LongestEscape is the bytes that JSON can spell one byte with.
const LongestEscape = 2 + hexDigits

// Unescape appends the meaning of what stands between a string's quotes to dst. It
// takes texts that only quote JSON, too: what is no escape stays as it is. Half of a
// surrogate pair becomes U+FFFD. No text is longer than its spelling.
func Unescape(dst, inside []byte) []byte {
	for {
		k := bytes.IndexByte(inside, '\\')
		if k < 0 || k == len(inside)-1 {
			return append(dst, inside...)
		}
		dst = append(dst, inside[:k]...)
		var n int
		dst, n = appendEscape(dst, inside[k:])
		inside = inside[k+n:]
	}
}

// appendEscape decodes the escape (or pair of surrogate escapes) that e begins
// with, if it is one, and says how many bytes it took.
func appendEscape(dst, e []byte) ([]byte, int) {
	const short = 2
	switch c := e[1]; c {
	case '"', '\\', '/':
		return append(dst, c), short
	case 'b':
		return append(dst, '\b'), short
	case 'f':
		return append(dst, '\f'), short
	case 'n':
		return append(dst, '\n'), short
	case 'r':
		return append(dst, '\r'), short
	case 't':
		return append(dst, '\t'), short
	case 'u':
		r, ok := hexRune(e)
		if !ok {
			return append(dst, e[0]), 1
		}
		if utf16.IsSurrogate(r) {
			low, follows := hexRune(e[LongestEscape:])
			if full := utf16.DecodeRune(r, low); follows && full != utf8.RuneError {
				return utf8.AppendRune(dst, full), 2 * LongestEscape
			}
		}
		return utf8.AppendRune(dst, r), LongestEscape
	default:
		return append(dst, e[0]), 1
	}
}

// hexRune reads an escape of the form \u0041.
func hexRune(e []byte) (r rune, ok bool) {
	if len(e) < LongestEscape || e[0] != '\\' || e[1] != 'u' {
		return 0, false
	}
	for _, c := range e[2:LongestEscape] {
		d := unhex(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, true
}

// insideIs reports whether a valid string's inside means s.
func insideIs(inside []byte, s string) bool {
	if len(inside) < len(s) { // no escape is shorter than what it means
		return false
	}
	if string(inside) == s {
		// A backslash in s would have to be escaped inside.
		return bytes.IndexByte(inside, '\\') < 0
	}
	if len(inside) == len(s) || bytes.IndexByte(inside, '\\') < 0 {
		return false
	}
	return string(Unescape(nil, inside)) == s
}

// AppendString appends s as a JSON string. Only what must be escaped is; invalid
// UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[from:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
