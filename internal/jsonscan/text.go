package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape appends the meaning of a valid string's inside (the bytes between
// its quotes) to dst.
func unescape(dst, inside []byte) []byte {
	for {
		k := bytes.IndexByte(inside, '\\')
		if k < 0 {
			return append(dst, inside...)
		}
		dst = append(dst, inside[:k]...)
		var n int
		dst, n = appendEscape(dst, inside[k:])
		inside = inside[k+n:]
	}
}

// appendEscape decodes the escape (or pair of surrogate escapes) that e begins
// with and says how many bytes it took.
func appendEscape(dst, e []byte) ([]byte, int) {
	const short, long = 2, 2 + hexDigits
	switch c := e[1]; c {
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
		r := hexRune(e)
		if !utf16.IsSurrogate(r) {
			return utf8.AppendRune(dst, r), long
		}
		if len(e) >= 2*long && e[long] == '\\' && e[long+1] == 'u' {
			if full := utf16.DecodeRune(r, hexRune(e[long:])); full != utf8.RuneError {
				return utf8.AppendRune(dst, full), 2 * long
			}
		}
		return utf8.AppendRune(dst, utf8.RuneError), long
	default: // quote, backslash, slash
		return append(dst, c), short
	}
}

// hexRune reads the four digits of a \u escape.
func hexRune(e []byte) rune {
	var r rune
	for _, c := range e[2 : 2+hexDigits] {
		r = r<<4 | unhex(c)
	}
	return r
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
	return string(unescape(nil, inside)) == s
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
