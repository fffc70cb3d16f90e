package corpus

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

const letters = "etaoinshrdlucmfwypvbgkjqxz"

func (s *Source) word() string {
	if s.one(3) {
		return s.pick(common)
	}
	var b strings.Builder
	for range 1 + s.r.IntN(9) {
		b.WriteByte(letters[s.r.IntN(1+s.r.IntN(len(letters)))])
	}
	return b.String()
}

func (s *Source) prose(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 || s.one(2) {
			b.WriteByte(' ')
		}
		w := s.word()
		switch s.r.IntN(12) {
		case 0:
			w = strings.ToUpper(w)
		case 1, 2:
			w = strings.ToUpper(w[:1]) + w[1:]
		case 3:
			w += s.pick([]string{".", ",", "!", "?", ";", ":", "...", " -", "\n", "\n\n", ".\n", "\r\n"})
		}
		b.WriteString(w)
	}
	return b.String()
}

func (s *Source) contraction() string {
	w := s.word() + s.pick([]string{"'", "'", "’", "ʼ", "''", " '"})
	w += s.pick(endings)
	if s.one(2) {
		w += s.word()
	}
	return w
}

// in returns a character of a range, assigned or not.
func (s *Source) in(r [2]rune) rune { return r[0] + rune(s.r.IntN(int(r[1]-r[0])+1)) }

func (s *Source) script() string {
	r := scripts[s.r.IntN(len(scripts))]
	var b strings.Builder
	for range 1 + s.r.IntN(12) {
		c := s.in(r)
		b.WriteRune(c)
		switch s.r.IntN(14) {
		case 0:
			b.WriteByte(' ')
		case 1:
			b.WriteString(s.pick([]string{"，", "。", "、", "！", "।", "،", ".", "「", "」", "\n"}))
		}
	}
	return b.String()
}

func (s *Source) emoji() string {
	var b strings.Builder
	for range 1 + s.r.IntN(4) {
		switch s.r.IntN(6) {
		case 0:
			b.WriteRune(s.in([2]rune{0x1F1E6, 0x1F1FF}))
			b.WriteRune(s.in([2]rune{0x1F1E6, 0x1F1FF}))
		case 1:
			b.WriteRune(s.in([2]rune{0x1F466, 0x1F469}))
			b.WriteRune(s.in([2]rune{0x1F3FB, 0x1F3FF}))
			b.WriteString("\u200d")
			b.WriteRune(s.in([2]rune{0x1F4BB, 0x1F4BF}))
		case 2:
			b.WriteRune(s.in([2]rune{0x2600, 0x27BF}))
			b.WriteString("\ufe0f")
		case 3:
			b.WriteString(s.pick([]string{"1️⃣", "#️⃣", "❤️", "👨‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"}))
		default:
			b.WriteRune(s.in([2]rune{0x1F300, 0x1FAFF}))
		}
	}
	return b.String()
}

// marks returns letters with combining marks, in any order; jamo; and characters that
// decompose.
func (s *Source) marks() string {
	var b strings.Builder
	for range 1 + s.r.IntN(5) {
		switch s.r.IntN(6) {
		case 0:
			b.WriteRune(s.in([2]rune{0x1100, 0x1112}))
			b.WriteRune(s.in([2]rune{0x1161, 0x1175}))
			if s.one(2) {
				b.WriteRune(s.in([2]rune{0x11A7, 0x11C2}))
			}
		case 1:
			b.WriteRune(s.in([2]rune{0xF900, 0xFAFF}))
		case 2:
			b.WriteRune(s.in([2]rune{0x1E00, 0x1FFF}))
		default:
			b.WriteString(s.pick([]string{"a", "e", "o", "u", "A", "s", "q", "ạ", "é", "ώ", "か", "は", "க", "ক", "א", "ل", "각", "가", "中", " "}))
		}
		for range s.r.IntN(4) {
			b.WriteRune(s.in(markRanges[s.r.IntN(len(markRanges))]))
		}
	}
	return b.String()
}

func (s *Source) space() string {
	var b strings.Builder
	for range 1 + s.r.IntN(4) {
		b.WriteString(strings.Repeat(s.pick(spaces), 1+s.r.IntN(5)))
		if s.one(3) {
			b.WriteString(s.word())
		}
	}
	return b.String()
}

// token returns a special token, or something that nearly is one.
func (s *Source) token() string {
	if len(s.special) == 0 {
		return s.pick([]string{"<s>", "</s>", "<|im_start|>", "[INST]"})
	}
	t := s.pick(s.special)
	switch s.r.IntN(12) {
	case 0:
		t = t[:len(t)-1]
	case 1:
		t = t[1:]
	case 2:
		t = strings.ToUpper(t)
	case 3:
		t = s.pick(spaces) + t + s.pick(spaces)
	case 4:
		t = s.word() + t + s.word()
	case 5:
		t += s.pick(s.special)
	case 6:
		t = t[:1] + t
	}
	return strings.ToValidUTF8(t, "")
}

