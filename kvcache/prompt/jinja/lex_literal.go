package jinja

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// number reads a numeric literal at the start of s.
func (lx *lexer) number(s string) (int, token, bool, error) {
	prev := byte(0)
	if lx.pos > 0 {
		prev = lx.src[lx.pos-1]
	}
	if prev != '.' { // x.1.2 is two subscripts, not a float
		if n := floatLength(s); n > 0 {
			f, err := strconv.ParseFloat(strings.ReplaceAll(s[:n], "_", ""), 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, token{}, false, syntax(lx.line, "invalid number")
			}
			return n, token{kind: tFloat, num: Float(f)}, true, nil
		}
	}
	n := intLength(s)
	if n == 0 {
		return 0, token{}, false, nil
	}
	text := strings.ReplaceAll(s[:n], "_", "")
	base := 10
	if len(text) > 2 && text[0] == '0' {
		switch text[1] {
		case 'b', 'B':
			base, text = 2, text[2:]
		case 'o', 'O':
			base, text = 8, text[2:]
		case 'x', 'X':
			base, text = 16, text[2:]
		}
	}
	if base == 10 && len(text) > maxIntDigits {
		return 0, token{}, false, syntax(lx.line, "integer literal too long")
	}
	v, ok := new(big.Int).SetString(text, base)
	if !ok {
		return 0, token{}, false, syntax(lx.line, "invalid number")
	}
	return n, token{kind: tInt, num: normInt(v)}, true, nil
}

// digits returns the length of the longest (\d+_)*\d+ at the start of s.
func digits(s string) int {
	end := 0
	for i := 0; i < len(s); {
		if !isDigit(s[i]) {
			break
		}
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		end = i
		if i < len(s) && s[i] == '_' {
			i++
		}
	}
	return end
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// floatLength matches digits with a fraction, an exponent, or both.
func floatLength(s string) int {
	n := digits(s)
	if n == 0 {
		return 0
	}
	fraction := 0
	if n < len(s) && s[n] == '.' {
		if f := digits(s[n+1:]); f > 0 {
			fraction = f + 1
		}
	}
	if e := exponentLength(s[n+fraction:]); e > 0 {
		return n + fraction + e
	}
	if fraction > 0 {
		return n + fraction
	}
	return 0
}

func exponentLength(s string) int {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return 0
	}
	i := 1
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	n := digits(s[i:])
	if n == 0 {
		return 0
	}
	return i + n
}

func intLength(s string) int {
	if len(s) >= 3 && s[0] == '0' {
		valid := func(byte) bool { return false }
		switch s[1] {
		case 'b', 'B':
			valid = func(c byte) bool { return c == '0' || c == '1' }
		case 'o', 'O':
			valid = func(c byte) bool { return c >= '0' && c <= '7' }
		case 'x', 'X':
			valid = func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
		}
		if n := separated(s[2:], valid, true); n > 0 {
			return 2 + n
		}
	}
	if s == "" || !isDigit(s[0]) {
		return 0
	}
	if s[0] == '0' {
		return 1 + separated(s[1:], func(c byte) bool { return c == '0' }, true)
	}
	return 1 + separated(s[1:], isDigit, true)
}

// separated returns the length of the longest (_?[valid])* at the start of s.
func separated(s string, valid func(byte) bool, underscores bool) int {
	end := 0
	for i := 0; i < len(s); {
		if underscores && s[i] == '_' {
			i++
		}
		if i >= len(s) || !valid(s[i]) {
			break
		}
		i++
		end = i
	}
	return end
}

// namePrefix returns the length of the run of word characters at the start of s.
func namePrefix(s string) int {
	for i, r := range s {
		if r == '_' || isAlnum(r) || r > 0x7f && unicode.In(r, unicode.Mn, unicode.Mc, unicode.Pc) || r == 0xb7 || r == 0x387 {
			continue
		}
		return i
	}
	return len(s)
}

// isIdentifier is str.isidentifier.
func isIdentifier(s string) bool {
	if s == "" {
		return false
	}
	for i, r := range s {
		start := r == '_' || unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
		if start {
			continue
		}
		if i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue) {
			return false
		}
	}
	return true
}

// stringLength returns the length of the string literal at the start of s, quotes
// included, or 0.
func stringLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

var (
	errEscape      = errors.New("invalid escape in a string")
	errNamedEscape = errors.New(`\N{...} escapes are not supported`)
)

// unescapeString decodes the escapes of a string literal as Python's codec
// "unicode-escape" does.
func unescapeString(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		i++
		if i >= len(s) {
			return "", errEscape
		}
		n, err := unescape(&out, s[i:])
		if err != nil {
			return "", err
		}
		i += n
	}
	return string(out), nil
}

// unescape decodes what follows a backslash and returns its length.
func unescape(out *[]byte, s string) (int, error) {
	switch c := s[0]; c {
	case '\n':
	case '\\', '\'', '"':
		*out = append(*out, c)
	case 'a':
		*out = append(*out, '\a')
	case 'b':
		*out = append(*out, '\b')
	case 'f':
		*out = append(*out, '\f')
	case 'n':
		*out = append(*out, '\n')
	case 'r':
		*out = append(*out, '\r')
	case 't':
		*out = append(*out, '\t')
	case 'v':
		*out = append(*out, '\v')
	case 'x':
		return unescapeHex(out, s, 2)
	case 'u':
		return unescapeHex(out, s, 4)
	case 'U':
		return unescapeHex(out, s, 8)
	case 'N':
		return 0, errNamedEscape
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := 0
		var r rune
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			r = r<<3 | rune(s[n]-'0')
			n++
		}
		*out = appendRune(*out, r)
		return n, nil
	default:
		*out = append(*out, '\\')
		if c < utf8.RuneSelf {
			*out = append(*out, c)
			return 1, nil
		}
		// Python encodes the literal to ASCII with backslash escapes first, so the
		// backslash escapes the escape's own.
		r, n := decodeRune(s)
		switch {
		case r < 0x100:
			*out = append(*out, "x"+hexDigits(r, 2)...)
		case r < 0x10000:
			*out = append(*out, "u"+hexDigits(r, 4)...)
		default:
			*out = append(*out, "U"+hexDigits(r, 8)...)
		}
		return n, nil
	}
	return 1, nil
}

func unescapeHex(out *[]byte, s string, n int) (int, error) {
	if len(s) < 1+n {
		return 0, errEscape
	}
	v, err := strconv.ParseUint(s[1:1+n], 16, 32)
	if err != nil || v > unicode.MaxRune {
		return 0, errEscape
	}
	*out = appendRune(*out, rune(v))
	return 1 + n, nil
}

func hexDigits(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(s))) + s
}
