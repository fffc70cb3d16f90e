package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func runeSet(s string) map[rune]bool {
	out := map[rune]bool{}
	for _, r := range s {
		out[r] = true
	}
	return out
}

// mapCase maps each character by simple, unless special knows better.
func mapCase(s string, special map[rune]string, simple func(rune) rune) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		i += n
		if r >= utf8.RuneSelf {
			if m, ok := special[r]; ok {
				out = append(out, m...)
				continue
			}
		}
		out = appendRune(out, simple(r))
	}
	return string(out)
}

// upper is str.upper.
func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return mapCase(s, upperSpecial, unicode.ToUpper)
}

const (
	capitalSigma = 'Σ'
	finalSigma   = 'ς'
	dottedI      = 'İ'
	dottedILower = "i\u0307"
)

// lower is str.lower. Only two characters differ from Go: the dotted I, and a
// capital sigma at the end of a word.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return lowerFrom(s, 0)
}

// appendLower appends the lower case of the character r of n bytes at s[i:].
func appendLower(out []byte, s string, i int, r rune, n int) []byte {
	switch {
	case r == dottedI:
		return append(out, dottedILower...)
	case r == capitalSigma && isFinalSigma(s, i, n):
		return appendRune(out, finalSigma)
	default:
		return appendRune(out, unicode.ToLower(r))
	}
}

// isFinalSigma tells whether the sigma of n bytes at i ends a word: a cased
// character is before it and none behind it, apart from those that case ignores.
func isFinalSigma(s string, i, n int) bool {
	before := s[:i]
	for {
		if before == "" {
			return false
		}
		r, size := decodeLastRune(before)
		before = before[:len(before)-size]
		if isCaseIgnorable(r) {
			continue
		}
		if !isCased(r) {
			return false
		}
		break
	}
	for after := s[i+n:]; after != ""; {
		r, size := decodeRune(after)
		after = after[size:]
		if isCaseIgnorable(r) {
			continue
		}
		return !isCased(r)
	}
	return true
}

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func isCaseIgnorable(r rune) bool {
	switch r {
	case '\'', '.', ':', '\u00b7', '\u0387', '\u055f', '\u05f4', '\u2018', '\u2019', '\u2024', '\u2027',
		'\ufe13', '\ufe52', '\ufe55', '\uff07', '\uff0e', '\uff1a':
		return true
	default:
		return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
	}
}

func titleRune(s string) string { return mapCase(s, titleSpecial, unicode.ToTitle) }

// capitalize is str.capitalize.
func capitalize(s string) string {
	_, n := decodeRune(s)
	return titleRune(s[:n]) + lowerFrom(s, n)
}

// lowerFrom is the lower case of s[at:]. What is before at matters to a sigma.
func lowerFrom(s string, at int) string {
	out := make([]byte, 0, len(s)-at)
	for i := at; i < len(s); {
		r, n := decodeRune(s[i:])
		out = appendLower(out, s, i, r, n)
		i += n
	}
	return string(out)
}

// titleCase is str.title: a cased character is lower case behind another one, and
// title case elsewhere.
func titleCase(s string) string {
	out := make([]byte, 0, len(s))
	cased := false
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		if cased {
			out = appendLower(out, s, i, r, n)
		} else {
			out = append(out, titleRune(s[i:i+n])...)
		}
		cased = isCased(r)
		i += n
	}
	return string(out)
}

func swapCase(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		switch {
		case isUpperRune(r):
			out = appendLower(out, s, i, r, n)
		case isLowerRune(r):
			out = append(out, upper(s[i:i+n])...)
		default:
			out = appendRune(out, r)
		}
		i += n
	}
	return string(out)
}

func caseFold(s string) string { return mapCase(s, foldSpecial, unicode.ToLower) }

func isUpperRune(r rune) bool { return unicode.In(r, unicode.Lu, unicode.Other_Uppercase) }
func isLowerRune(r rune) bool { return unicode.In(r, unicode.Ll, unicode.Other_Lowercase) }

// isUpper is str.isupper: at least one cased character, and none in another case.
func isUpper(s string) bool { return allCased(s, isUpperRune, isLowerRune) }

// isLower is str.islower.
func isLower(s string) bool { return allCased(s, isLowerRune, isUpperRune) }

func allCased(s string, is, not func(rune) bool) bool {
	cased := false
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		i += n
		if not(r) || unicode.Is(unicode.Lt, r) {
			return false
		}
		cased = cased || is(r)
	}
	return cased
}

// isTitle is str.istitle.
func isTitle(s string) bool {
	cased, previous := false, false
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		i += n
		switch {
		case isUpperRune(r) || unicode.Is(unicode.Lt, r):
			if previous {
				return false
			}
			previous, cased = true, true
		case isLowerRune(r):
			if !previous {
				return false
			}
			cased = true
		default:
			previous = false
		}
	}
	return cased
}

// every tells whether s is not empty and all its characters are so.
func every(s string, is func(rune) bool) bool {
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		i += n
		if !is(r) {
			return false
		}
	}
	return s != ""
}

// asciiDigits makes decimal digits of any script ASCII, as int() and float() read
// them.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, n := decodeRune(s[i:])
		i += n
		if r >= utf8.RuneSelf && unicode.IsDigit(r) {
			zero := r
			for unicode.IsDigit(zero-1) && r-zero < 9 {
				zero--
			}
			// Digits come in runs of ten; where runs adjoin, count from the block.
			out = append(out, byte('0'+digitValue(r, zero)))
			continue
		}
		out = appendRune(out, r)
	}
	return string(out)
}

// mathDigits begins five adjoining runs of digits.
const mathDigits, mathDigitsEnd = 0x1d7ce, 0x1d7ff

func digitValue(r, zero rune) rune {
	if r >= mathDigits && r <= mathDigitsEnd {
		return (r - mathDigits) % 10
	}
	return r - zero
}
