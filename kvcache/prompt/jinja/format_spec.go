package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// spec is a format specification, as both "%5.2f" and "{:5.2f}" come down to.
type spec struct {
	fill      string
	align     byte // '<' '>' '^' '=' or 0: the type's own
	sign      byte // '+' ' ' or '-'
	alt, zero bool
	width     int
	group     byte // ',' '_' or 0
	precision int  // -1: none
	letter    byte // 0: none
}

// maxWidth bounds widths and precisions.
const maxWidth = 1 << 20

// parseSpec parses the specification of str.format.
func parseSpec(s string) (spec, error) {
	p := spec{fill: " ", sign: '-', precision: -1}
	bad := raise(valueError, "invalid format specifier")
	if s == "" {
		return p, nil
	}
	_, n := decodeRune(s)
	switch {
	case len(s) > n && strings.IndexByte("<>=^", s[n]) >= 0:
		p.fill, p.align = s[:n], s[n]
		s = s[n+1:]
	case strings.IndexByte("<>=^", s[0]) >= 0:
		p.align = s[0]
		s = s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		p.sign = s[0]
		s = s[1:]
	}
	if strings.HasPrefix(s, "z") {
		return p, unsupported("format option z")
	}
	if strings.HasPrefix(s, "#") {
		p.alt = true
		s = s[1:]
	}
	if strings.HasPrefix(s, "0") {
		p.zero = true
		if p.align == 0 {
			p.align = '='
			p.fill = "0"
		} else if p.fill == " " {
			p.fill = "0"
		}
		s = s[1:]
	}
	var err error
	if p.width, s, err = leadingNumber(s, 0); err != nil {
		return p, err
	}
	if s != "" && (s[0] == ',' || s[0] == '_') {
		p.group = s[0]
		s = s[1:]
		if s != "" && (s[0] == ',' || s[0] == '_') {
			return p, bad
		}
	}
	if strings.HasPrefix(s, ".") {
		if len(s) < 2 || !isDigit(s[1]) {
			return p, raise(valueError, "format specifier missing precision")
		}
		if p.precision, s, err = leadingNumber(s[1:], -1); err != nil {
			return p, err
		}
	}
	if len(s) > 1 {
		return p, bad
	}
	if s != "" {
		p.letter = s[0]
	}
	return p, nil
}

// leadingNumber reads digits at the start of s.
func leadingNumber(s string, fallback int) (int, string, error) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == 0 {
		return fallback, s, nil
	}
	n, err := strconv.Atoi(s[:i])
	if err != nil || n > maxWidth {
		return 0, s, limit("format width beyond %d", maxWidth)
	}
	return n, s[i:], nil
}

// text formats a string.
func (p spec) text(s string) (string, error) {
	if p.letter != 0 && p.letter != 's' {
		return "", raise(valueError, "unknown format code for str")
	}
	if p.sign != '-' || p.alt || p.group != 0 || p.align == '=' && !p.zero {
		return "", raise(valueError, "format option not allowed for str")
	}
	if p.precision >= 0 {
		s = s[:runeOffset(s, p.precision)]
	}
	if p.align == 0 || p.align == '=' {
		p.align = '<'
	}
	return p.pad("", s), nil
}

// pad fills body to the width; with '=' the fill goes behind the sign.
func (p spec) pad(sign, body string) string {
	gap := p.width - runeLen(sign) - runeLen(body)
	if gap <= 0 {
		return sign + body
	}
	fill := func(n int) string { return strings.Repeat(p.fill, n) }
	switch p.align {
	case '<':
		return sign + body + fill(gap)
	case '^':
		return fill(gap/2) + sign + body + fill(gap-gap/2)
	case '=':
		return sign + fill(gap) + body
	default:
		return fill(gap) + sign + body
	}
}

func (p spec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case p.sign == '-':
		return ""
	default:
		return string(p.sign)
	}
}

// grouped puts separators into the digits before a fraction or exponent, and pads
// with zeros that are grouped, too, if zero padding is wanted.
func (p spec) grouped(sign, digits, rest string, every int) (string, string) {
	if p.group == 0 {
		return digits, rest
	}
	if p.align == '=' && p.fill == "0" {
		room := p.width - len(sign) - len(rest)
		for len(digits)+(len(digits)-1)/every < room {
			digits = "0" + digits
		}
		if len(digits)+(len(digits)-1)/every > room && len(digits) > 1 && (len(digits)-1)%every == 0 && digits[0] == '0' {
			digits = digits[1:]
			// A separator would come first: Python puts a zero before it.
			digits = "0" + digits
		}
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%every == 0 {
			b.WriteByte(p.group)
		}
		b.WriteByte(digits[i])
	}
	return b.String(), rest
}

