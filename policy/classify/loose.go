package classify

// joint is what stands between two groups of digits, told by its first character that
// is no space; ' ' if there is none. Two characters of it are those of a percent-encoded
// byte, of an escape that was quoted once more or of an HTML space.
type joint byte

const (
	// noJoint: groups of digits are not parted like that.
	noJoint joint = 0
	// invisible: a control character, of which tabs and line breaks are none.
	invisible joint = 1
)

// mostJoint bounds the characters of a joint, each of which may be written with up to
// six bytes.
const mostJoint = 3

// tabular reports whether a joint parts numbers that stand in tables, lists and sums,
// so that groups that it joins say little.
func (j joint) tabular() bool {
	switch j {
	case '\t', '\n', ',', ';', '|', ':', '+', '*', '=':
		return true
	default:
		return false
	}
}

// jointChar is the character of a joint that is written at i, and where it ends; 0 if
// there is none.
func (s *scan) jointChar(i int) (c byte, end int) {
	c, end = s.at(i), i+1
	switch c {
	case '%': // "%20"
		high, low := hexDigit(s.at(i+1)), hexDigit(s.at(i+2))
		if high < 0 || low < 0 {
			return 0, i
		}
		c, end = byte(high<<4|low), i+len("%20")
	case '\\': // "\t"
		const tab, line = 't', 'n'
		switch s.at(i + 1) {
		case tab:
			return '\t', i + 2
		case line, 'r':
			return '\n', i + 2
		default:
			return 0, i
		}
	case '&':
		for _, space := range [...]string{"&nbsp;", "&#32;", "&#160;"} {
			if end = i + len(space); end <= len(s.text) && string(s.text[i:end]) == space {
				return ' ', end
			}
		}
		return 0, i
	default:
	}
	switch c {
	case ' ', '-', '.', '/', '_', '~', '\t', '\n', ',', ';', '|', ':', '+', '*', '=':
		return c, end
	case '\r':
		return '\n', end
	default:
		if c < ' ' && i < len(s.text) {
			return byte(invisible), end
		}
		return 0, i
	}
}

// between reads the joint at i, and returns where it ends.
func (s *scan) between(i int) (j joint, end int) {
	for range mostJoint {
		c, end := s.jointChar(i)
		if c == 0 {
			break
		}
		if j == noJoint || j == ' ' {
			j = joint(c)
		}
		i = end
	}
	return j, i
}

// joined is between where digits follow, else noJoint.
func (s *scan) joined(i int) (j joint, digits int) {
	if j, digits = s.between(i); s.is(digits, isDigit) {
		return j, digits
	}
	return noJoint, digits
}

// loosely looks at digits from i on that are parted by something else than what number
// reads, and returns where to go on, 0 if nothing was found.
//
// Tables and lists are full of such groups. So they must be the groups that a kind is
// written in, all joined alike, with nothing joined to them; and where tables have such
// joints, or no check digit speaks for a kind, a word must say what it is.
func (s *scan) loosely(i int) int {
	n := &s.num
	n.start, n.n, n.groups, n.more = i, 0, 0, false
	var by joint
	like, odd := true, false // all joints are the same; one is not as number reads them
	for at := i; ; {
		from := at
		for at-from <= mostDigits && s.is(at, isDigit) {
			at++
		}
		size := at - from
		s.steps += size
		if n.n+size > mostDigits || n.groups == mostGroups {
			return 0
		}
		for k := range size {
			n.digits[n.n+k] = s.text[from+k] - '0'
		}
		n.n += size
		n.size[n.groups], n.end[n.groups] = size, at
		n.groups++
		j, next := s.joined(at)
		if n.groups == 2 && !s.promising(n, by) {
			return 0
		}
		if j == noJoint || n.groups > 1 && j != by && n.printedCard() { // "4111/1111/1111/1111, 5 times"
			break
		}
		s.steps += next - at
		odd = odd || next-at > 1 || j != ' ' && j != '-' && j != '.'
		like = like && (n.groups == 1 || j == by)
		by, at = j, next
	}
	if !odd && !n.unread() || n.groups < 2 || s.numbered(n.start) {
		return 0
	}
	return s.judge(n, by, like)
}

// unread reports whether the groups are none that number has a say about, whatever
// stands between them.
func (n *number) unread() bool {
	const shortest = 15 // card whose digits stand one by one
	return n.size[0] == 6 || n.exactly(3, 3, 3, 2) || n.groups == n.n && n.n < shortest
}

// promising reports whether the first two groups may be those of something.
func (s *scan) promising(n *number, by joint) bool {
	if n.start < s.code || s.joinedBefore(n.start, by) {
		return false
	}
	type sizes [2]int
	switch (sizes{n.size[0], n.size[1]}) {
	case sizes{4, 4}, sizes{4, 6}, sizes{3, 2}, sizes{3, 3}, sizes{6, 8}, sizes{6, 4}, sizes{1, 1}:
		return true
	default:
		return s.before(aboutCard, n.start, nearBefore)
	}
}

// joinedBefore reports whether what ends before i is joined to it in the same way.
func (s *scan) joinedBefore(i int, by joint) bool {
	k, same := i-1, by == ' '
	for ; k >= 0 && i-k <= mostJoint; k-- {
		if c := s.text[k]; joint(c) == by {
			same = true
		} else if c != ' ' {
			break
		}
	}
	if by.tabular() || by == ' ' {
		return same && k < i-1 && s.is(k, isDigit)
	}
	return same && k < i-1 && s.is(k, isWord)
}

