package classify

const (
	// mostDigits and mostGroups bound what is read of a number at once.
	mostDigits = 20
	mostGroups = 20
)

// number is a run of groups of digits with a single separator between each two,
// as far as it was read.
type number struct {
	digits [mostDigits]byte // their values
	n      int
	groups int
	size   [mostGroups]int  // digits in each group
	end    [mostGroups]int  // where each group ends
	sep    [mostGroups]byte // what stands before each group but the first
	more   bool             // the run goes on
	start  int
}

// read reads the run that begins at the digit i.
func (s *scan) read(n *number, i int) {
	n.start, n.n, n.groups, n.more = i, 0, 0, false
	for {
		from := i
		for i < len(s.text) && s.is(i, isDigit) && i-from <= mostDigits {
			i++
		}
		size := i - from
		switch {
		case s.is(i, isLetter|isUnder) && n.groups > 0 && !s.extension(i): // glued to a word: no group of this number
			return
		case n.n+size > mostDigits || n.groups == mostGroups:
			n.more = true
			return
		default:
		}
		for k := range size {
			n.digits[n.n+k] = s.text[from+k] - '0'
		}
		n.n += size
		n.size[n.groups], n.end[n.groups] = size, i
		n.groups++
		c := s.at(i)
		if c != ' ' && c != '-' && c != '.' && c != '/' {
			return
		}
		i++
		if c == ' ' && s.at(i) == ' ' { // typed twice, or where two parts of a message met
			i++
		}
		if !s.is(i, isDigit) {
			return
		}
		if n.groups < mostGroups {
			n.sep[n.groups] = c
		}
	}
}

// shaped reports whether the first groups have the sizes.
func (n *number) shaped(sizes ...int) bool {
	if n.groups < len(sizes) {
		return false
	}
	for k, size := range sizes {
		if n.size[k] != size {
			return false
		}
	}
	return true
}

// spaced reports whether the first groups are parted by spaces or dashes, or all by
// dots.
func (n *number) spaced(groups int) bool {
	for k := 1; k < groups; k++ {
		if c := n.sep[k]; c != ' ' && c != '-' {
			return n.parted('.', groups)
		}
	}
	return true
}

// parted reports whether the first groups are parted by sep.
func (n *number) parted(sep byte, groups int) bool {
	for k := 1; k < groups; k++ {
		if n.sep[k] != sep {
			return false
		}
	}
	return true
}

// alone reports whether the first groups stand by themselves: they are neither the
// end of a longer number or code nor the beginning of one.
func (s *scan) alone(n *number, groups int) bool {
	i, j := n.start, n.end[groups-1]
	if i < s.code || !s.free(i, j) {
		return false
	}
	if n.sep[1] != ' ' { // "123-45-6789 and", "123-45-6789 2024": spaces end it
		return true
	}
	before := s.at(i-1) == ' ' && s.is(i-2, isDigit) && s.grouped(i-2)
	after := s.at(j) == ' ' && s.is(j+1, isDigit) && s.groupAfter(j+1)
	return !before && !after
}

// free reports whether text[i:j] is not glued to what stands beside it.
func (s *scan) free(i, j int) bool {
	switch s.at(i - 1) {
	case '-', '/', '_', '+', '#', '@', '~':
		if c := s.at(i - 2); s.is(i-2, isWord) || c == '.' || c == '/' || c == '$' {
			return false
		}
	case '.':
		if s.is(i-2, isDigit) {
			return false
		}
	case ',': // the thousands of an amount
		if s.is(i-2, isDigit) && s.is(i+1, isDigit) && s.is(i+2, isDigit) && !s.is(i+3, isDigit) {
			return false
		}
	default:
	}
	switch s.at(j) {
	case '-', '/', '@', '+', '=':
		return !s.is(j+1, isWord)
	case '.', ':':
		return !s.is(j+1, isDigit)
	default:
		return true
	}
}

// The digits of a group that would belong to a longer number. Ones before and after
// it, such as a house number or a date, are shorter or longer.
const leastGroup, mostGroup = 3, 6

// grouped reports whether the digits that end at i are a group of a longer number.
func (s *scan) grouped(i int) bool {
	from := i
	for from >= 0 && i-from <= mostGroup && s.is(from, isDigit) {
		from--
	}
	s.steps += i - from
	size := i - from
	return size >= leastGroup && size <= mostGroup && !s.is(from, isLetter|isUnder)
}

func (s *scan) groupAfter(i int) bool {
	to := i
	for to-i <= mostGroup && s.is(to, isDigit) {
		to++
	}
	s.steps += to - i
	if c := s.at(to); (c == '-' || c == '/' || c == ':' || c == '.') && s.is(to+1, isDigit) { // a date, a time, a fraction
		return false
	}
	size := to - i
	return size >= leastGroup && size <= mostGroup && !s.is(to, isLetter|isUnder)
}

