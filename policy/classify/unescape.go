package classify

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// longestEscape is the bytes that JSON can spell one byte with.
const longestEscape = len(`\u0041`)

// unescape appends the meaning of a text with JSON's escapes to dst. It takes
// texts that only quote JSON, too: what is no escape stays as it is. No text is
// longer than its spelling.
func unescape(dst, text []byte) []byte {
	for {
		k := bytes.IndexByte(text, '\\')
		if k < 0 || k == len(text)-1 {
			return append(dst, text...)
		}
		dst = append(dst, text[:k]...)
		var n int
		dst, n = appendEscaped(dst, text[k:])
		text = text[k+n:]
	}
}

// appendEscaped decodes the escape that e begins with, if it is one.
func appendEscaped(dst, e []byte) (out []byte, n int) {
	const short = 2
	c := e[1]
	switch c {
	case '"', '\\', '/':
		return append(dst, c), short
	case 'n':
		return append(dst, '\n'), short
	case 't':
		return append(dst, '\t'), short
	case 'r':
		return append(dst, '\r'), short
	case 'b':
		return append(dst, '\b'), short
	case 'f':
		return append(dst, '\f'), short
	case 'u':
		r, ok := hexRune(e)
		if !ok {
			return append(dst, e[0]), 1
		}
		if utf16.IsSurrogate(r) {
			low, isEscape := hexRune(e[longestEscape:])
			if full := utf16.DecodeRune(r, low); isEscape && full != utf8.RuneError {
				return utf8.AppendRune(dst, full), 2 * longestEscape
			}
		}
		return utf8.AppendRune(dst, r), longestEscape // U+FFFD for half a pair
	default:
		return append(dst, e[0]), 1
	}
}

// hexRune reads an escape of the form \u0041.
func hexRune(e []byte) (rune, bool) {
	if len(e) < longestEscape || e[0] != '\\' || e[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range e[2:longestEscape] {
		d := hexDigit(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