// exactly reports whether the groups have these sizes.
func (n *number) exactly(sizes ...int) bool { return n.groups == len(sizes) && n.shaped(sizes...) }

// printedCard reports whether the groups are those on a card.
func (n *number) printedCard() bool {
	return n.exactly(4, 4, 4, 4) || n.exactly(4, 6, 5) || n.exactly(4, 6, 4)
}

// judge looks for what such groups may be.
func (s *scan) judge(n *number, by joint, like bool) int {
	start, end, digits := n.start, n.end[n.groups-1], n.digits[:n.n]
	if like && n.size[0] == 6 {
		if found := s.residentInGroups(n); found > 0 {
			return found
		}
	}
	if !s.free(start, end) || s.is(end, isLetter|isUnder) {
		return 0
	}
	sure := like && !by.tabular()
	singles := n.groups == n.n
	is := func(of kind, valid, said bool) int {
		if valid && said {
			return s.hit(of, start, end)
		}
		return 0
	}
	switch {
	case n.printedCard():
		ok, _ := issued(digits)
		return is(card, ok && luhn(digits), sure || s.about(aboutCard, start, end))
	case !like:
		return 0
	case n.exactly(3, 3, 3, 2):
		return is(cpf, sure, cpfValid(digits))
	case n.exactly(3, 2, 4), singles && n.n == 9:
		return is(ssn, ssnValid(digits), s.socially(start, end))
	case n.exactly(4, 4, 4), singles && n.n == 12:
		return is(aadhaar, aadhaarValid(digits), s.about(aboutUID, start, end))
	case n.exactly(3, 3, 4), singles && n.n == 10:
		return is(nhs, nhsValid(digits), s.about(aboutNHS, start, end))
	case n.n > shortestCard && n.n <= longestCard:
		ok, certain := issued(digits)
		return is(card, ok && certain && luhn(digits), s.about(aboutCard, start, end))
	default:
		return 0
	}
}

// residentInGroups finds a resident identity number of China as 6-8-4 or 6-4-4-4.
func (s *scan) residentInGroups(n *number) int {
	const size = 18
	end, check := n.end[n.groups-1], 10
	switch {
	case n.exactly(6, 8, 4), n.exactly(6, 4, 4, 4):
		check = int(n.digits[size-1])
	case (n.exactly(6, 8, 3) || n.exactly(6, 4, 4, 3)) && s.at(end)|0x20 == 'x':
		end++
	default:
		return 0
	}
	if !residentID(n.digits[:size-1], check) || !s.free(n.start, end) || s.is(end, isWord) {
		return 0
	}
	return s.hit(cnID, n.start, end)
}

// partedAt reports whether digits text[i:j] may be the first of several groups.
func (s *scan) partedAt(i, j int) bool {
	if s.is(j, isWord) || s.at(j) >= 0x80 {
		return false
	}
	near := s.is(j+1, isDigit) && s.at(j) != '%' // there is one character in between
	switch j - i {
	case 3:
		return !near || s.is(j+2, isDigit) || s.before(aboutCard, i, nearBefore)
	case 4, 6:
		return !near || s.is(j+3, isDigit) && s.is(j+4, isDigit) || s.before(aboutCard, i, nearBefore)
	case 1:
		return i-max(s.last[aboutCard], s.last[aboutSSN], s.last[aboutUID], s.last[aboutNHS]) <= nearBefore
	case 2, 5, 7, 8, 9, 10, 11, 12:
		return s.before(aboutCard, i, nearBefore)
	default:
		return false
	}
}

// glued finds numbers that a word is written in front of without a space, such as
// "card4111111111111111".
func (s *scan) glued(i, j int) int {
	k := i
	for k < j && k-i <= longestWord && s.is(k, isLetter) {
		k++
	}
	if j-k < shortestID {
		return 0
	}
	if _, ok := topicOf(s.text[i:k]); !ok {
		return 0
	}
	s.steps += j - k
	for d := k; d < j; d++ {
		if !s.is(d, isDigit) {
			return 0
		}
	}
	s.topic(i, k)
	return s.number(k, j)
}

// expires reports whether an expiry date follows at i, as in lists of cards:
// "/12/28", ":1228", "|12|2028".
func (s *scan) expires(i int) bool {
	digit := func(i int) int {
		if s.is(i, isDigit) {
			return int(s.text[i] - '0')
		}
		return -1
	}
	by := s.at(i)
	if by != '/' && by != ':' && by != '|' && by != '-' {
		return false
	}
	month := digit(i+1)*10 + digit(i+2)
	if digit(i+1) < 0 || digit(i+2) < 0 || month < 1 || month > 12 {
		return false
	}
	i += len("/12")
	if c := s.at(i); c == by || c == '/' || c == '-' {
		i++
	} else if by == '/' || by == '-' { // "-1228" may be one group more of a longer number
		return false
	}
	if digit(i) == 2 && digit(i+1) == 0 && s.is(i+2, isDigit) {
		i += len("20")
	}
	return digit(i) >= 2 && digit(i) <= 4 && s.is(i+1, isDigit) && !s.is(i+2, isWord)
}
