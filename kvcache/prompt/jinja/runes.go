package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Strings are UTF-8 that may contain lone surrogates, each as the three bytes that
// UTF-8's scheme would give it. utf8 takes those for errors, so what walks over
// characters goes through here.

const (
	surrogateMin = 0xd800
	surrogateMax = 0xdfff
	surrogateLen = 3
)

// decodeRune returns the first character of s and its length in bytes.
func decodeRune(s string) (rune, int) {
	if s == "" {
		return utf8.RuneError, 0
	}
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if n == 1 && isSurrogateAt(s) {
		return rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), surrogateLen
	}
	return r, n
}

func isSurrogateAt(s string) bool {
	return len(s) >= surrogateLen && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80
}

// decodeLastRune returns the last character of s and its length in bytes.
func decodeLastRune(s string) (rune, int) {
	r, n := utf8.DecodeLastRuneInString(s)
	if n == 1 && r == utf8.RuneError && len(s) >= surrogateLen && isSurrogateAt(s[len(s)-surrogateLen:]) {
		return decodeRune(s[len(s)-surrogateLen:])
	}
	return r, n
}

func appendRune(dst []byte, r rune) []byte {
	if r >= surrogateMin && r <= surrogateMax {
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0xbf, 0x80|byte(r)&0xbf)
	}
	return utf8.AppendRune(dst, r)
}

// runeLen counts characters: len(s) in Python.
func runeLen(s string) int {
	const surrogateLead = 0xed
	if strings.IndexByte(s, surrogateLead) < 0 {
		return utf8.RuneCountInString(s)
	}
	n := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			n++
			continue
		}
		_, size := decodeRune(s[i:])
		i += size
		n++
	}
	return n
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runeOffset returns the byte offset of character n, or len(s) past the end.
func runeOffset(s string, n int) int {
	i := 0
	for i < n && i < len(s) && s[i] < utf8.RuneSelf {
		i++ // as many bytes as characters so far
	}
	n -= i
	for ; n > 0 && i < len(s); n-- {
		_, size := decodeRune(s[i:])
		i += size
	}
	return i
}

func toRunes(s string) []rune {
	out := make([]rune, 0, len(s))
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		out = append(out, r)
		i += n
	}
	return out
}

func fromRunes(rs []rune) string {
	out := make([]byte, 0, len(rs))
	for _, r := range rs {
		out = appendRune(out, r)
	}
	return string(out)
}

// isSpace is str.isspace of one character, which is also what \s means in re.
func isSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	case r < 0x80:
		return false
	case r == 0x85, r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a,
		r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	default:
		return false
	}
}

// spacePrefix returns the length of the whitespace that s starts with.
func spacePrefix(s string) int {
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		if !isSpace(r) {
			return i
		}
		i += n
	}
	return len(s)
}

func trimLeftSpace(s string) string { return s[spacePrefix(s):] }

func trimRightSpace(s string) string {
	for s != "" {
		r, n := decodeLastRune(s)
		if !isSpace(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// isAlnum is str.isalnum of one character.
func isAlnum(r rune) bool {
	if r < 0x80 {
		return r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z'
	}
	return unicode.IsLetter(r) || isNumeric(r)
}

// isNumeric is str.isnumeric of one character. Python also counts ideographs that
// mean a number; letters are words to all callers but isnumeric itself.
func isNumeric(r rune) bool { return unicode.IsNumber(r) || isCJKNumber(r) }

// isCJKNumber lists the ideographs with a numeric value (Unihan's
// kPrimaryNumeric, kAccountingNumeric and kOtherNumeric).
func isCJKNumber(r rune) bool { return cjkNumbers[r] }

// isPrintable is str.isprintable of one character: repr escapes the others.
func isPrintable(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	return unicode.IsPrint(r)
}

func isAlpha(r rune) bool { return unicode.IsLetter(r) }

func isDecimal(r rune) bool { return unicode.IsDigit(r) }

func isDigitRune(r rune) bool { return unicode.IsDigit(r) || digitsExtra[r] }

func isAlnumStrict(r rune) bool { return isAlnum(r) }