func (s *Source) identifier() string {
	w := s.word()
	switch s.r.IntN(4) {
	case 0:
		return w + "_" + s.word()
	case 1:
		return w + strings.ToUpper(w[:1]) + s.word()
	case 2:
		return strings.ToUpper(w) + "_" + strconv.Itoa(s.r.IntN(100))
	default:
		return w
	}
}

func (s *Source) code() string {
	var b strings.Builder
	indent := s.r.IntN(4)
	for range 1 + s.r.IntN(4) {
		b.WriteString(strings.Repeat(s.pick([]string{"    ", "\t", "  "}), indent))
		b.WriteString(s.pick([]string{"if ", "for ", "return ", "def ", "func ", "x = ", "// ", "# ", "#include <", "const ", ""}))
		b.WriteString(s.identifier())
		b.WriteString(s.pick([]string{"(", "[", "{", ".", "->", "::", " == ", " != ", " += ", "&&", "||", " => ", "<<"}))
		b.WriteString(s.identifier())
		b.WriteString(s.pick([]string{")", "]", "}", ";", ":", "();", "});", " {", "\\n\"", "'", ""}))
		b.WriteString(s.pick([]string{"\n", "\n\n", "\r\n", "\n\t\n", " \n", ""}))
		indent = max(0, indent+s.r.IntN(3)-1)
	}
	return b.String()
}

func (s *Source) number() string {
	var b strings.Builder
	digits := [2]rune{'0', '9'}
	if s.one(4) {
		digits = digitRanges[s.r.IntN(len(digitRanges))]
	}
	for range 1 + s.r.IntN(3) {
		for range 1 + s.r.IntN(9) {
			b.WriteRune(s.in(digits))
		}
		b.WriteString(s.pick([]string{"", ".", ",", " ", "-", "/", ":", "e+", "%", "€", "ⅷ", "½", "²"}))
	}
	return b.String()
}

// unicode returns characters from anywhere, with a liking for the edges of classes.
func (s *Source) unicode() string {
	var b strings.Builder
	for range 1 + s.r.IntN(6) {
		b.WriteRune(s.anyRune())
	}
	return b.String()
}

func (s *Source) anyRune() rune {
	var r rune
	switch s.r.IntN(6) {
	case 0:
		r = rune(s.r.IntN(0x80))
	case 1:
		r = rune(s.r.IntN(0x3000))
	case 2:
		r = rune(s.r.IntN(0x10000))
	case 3:
		r = rune(s.r.IntN(unicode.MaxRune + 1))
	case 4: // where a class begins or ends
		t := tables[s.r.IntN(len(tables))]
		if n := s.r.IntN(len(t.R16) + len(t.R32)); n < len(t.R16) {
			r = rune(t.R16[n].Lo) + rune(s.r.IntN(3)) - 1
		} else {
			r = rune(t.R32[n-len(t.R16)].Hi) + rune(s.r.IntN(3)) - 1
		}
	default:
		r = rune(0x10000 + s.r.IntN(0x10000))
	}
	if r < 0 || r > unicode.MaxRune || 0xD800 <= r && r <= 0xDFFF {
		return 0xFFFD
	}
	return r
}

func (s *Source) vocabulary() string {
	if len(s.words) == 0 {
		return s.prose(2)
	}
	var b strings.Builder
	for range 1 + s.r.IntN(4) {
		b.WriteString(s.pick(s.words))
	}
	return strings.ToValidUTF8(b.String(), "")
}

func (s *Source) repeat() string {
	p := string(s.anyRune())
	if s.one(2) {
		p = s.pick([]string{"a", " ", "\n", "=", "-", "ab", "ha", "!", "中", "\t", "0", "ne", "  \n", "é"})
	}
	if s.one(3) { // a few letters in all orders
		var b strings.Builder
		for range 1 + s.r.IntN(60) {
			b.WriteByte("abcde"[s.r.IntN(5)])
		}
		return b.String()
	}
	return strings.Repeat(p, 1+s.r.IntN(40))
}

func (s *Source) punctuation() string {
	var b strings.Builder
	for range 1 + s.r.IntN(6) {
		switch s.r.IntN(3) {
		case 0:
			b.WriteRune(s.in([2]rune{0x2010, 0x205E}))
		case 1:
			b.WriteByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"[s.r.IntN(32)])
		default:
			b.WriteString(s.pick([]string{" ", "\n", "a", "1", "…", "—", "«", "»", "、", "￥", "©", "°"}))
		}
	}
	return b.String()
}

func (s *Source) data() string {
	switch s.r.IntN(4) {
	case 0:
		raw := make([]byte, s.r.IntN(30))
		for i := range raw {
			raw[i] = byte(s.r.IntN(256))
		}
		return base64.StdEncoding.EncodeToString(raw)
	case 1:
		return fmt.Sprintf("{%q: %q, %q: %d}", s.word(), s.prose(2), s.word(), s.r.IntN(1000))
	case 2:
		return fmt.Sprintf("https://%s.%s/%s?%s=%x", s.word(), s.word(), s.identifier(), s.word(), s.r.Uint32())
	default:
		return fmt.Sprintf("%x-%04d", s.r.Uint64(), s.r.IntN(10000))
	}
}