// number looks at the digits text[i:j] and those that belong to them, and returns
// where to go on, 0 if nothing was found.
func (s *scan) number(i, j int) int {
	const pair = 2 // digits of a group that no number but a telephone's begins with
	c := s.at(j)
	bracketed := c == ')' || s.at(j+1) == '(' // as telephone numbers are, which say more than was read
	goesOn := bracketed || (c == ' ' || c == '-' || c == '.' || c == '/') && (s.is(j+1, isDigit) || s.at(j+1) == ' ')
	switch before := s.at(i - 1); {
	case j-i > mostDigits:
		return 0
	case !goesOn && j-i < shortestPhone: // most numbers
		return 0
	case j-i <= pair && (before == ' ' || before == '-' || before == '.' || before == '/') && s.is(i-2, isDigit): // not the first group
		return 0
	default:
	}
	n := &s.num
	s.read(n, i)
	s.steps += n.end[n.groups-1] - i
	end := 0
	switch {
	case n.n < shortestPhone && !bracketed:
		return 0
	case n.groups == n.n && !n.more:
		end = s.singles(n)
	case n.n >= shortestID:
		end = s.identity(n)
	default:
	}
	if end > 0 {
		return end
	}
	return s.local(n)
}

// shortestID is the digits of the shortest of the numbers that are looked for,
// telephones aside.
const shortestID = 9

// identity looks for all numbers but telephones, by the size of the first group.
func (s *scan) identity(n *number) int {
	end := 0
	switch n.size[0] {
	case 3:
		if end = s.ssn(n); end == 0 {
			if end = s.cpf(n); end == 0 {
				end = s.nhs(n)
			}
		}
	case 4:
		if end = s.groupedCard(n); end == 0 {
			end = s.aadhaar(n)
		}
	case 9:
		if end = s.ssn(n); end == 0 {
			end = s.cpf(n)
		}
	case 10:
		end = s.nhs(n)
	case 11:
		end = s.cpf(n)
	case 12:
		if end = s.aadhaar(n); end == 0 {
			end = s.oneCard(n)
		}
	case 18:
		if end = s.resident(n); end == 0 {
			end = s.oneCard(n)
		}
	case 13, 14, 15, 16, 17, 19:
		end = s.oneCard(n)
	default:
	}
	if end == 0 && n.groups > 1 {
		end = s.oddCard(n)
	}
	return end
}

// groupedCard finds payment cards as they are printed.
func (s *scan) groupedCard(n *number) int {
	const fewest = 14
	if n.n < fewest {
		return 0
	}
	var groups int
	switch {
	case n.shaped(4, 6, 5), n.shaped(4, 6, 4):
		groups = 3
	case n.shaped(4, 4, 4, 4):
		groups = 4
	default:
		return 0
	}
	if !n.spaced(groups) {
		return 0
	}
	end := s.printed(n, groups)
	if end == 0 && groups == 4 && n.groups > groups && n.size[groups] < 4 && n.sep[groups] == n.sep[1] {
		end = s.printed(n, groups+1) // a card of 17 to 19 digits
	}
	return end
}

// printed judges a card that is the first groups.
func (s *scan) printed(n *number, groups int) int {
	digits := 0
	for _, size := range n.size[:groups] {
		digits += size
	}
	end := n.end[groups-1]
	if ok, _ := issued(n.digits[:digits]); !ok || !luhn(n.digits[:digits]) {
		return 0
	}
	if s.gridless(n.start, end, n.sep[1]) || s.expires(end) || s.about(aboutCard, n.start, end) {
		return s.hit(card, n.start, end)
	}
	return 0
}

// oneCard judges digits without separators.
func (s *scan) oneCard(n *number) int {
	digits, end := n.digits[:n.size[0]], n.end[0]
	ok, sure := issued(digits)
	if !ok || !luhn(digits) || !s.free(n.start, end) && !(s.expires(end) && s.free(n.start, len(s.text))) {
		return 0
	}
	if sure && !s.numbered(n.start) || s.about(aboutCard, n.start, end) {
		return s.hit(card, n.start, end)
	}
	return 0
}

// oddCard judges a number of the length of a card whose groups are none of those
// on a card: where two parts of a message met, or where a word says that it is one.
// It must be all there is.
func (s *scan) oddCard(n *number) int {
	const fewest, mostOdd, smallest = 13, 5, 2 // digits, groups, digits in a group
	if n.groups < 2 || n.groups > mostOdd || n.n < fewest || n.n > longestCard || !n.spaced(n.groups) {
		return 0
	}
	for k := range n.groups {
		if n.size[k] < smallest {
			return 0
		}
	}
	end := n.end[n.groups-1]
	if ok, sure := issued(n.digits[:n.n]); !ok || !sure || !luhn(n.digits[:n.n]) || n.more || !s.alone(n, n.groups) || s.numbered(n.start) {
		return 0
	}
	if !s.seam && !s.about(aboutCard, n.start, end) {
		return 0
	}
	return s.hit(card, n.start, end)
}

// singles judges a card whose digits stand one by one.
func (s *scan) singles(n *number) int {
	const fewest, most = 15, 16
	if n.n < fewest || n.n > most || !n.parted(n.sep[1], n.groups) {
		return 0
	}
	if ok, sure := issued(n.digits[:n.n]); ok && sure && luhn(n.digits[:n.n]) {
		return s.hit(card, n.start, n.end[n.groups-1])
	}
	return 0
}

