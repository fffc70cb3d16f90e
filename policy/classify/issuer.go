package classify

// The lengths of payment card numbers.
const shortestCard, longestCard = 12, 19

// issued reports whether digits begin with a range that card networks use for
// numbers of that length. Sure is false where the network is small or the length
// is rare, so that the range says little.
//
// The ranges are those that the networks publish, as of 2025.
func issued(digits []byte) (ok, sure bool) {
	n := len(digits)
	prefix := func(size int) int {
		v := 0
		for _, d := range digits[:size] {
			v = v*10 + int(d)
		}
		return v
	}
	two, three, four := prefix(2), prefix(3), prefix(4)
	usual := n >= 14 && n <= 16
	long := n >= 16 && n <= 19
	switch {
	case digits[0] == 4: // Visa; 13 digits are of the last century, and those of goods
		return n == 16 || n == 19 || n == 13, n == 16 || n == 13 && !article(digits)
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720: // Mastercard
		return n == 16, true
	case two == 34, two == 37: // American Express
		return n == 15, true
	case four == 6011, three >= 644 && three <= 649, two == 65: // Discover, RuPay
		return long, usual
	case two == 62, two == 81: // UnionPay, RuPay
		return long, true
	case two == 36, two == 38, two == 39, three >= 300 && three <= 305: // Diners Club
		return n >= 14 && n <= 19, usual
	case four >= 3528 && four <= 3589: // JCB
		return long, usual
	case two == 35: // RuPay, and JCB as generators of test data write it
		return n == 16, true
	case four == 2131, four == 1800: // JCB of the last century
		return n == 15, true
	case four >= 2200 && four <= 2204: // Mir
		return long, usual
	case four == 5018, four == 5020, four == 5038, four == 5893, four == 6304, four == 6759, four >= 6761 && four <= 6763: // Maestro
		return n >= shortestCard && n <= longestCard, n == 16
	case two == 60, two == 82, three == 508: // RuPay
		return n == 16, n == 16
	case four == 9792, four >= 5061 && four <= 5062: // Troy, Verve
		return n == 16, n == 16
	default:
		return false, false
	}
}
