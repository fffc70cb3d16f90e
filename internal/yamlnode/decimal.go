package yamlnode

import (
	"strconv"
	"strings"
)

// Decimal reads a number that is not negative, in units of the last of so many digits
// after the point, exactly: with 2 digits 1.5 is 150. Underscores group digits.
func Decimal(text string, digits int) (units int64, ok bool) {
	number, fraction, point := strings.Cut(strings.ReplaceAll(text, "_", ""), ".")
	if point && (digits == 0 || fraction == "") || len(fraction) > digits || number == "" || strings.HasPrefix(number, "+") {
		return 0, false
	}
	units, err := strconv.ParseInt(number+fraction+strings.Repeat("0", digits-len(fraction)), 10, 64)
	if err != nil || strings.HasPrefix(number, "-") || strings.ContainsAny(fraction, "+-") {
		return 0, false
	}
	return units, true
}