// integer formats an int.
func (p spec) integer(b *big.Int) (string, error) {
	base, prefix, every := 10, "", 3
	switch p.letter {
	case 0, 'd', 'n':
		if digitCount(b) > maxIntDigits {
			return "", raise(valueError, "exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
		}
		if p.letter == 'n' && p.group != 0 {
			return "", raise(valueError, "cannot specify a separator with 'n'")
		}
	case 'x', 'X':
		base, prefix, every = 16, "0x", 4
	case 'o':
		base, prefix, every = 8, "0o", 4
	case 'b':
		base, prefix, every = 2, "0b", 4
	case 'c':
		return p.character(b)
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		f, err := bigToFloat(b)
		if err != nil {
			return "", err
		}
		return p.float(f)
	default:
		return "", raise(valueError, "unknown format code for int")
	}
	if p.precision >= 0 {
		return "", raise(valueError, "precision not allowed in integer format specifier")
	}
	if p.group == ',' && base != 10 {
		return "", raise(valueError, "cannot specify ',' with this format code")
	}
	sign := p.signOf(b.Sign() < 0)
	digits := new(big.Int).Abs(b).Text(base)
	if p.alt {
		sign += prefix
	}
	digits, _ = p.grouped(sign, digits, "", every)
	if p.letter == 'X' {
		digits, sign = strings.ToUpper(digits), strings.ToUpper(sign)
	}
	return p.pad(sign, digits), nil
}

func (p spec) character(b *big.Int) (string, error) {
	if p.sign != '-' || p.precision >= 0 || p.group != 0 || p.alt {
		return "", raise(valueError, "format option not allowed with 'c'")
	}
	if !b.IsInt64() || b.Int64() < 0 || b.Int64() > 0x10ffff {
		return "", raise(overflowError, "%%c arg not in range(0x110000)")
	}
	if p.align == 0 {
		p.align = '>'
	}
	return p.pad("", string(appendRune(nil, rune(b.Int64())))), nil
}

// float formats a float.
func (p spec) float(f float64) (string, error) {
	if strings.IndexByte("eEfFgG%n\x00", p.letter) < 0 {
		return "", raise(valueError, "unknown format code for float")
	}
	if p.letter == 'n' && p.group != 0 {
		return "", raise(valueError, "cannot specify a separator with 'n'")
	}
	sign := p.signOf(math.Signbit(f) && !math.IsNaN(f))
	body := p.magnitude(math.Abs(f))
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return p.pad(sign, body), nil
	}
	end := strings.IndexAny(body, ".e%E")
	if end < 0 {
		end = len(body)
	}
	digits, rest := p.grouped(sign, body[:end], body[end:], 3)
	return p.pad(sign, digits+rest), nil
}

// magnitude formats f >= 0 without its sign.
func (p spec) magnitude(f float64) string {
	upperCase := p.letter == 'E' || p.letter == 'F' || p.letter == 'G'
	var s string
	switch {
	case math.IsInf(f, 0):
		s = "inf"
	case math.IsNaN(f):
		s = "nan"
	default:
		s = p.finite(f)
	}
	if p.letter == '%' && (math.IsInf(f, 0) || math.IsNaN(f)) {
		s += "%"
	}
	if upperCase {
		return strings.ToUpper(s)
	}
	return s
}

func (p spec) finite(f float64) string {
	const usual = 6
	precision := p.precision
	if precision < 0 {
		precision = usual
	}
	switch p.letter {
	case 'e', 'E':
		s := fixExponent(strconv.FormatFloat(f, 'e', precision, 64))
		if p.alt && precision == 0 {
			s = strings.Replace(s, "e", ".e", 1)
		}
		return s
	case 'f', 'F':
		s := strconv.FormatFloat(f, 'f', precision, 64)
		if p.alt && precision == 0 {
			s += "."
		}
		return s
	case '%':
		if math.IsInf(f*100, 0) {
			return "inf%"
		}
		s := strconv.FormatFloat(f*100, 'f', precision, 64)
		if p.alt && precision == 0 {
			s += "."
		}
		return s + "%"
	case 'g', 'G', 'n':
		return general(f, max(precision, 1), p.alt, false)
	default:
		if p.precision < 0 {
			return floatRepr(f)
		}
		return general(f, max(precision, 1), p.alt, true)
	}
}

// general is format "g": fixed or exponential, whichever suits. With keepPoint (no
// letter given) at least one digit stands behind the point.
func general(f float64, precision int, alt, keepPoint bool) string {
	s := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	e, err := strconv.Atoi(exp)
	if err != nil {
		return s
	}
	limit := precision
	if keepPoint {
		limit-- // so that the point fits
	}
	if e < minFixedExp || e >= max(limit, 0) && !(keepPoint && e < precision-1) && e >= limit {
		if !alt {
			mantissa = trimFraction(mantissa)
		} else if !strings.Contains(mantissa, ".") {
			mantissa += "."
		}
		return fixExponent(mantissa + "e" + exp)
	}
	s = strconv.FormatFloat(f, 'f', precision-1-e, 64)
	if !alt {
		s = trimFraction(s)
	} else if !strings.Contains(s, ".") {
		s += "."
	}
	if keepPoint && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func trimFraction(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// fixExponent gives an exponent at least two digits, as C does.
func fixExponent(s string) string {
	mantissa, exp, ok := strings.Cut(s, "e")
	if !ok {
		return s
	}
	if len(exp) == 2 {
		exp = exp[:1] + "0" + exp[1:]
	}
	return mantissa + "e" + exp
}

func formatFixed(f float64, precision int) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return floatRepr(f)
	}
	return strconv.FormatFloat(f, 'f', precision, 64)
}
