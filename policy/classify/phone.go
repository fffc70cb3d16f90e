package classify

import "strings"

// The digits of a telephone number: of a short local one, and of the longest that
// ITU-T E.164 allows, country code included.
const shortestPhone, longestPhone = 7, 15

// dialled is a telephone number as it is read: digits with what people write
// between them.
type dialled struct {
	digits [longestPhone]byte // their values
	n      int
	groups int
	size   [longestPhone]int // digits of each group
	end    [longestPhone]int // where each group ends
	seps   [longestPhone]byte
}

// readDialled reads from the digit or bracket at i. False: it does not end like a number.
func (s *scan) readDialled(d *dialled, i int) bool {
	const mostBetween = 3 // such as ") - "
	d.n, d.groups = 0, 0
	s.steps += longestPhone
	for {
		between := 0
		for ; ; i++ {
			c := s.at(i)
			if c != ' ' && c != '-' && c != '.' && c != '/' && c != '(' && c != ')' {
				break
			}
			if between++; between > mostBetween || c == '(' && s.at(i+1) == ')' {
				return d.groups > 0
			}
			d.seps[min(d.groups, longestPhone-1)] = c
		}
		from := i
		for s.is(i, isDigit) && i-from <= longestPhone {
			i++
		}
		size := i - from
		if size == 0 || s.is(i, isLetter|isUnder) && !s.extension(i) || d.n+size > longestPhone {
			// What comes is not part of the number. Without something in between it is.
			return d.groups > 0 && between > 0 || size == 0 && d.groups > 0
		}
		for k := range size {
			d.digits[d.n+k] = s.text[from+k] - '0'
		}
		d.n += size
		d.size[d.groups], d.end[d.groups] = size, i
		d.groups++
	}
}

// extension reports whether at i an extension of a telephone number begins: x123.
func (s *scan) extension(i int) bool { return s.at(i)|0x20 == 'x' && s.is(i+1, isDigit) }

// international finds a number with its country code at the + at i.
func (s *scan) international(i int) int {
	if s.wordBefore(i) || s.at(i-1) == '+' || !s.is(i+1, isDigit) && s.at(i+1) != '(' {
		return 0
	}
	d := &s.dial
	if !s.readDialled(d, i+1) {
		return 0
	}
	n := d.n
	for g := d.groups - 1; g >= 0; g-- {
		if countryNumber(d.digits[:n], g > 0) && s.at(d.end[g]) != '@' {
			return s.hit(phone, i, d.end[g])
		}
		n -= d.size[g]
	}
	return 0
}

// countryNumber reports whether digits begin with a country code and are as many as
// that country's numbers have.
func countryNumber(digits []byte, grouped bool) bool {
	n := len(digits)
	if n < shortestPhone+1 || n > longestPhone {
		return false
	}
	within := func(least, most int) bool { return n >= least && n <= most }
	switch digits[0] {
	case 1:
		return n == 11 && digits[1] >= 2
	case 7:
		return n == 11
	default:
		switch two := digits[0]*10 + digits[1]; two {
		case 33, 34, 48, 61, 27:
			return n == 11
		case 91, 90, 98, 63:
			return n == 12
		case 44, 55, 52, 54, 86, 81, 82, 20:
			return within(11, 13)
		case 45, 47, 65:
			return n == 10
		case 30, 31, 32, 36, 39, 40, 41, 43, 46, 49, 51, 53, 56, 57, 58, 60, 62, 64, 66, 84, 92, 93, 94, 95:
			return within(9, 14)
		case 21, 22, 23, 24, 25, 26, 29, 35, 37, 38, 42, 50, 59, 67, 68, 69, 80, 85, 87, 88, 96, 97, 99:
			if !threeDigitCode(int(two), digits[2]) {
				return false
			}
			if grouped {
				return within(9, 15)
			}
			return within(10, 13)
		default:
			return false
		}
	}
}

// threeDigitCode reports whether a country code of three digits is in use.
func threeDigitCode(two int, third byte) bool {
	used := [100]string{
		21: "12368", 22: "0123456789", 23: "0123456789", 24: "0123456789", 25: "012345678", 26: "0123456789", 29: "01789",
		35: "0123456789", 37: "012345678", 38: "0123567", 42: "013", 50: "0123456789", 59: "0123456789", 67: "023456789",
		68: "0123456789", 69: "012", 80: "08", 85: "02356", 87: "0138", 88: "01236", 96: "012345678", 97: "01234567", 99: "2345678",
	}[two]
	return strings.IndexByte(used, '0'+third) >= 0
}

