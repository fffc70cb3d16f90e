package file

import (
	"errors"
	"strconv"
	"strings"
)

var (
	errNumber   = errors.New("is not a decimal number")
	errNegative = errors.New("is negative")
	errTooLarge = errors.New("is too large")
)

// mostDigits fit an int64, whatever they are, also when one is added.
const mostDigits = 18

// decimal returns a number, as JSON or YAML writes it, times ten to the power of scale.
// What is left behind the point is rounded, half up, but what is more than 0 to no less
// than 1; exact reports whether nothing was.
func decimal(text string, scale int) (n int64, exact bool, err error) {
	number, negative := strings.CutPrefix(text, "-")
	if !negative {
		number, _ = strings.CutPrefix(text, "+")
	}
	mantissa, exponent, err := split(number)
	if err != nil {
		return 0, false, err
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, true, nil
	}
	if negative {
		return 0, false, errNegative
	}
	// The point stands before the digit at point, counted in digits.
	point := len(digits) - len(fraction) + exponent + scale
	switch {
	case point > mostDigits:
		return 0, false, errTooLarge
	case point < 0:
		return 1, false, nil // far less than a half
	case len(digits) < point:
		digits += strings.Repeat("0", point-len(digits))
	default:
	}
	rest := strings.TrimRight(digits[point:], "0")
	if point > 0 {
		n, err = strconv.ParseInt(digits[:point], 10, 64)
		if err != nil {
			return 0, false, errNumber
		}
	}
	if rest == "" {
		return n, true, nil
	}
	if rest[0] >= '5' || n == 0 {
		n++
	}
	return n, false, nil
}

// maxExponent bounds what is written behind the e, and the length of a number.
const maxExponent = 1000

// split returns the number without its exponent, and that; only digits and one point are
// in the number.
func split(number string) (mantissa string, exponent int, err error) {
	mantissa, e, has := cutExponent(number)
	if len(mantissa) > maxExponent {
		return "", 0, errNumber
	}
	digits, points := 0, 0
	for i := range len(mantissa) {
		switch c := mantissa[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			points++
		default:
			return "", 0, errNumber
		}
	}
	if digits == 0 || points > 1 {
		return "", 0, errNumber
	}
	if !has {
		return mantissa, 0, nil
	}
	exponent, err = strconv.Atoi(e)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), exponent == 0 && err != nil:
		return "", 0, errNumber
	case exponent > maxExponent:
		return mantissa, maxExponent, nil
	case exponent < -maxExponent:
		return mantissa, -2 * maxExponent, nil // beyond the longest mantissa
	default:
		return mantissa, exponent, nil
	}
}

func cutExponent(number string) (mantissa, exponent string, has bool) {
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		return number[:i], number[i+1:], true
	}
	return number, "", false
}
