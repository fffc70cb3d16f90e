package classify

const (
	ibanHead                  = 4 // country and check digits
	shortestIBAN, longestIBAN = 15, 33
)

// ibanLength is the length of a country's IBANs by the IBAN registry, 0 for none.
func ibanLength(country string) int {
	switch country {
	case "NO":
		return 15
	case "BE":
		return 16
	case "DK", "FI", "FK", "FO", "GL", "NL", "SD":
		return 18
	case "MK", "SI":
		return 19
	case "AT", "BA", "EE", "KZ", "LT", "LU", "MN", "XK":
		return 20
	case "CH", "CR", "HR", "LI", "LV":
		return 21
	case "BG", "BH", "DE", "GB", "GE", "IE", "ME", "RS", "VA":
		return 22
	case "AE", "GI", "IL", "IQ", "OM", "SO", "TL":
		return 23
	case "AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG":
		return 24
	case "LY", "PT", "ST":
		return 25
	case "IS", "TR":
		return 26
	case "BI", "DJ", "FR", "GR", "IT", "MC", "MR", "SM":
		return 27
	case "AL", "AZ", "BY", "CY", "DO", "GT", "HN", "HU", "LB", "NI", "PL", "SV":
		return 28
	case "BR", "EG", "PS", "QA", "UA":
		return 29
	case "JO", "KW", "MU", "YE":
		return 30
	case "MT", "SC":
		return 31
	case "LC":
		return 32
	case "RU":
		return 33
	default:
		return 0
	}
}

// iban reads the IBAN that begins at i, in one piece or in groups of four that are all
// joined alike, in either case, and returns its end, 0 if there is none.
func (s *scan) iban(i int) int {
	if !s.is(i+1, isLetter) || !s.is(i+2, isDigit) || !s.is(i+3, isDigit) || s.is(i-2, isWord) && (s.at(i-1) == '-' || s.at(i-1) == '/') {
		return 0
	}
	country := [2]byte{s.at(i) &^ 0x20, s.at(i+1) &^ 0x20}
	size := ibanLength(string(country[:]))
	if size == 0 {
		return 0
	}
	var code [longestIBAN]byte
	n, sep := 0, noJoint
	for n < size {
		c := s.at(i)
		if n > 0 && n%ibanHead == 0 && !s.is(i, isDigit|isLetter) {
			j, next := s.between(i)
			if j == noJoint || !s.is(next, isDigit|isLetter) || j != sep && n != ibanHead {
				s.steps += n
				return 0
			}
			sep, i = j, next
			continue
		}
		switch {
		case s.is(i, isDigit):
			code[n] = c - '0'
			n++
		case s.is(i, isLetter):
			code[n] = c&^0x20 - 'A' + 10
			n++
		default:
			s.steps += n
			return 0
		}
		i++
	}
	s.steps += n
	if !s.is(i, isWord) {
		s.code = i
	}
	if s.is(i, isWord) || s.at(i) == '-' && s.is(i+1, isWord) || !mod97(code[ibanHead:size], code[:ibanHead]) {
		return 0
	}
	return i
}

// mod97 is the check of ISO/IEC 7064 that IBANs use, letters being 10 to 35.
func mod97(rest, head []byte) bool {
	sum := 0
	for _, part := range [...][]byte{rest, head} {
		for _, v := range part {
			if v >= 10 {
				sum = sum*100 + int(v)
			} else {
				sum = sum*10 + int(v)
			}
			sum %= 97
		}
	}
	return sum == 1
}