// gridless reports whether text[i:j], groups with a separator, is not a piece of a
// longer row of such groups, such as a table or a parcel's number, or of a code.
func (s *scan) gridless(i, j int, sep byte) bool {
	if i < s.code {
		return false
	}
	if s.at(i-1) == sep && s.is(i-2, isWord) {
		if sep != ' ' {
			return false
		}
		from := i - 2
		for from >= 0 && i-from <= mostGroup+1 && s.is(from, isWord) {
			from--
		}
		s.steps += i - from
		size := i - 2 - from
		if size == 4 && s.is(i-2, isDigit) { // of a table
			return false
		}
	}
	if s.at(j) != sep || !s.is(j+1, isWord) {
		return true
	}
	return sep == ' ' && (!s.is(j+1, isDigit) || !s.is(j+4, isDigit) || !s.groupAfter(j+1))
}

// resident finds the resident identity numbers of China whose check character is a digit.
func (s *scan) resident(n *number) int {
	const size = 18
	if n.size[0] != size || !s.free(n.start, n.end[0]) || !residentID(n.digits[:size-1], int(n.digits[size-1])) {
		return 0
	}
	return s.hit(cnID, n.start, n.end[0])
}

// cnID finds those whose check character is an X, which is worth 10.
func (s *scan) cnID(i, j int) int {
	const size = 18
	if j-i != size || s.text[j-1]|0x20 != 'x' {
		return 0
	}
	var digits [size - 1]byte
	for k := range digits {
		c := s.text[i+k]
		if c < '0' || c > '9' {
			return 0
		}
		digits[k] = c - '0'
	}
	s.steps += size
	if !residentID(digits[:], 10) || !s.free(i, j) {
		return 0
	}
	return s.hit(cnID, i, j)
}

// ssn finds US social security numbers.
func (s *scan) ssn(n *number) int {
	const size = 9
	switch {
	case n.size[0] == size:
		if ssnValid(n.digits[:size]) && s.free(n.start, n.end[0]) && s.socially(n.start, n.end[0]) {
			return s.hit(ssn, n.start, n.end[0])
		}
	case n.shaped(3, 2, 4) && n.parted(n.sep[1], 3) && s.alone(n, 3) && ssnValid(n.digits[:size]) && !s.priced(n.start):
		if n.sep[1] == '-' && !s.numbered(n.start) || s.socially(n.start, n.end[2]) {
			return s.hit(ssn, n.start, n.end[2])
		}
	default:
	}
	return 0
}

// cpf finds the numbers of Brazilian taxpayers.
func (s *scan) cpf(n *number) int {
	const size = 11
	switch {
	case n.size[0] == size:
		if cpfValid(n.digits[:size]) && s.free(n.start, n.end[0]) && !s.numbered(n.start) && !s.priced(n.start) &&
			s.phoned(n.start, true) < 0 {
			return s.hit(cpf, n.start, n.end[0])
		}
	case n.shaped(9, 2) && n.sep[1] == '-':
		if cpfValid(n.digits[:size]) && s.alone(n, 2) && !s.numbered(n.start) {
			return s.hit(cpf, n.start, n.end[1])
		}
	case n.shaped(3, 3, 3, 2) && (n.sep[1] == '.' || n.sep[1] == ' ') && n.sep[2] == n.sep[1]:
		if last := n.sep[3]; (last == '-' || last == '/' || last == n.sep[1]) && cpfValid(n.digits[:size]) && s.alone(n, 4) {
			return s.hit(cpf, n.start, n.end[3])
		}
	default:
	}
	return 0
}

// nhs finds NHS numbers.
func (s *scan) nhs(n *number) int { return s.weak(n, nhs, aboutNHS, nhsValid, 3, 3, 4) }

// aadhaar finds Aadhaar numbers.
func (s *scan) aadhaar(n *number) int { return s.weak(n, aadhaar, aboutUID, aadhaarValid, 4, 4, 4) }

// weak finds numbers of three groups whose check a tenth of all numbers pass: written
// in groups with spaces they are taken for what they look like, else a word must say so.
func (s *scan) weak(n *number, as kind, word topic, valid func(digits []byte) bool, groups ...int) int {
	size := groups[0] + groups[1] + groups[2]
	end := n.end[0]
	loose := false
	switch {
	case n.size[0] == size:
		if !s.free(n.start, end) {
			return 0
		}
	case n.shaped(groups...) && n.parted(n.sep[1], len(groups)) && n.sep[1] != '/' && s.alone(n, len(groups)):
		end = n.end[2]
		loose = n.sep[1] == ' ' && !s.numbered(n.start) && !s.priced(n.start)
	default:
		return 0
	}
	if valid(n.digits[:size]) && s.phoned(n.start, true) < 0 && (loose || s.about(word, n.start, end)) {
		return s.hit(as, n.start, end)
	}
	return 0
}