// bracketed finds a North American number whose area code is in brackets, at i.
func (s *scan) bracketed(i int) int {
	const area, exchange, line = 3, 3, 4
	if s.wordBefore(i) || s.at(i+1+area) != ')' {
		return 0
	}
	j := i + 1 + area + 1
	if c := s.at(j); c == ' ' || c == '-' || c == '.' {
		j++
	}
	s.steps += area + exchange + line
	k := j + exchange
	if c := s.at(k); c != ' ' && c != '-' && c != '.' {
		return 0
	}
	end := k + 1 + line
	for _, run := range [...][2]int{{i + 1, area}, {j, exchange}, {k + 1, line}} {
		for at := run[0]; at < run[0]+run[1]; at++ {
			if !s.is(at, isDigit) {
				return 0
			}
		}
	}
	if s.is(end, isWord) && !s.extension(end) || s.at(i+1) < '2' || s.at(j) < '2' {
		return 0
	}
	return s.hit(phone, i, end)
}

// local finds numbers that a word says to be a telephone's, and those of the form
// of North America: 415-555-0123.
func (s *scan) local(n *number) int {
	if end := s.american(n); end > 0 {
		return end
	}
	start := n.start
	if s.at(start-1) == '(' {
		start--
	}
	if c := s.at(start - 1); c == '-' || c == '.' || c == '/' || c == '#' {
		return 0
	}
	d := &s.dial
	if s.phoned(start, true) < 0 || !s.readDialled(d, n.start) || !d.plausible() {
		return 0
	}
	formatted := (d.groups > 1 && d.seps[1] != '/' || d.digits[0] == 0) && d.n > shortestPhone
	if at := s.phoned(start, formatted); at < 0 || s.priced(start) || s.numberedAfter(start, at) {
		return 0
	}
	total := 0
	for g := range d.groups {
		total += d.size[g]
		if total >= shortestPhone && (g == d.groups-1 || d.seps[g+1] != d.seps[g]) {
			return s.hit(phone, start, d.end[g])
		}
	}
	return s.hit(phone, start, d.end[d.groups-1])
}

// plausible reports whether digits could be a telephone number, rather than a
// date or an address of a network.
func (d *dialled) plausible() bool {
	if d.n < shortestPhone {
		return false
	}
	first, second, third := d.size[0], d.size[1], d.size[2]
	switch {
	case d.groups == 2 && d.seps[1] == '.': // a number with a fraction
		return first == 3 && second == 4
	case d.groups >= 4 && first == 3 && d.digits[0] == 9 && d.digits[1] == 7 && d.digits[2] >= 8 && d.n == 13: // a book
		return false
	case d.groups == 2 && first == 4 && second == 4 && d.seps[1] == '-': // from one year to another
		return d.digits[0] > 2 || d.digits[4] > 2
	case d.groups >= 3 && second <= 2 && (first == 4 && third <= 2 || first <= 2 && third == 4):
		return d.seps[1] == ' ' && d.seps[2] == ' '
	case d.groups >= 4 && d.seps[1] == '.' && d.seps[2] == '.' && d.seps[3] == '.': // an address of a network
		return d.size[3] == 4
	default:
		return true
	}
}

// american finds numbers of North America that are parted by - or a dot.
func (s *scan) american(n *number) int {
	first := 0
	if n.size[0] == 1 && n.digits[0] == 1 {
		first = 1
	}
	if n.groups < first+3 || n.size[first] != 3 || n.size[first+1] != 3 || n.size[first+2] != 4 || !n.parted(n.sep[1], first+3) {
		return 0
	}
	area, exchange := n.digits[first], n.digits[first+3]
	if n.sep[1] != '-' && n.sep[1] != '.' || area < 2 || exchange < 2 || !s.alone(n, first+3) || s.numbered(n.start) || s.priced(n.start) {
		return 0
	}
	return s.hit(phone, n.start, n.end[first+2])
}
