package classify

// The classes of bytes. All that is not ASCII is none of them, so that a number
// within Chinese text stands by itself.
const (
	isDigit  = 1 << iota
	isLetter // any
	isBeyond // a letter that is no hexadecimal digit
	isUnder  // an underscore
	isJoint  // what else base64 is made of, in any of its alphabets
	isOther  // what begins something: @ % ( \

	isWord = isDigit | isLetter | isUnder
)

// classes is what each byte is.
var classes = func() (t [256]uint8) { //nolint:gochecknoglobals // an immutable table
	for c := range 256 {
		switch b := byte(c); {
		case b >= '0' && b <= '9':
			t[c] = isDigit
		case hexDigit(b) >= 0:
			t[c] = isLetter
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			t[c] = isLetter | isBeyond
		case b == '_':
			t[c] = isUnder
		case b == '+' || b == '/' || b == '=' || b == '-':
			t[c] = isJoint
		case b == '@' || b == '%' || b == '(' || b == '\\':
			t[c] = isOther
		default:
		}
	}
	return t
}()

// hit is something found: text[start:end].
type hit struct {
	kind       kind
	start, end int
}

// scan is one pass over a folded text. Each byte is looked at once by the loop,
// and what begins at it by at most one finder, which looks at a bounded number of
// bytes, or at a run of bytes that no other finder looks at again: the time is
// linear in the text whatever it holds.
type scan struct {
	text []byte
	hits []hit
	// seam: the text is made of where parts of a message meet, without what parts them.
	seam bool
	// blob: there is a long run of what may be text in base64 or hex.
	blob bool
	// last is where the last word of each topic ended.
	last [numTopics]int
	// dashed is the end of the last run that dashedEnd looked at.
	dashed int
	// code is where the last text of an IBAN's form ended: its groups are no numbers.
	code int
	// num and dial are what the finders of numbers read into.
	num  number
	dial dialled
	// steps counts bytes that finders look at.
	steps int
}

// run scans. Hits are appended in the order of where they end, roughly.
func (s *scan) run(text []byte) {
	s.text, s.blob, s.dashed, s.code = text, false, 0, 0
	for c := range s.last {
		s.last[c] = farAway
	}
	b := blobs{from: -1}
	for i := 0; i < len(text); {
		class := classes[text[i]]
		switch {
		case class&isWord != 0:
			start, all := i, class
			for i++; i < len(text) && classes[text[i]]&isWord != 0; i++ {
				all |= classes[text[i]]
			}
			if b.from < 0 {
				b.from = start
			}
			b.all |= all
			i = s.word(start, i, all)
		case class == isJoint:
			i = s.joint(i)
		default:
			if b.from >= 0 || b.wrapped > 0 {
				s.blob = b.end(text, i) || s.blob
			}
			i++
			if class == isOther {
				i = s.other(i - 1)
			}
		}
	}
	s.blob = b.end(text, len(text)) || s.blob
}

// hit records a finding and returns where to go on.
func (s *scan) hit(k kind, start, end int) int {
	s.hits = append(s.hits, hit{k, start, end})
	return end
}

// at is the byte at i, 0 beyond the text.
func (s *scan) at(i int) byte {
	if uint(i) < uint(len(s.text)) {
		return s.text[i]
	}
	return 0
}

// is reports whether the byte at i is of a class.
func (s *scan) is(i int, class uint8) bool { return classes[s.at(i)]&class != 0 }

// wordBefore reports whether a word ends right before i. The n of a quoted line
// break is none.
func (s *scan) wordBefore(i int) bool {
	if !s.is(i-1, isWord) {
		return false
	}
	c := s.text[i-1]
	return s.at(i-2) != '\\' || c != 'n' && c != 'r' && c != 't'
}

// word looks at a run of letters, digits and underscores, text[i:j].
func (s *scan) word(i, j int, all uint8) int {
	text := s.text
	switch {
	case all == isDigit:
		end := s.number(i, j)
		if end == 0 && s.partedAt(i, j) {
			end = s.loosely(i)
		}
		return max(j, end)
	case all == isDigit|isUnder && text[i] != '_':
		return max(j, s.loosely(i))
	case text[i] >= '0' && text[i] <= '9':
		return max(j, s.cnID(i, j))
	case all&isUnder != 0:
		s.topics(i, j)
	case all&isDigit == 0:
		s.topic(i, j)
	default:
	}
	if text[i] == '_' {
		return j
	}
	if j-i >= ibanHead && all&isDigit != 0 {
		if end := s.iban(i); end > 0 {
			return max(j, s.hit(iban, i, end))
		}
	}
	if all == isDigit|isLetter || all == isDigit|isLetter|isBeyond {
		if end := s.glued(i, j); end > 0 {
			return max(j, end)
		}
	}
	return max(j, s.secret(i, j))
}

// joint looks at one of + / = -.
func (s *scan) joint(i int) int {
	switch s.text[i] {
	case '+':
		return max(i+1, s.international(i))
	case '-':
		j := i + 1
		for j < len(s.text) && s.text[j] == '-' {
			j++
		}
		return max(j, s.pem(i, j))
	default:
		return i + 1
	}
}

// other looks at one of @ % ( and a backslash.
func (s *scan) other(i int) int {
	switch s.text[i] {
	case '@':
		if c := s.at(i + 1); classes[c]&(isDigit|isLetter) != 0 || c >= 0x80 {
			return max(i+1, s.email(i, i+1))
		}
	case '%':
		if s.at(i+1) == '4' && s.at(i+2) == '0' { // @ in a URL
			return max(i+1, s.email(i, i+len("%40")))
		}
	case '(':
		return max(i+1, s.bracketed(i))
	case '\\':
		switch s.at(i + 1) {
		case 'n', 'r', 't': // a quoted line break is no letter
			return i + len(`\n`)
		default:
		}
	default:
	}
	return i + 1
}

const (
	// blobBytes of base64 or hex without a break may hide a sentence or two.
	blobBytes = 256
	// wrappedLine is the least length of a line that base64 is wrapped into; PEM
	// takes 64 bytes, MIME 76.
	wrappedLine = 60
)

// blobs finds long runs of base64 or hex: what they say can't be read. Runs that
// are shorter are keys and digests.
type blobs struct {
	from    int // where the run began, on this line; -1: it hasn't
	wrapped int // bytes of it on the lines before
	all     uint8
}

// end ends the run at i, and reports whether it was a long one.
func (b *blobs) end(text []byte, i int) bool {
	size := 0
	if b.from >= 0 {
		size = i - b.from
	}
	b.from = -1
	if size == 0 {
		if i < len(text) && text[i] != '\n' && text[i] != '\r' && text[i] != ' ' && text[i] != '\t' {
			b.wrapped, b.all = 0, 0
		}
		return false
	}
	total, all := b.wrapped+size, b.all
	if size >= wrappedLine && i < len(text) && (text[i] == '\n' || text[i] == '\r') && all&isBeyond != 0 {
		b.wrapped = total
	} else {
		b.wrapped, b.all = 0, 0
	}
	return total >= blobBytes && all&isDigit != 0 && all&isLetter != 0
}

// hexDigit is the value of a hexadecimal digit, -1 if it is none.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
