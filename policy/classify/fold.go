package classify

import (
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

// fold writes a text the way a scan reads it: digits of every script and the
// full-width forms of ASCII as ASCII, spaces and dashes of every kind as a space
// and a dash, and without the characters that nobody sees. The rest stays.
type fold struct {
	text []byte
	// moved says where what follows has another distance to its origin than what
	// is before.
	moved []shift
}

// shift: from the byte at on, what is at k was at k+by.
type shift struct{ at, by int }

// plain reports whether a text is ASCII, so that it is folded already.
func plain(text []byte) bool {
	const word = 8
	const high = 0x8080808080808080
	for len(text) >= word {
		if binary.LittleEndian.Uint64(text)&high != 0 {
			return false
		}
		text = text[word:]
	}
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// reset empties f and keeps its memory.
func (f *fold) reset() { f.text, f.moved = f.text[:0], f.moved[:0] }

// add appends a text, whose first byte is at origin.
func (f *fold) add(text []byte, origin int) {
	if by := origin - len(f.text); by != f.by() {
		f.moved = append(f.moved, shift{at: len(f.text), by: by})
	}
	if plain(text) {
		f.text = append(f.text, text...)
		return
	}
	from := 0 // what was not yet copied
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= cjkFirst && c <= cjkLast { // no letter of these is folded, and a text may be made of them
			i += min(cjkBytes, len(text)-i)
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		as := folded(r)
		if as == keep {
			i += n
			continue
		}
		f.text = append(f.text, text[from:i]...)
		if as != drop {
			f.text = append(f.text, as)
		}
		i += n
		from = i
		f.moved = append(f.moved, shift{at: len(f.text), by: origin + i - len(f.text)})
	}
	f.text = append(f.text, text[from:]...)
}

// The first bytes of the three that make up most Chinese characters, U+4000 to
// U+9FFF.
const (
	cjkFirst, cjkLast = 0xe4, 0xe9
	cjkBytes          = 3
)

func (f *fold) by() int {
	if n := len(f.moved); n > 0 {
		return f.moved[n-1].by
	}
	return 0
}

// origin returns where the byte at i of the folded text came from. Shifts are
// looked through by halves.
func (f *fold) origin(i int) int {
	low, high := 0, len(f.moved)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if f.moved[mid].at <= i {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return i
	}
	return i + f.moved[low-1].by
}

// What folded returns for a rune that stays and for one that goes.
const (
	keep = 0xff
	drop = 0xfe
)

// folded is the ASCII character that a rune is read as, keep or drop.
func folded(r rune) byte {
	switch {
	case r >= 0xff01 && r <= 0xff5e: // full-width forms
		return byte(r - 0xff01 + '!')
	case r < 0x660: // Latin, Greek, Cyrillic, Hebrew
		return foldedLow(r)
	case r >= 0x2000 && r <= 0x206f: // punctuation
		return foldedPunctuation(r)
	case r >= 0x3041 && r < 0x30fc, r >= 0xac00 && r <= 0xd7ff: // Japanese and Korean syllables
		return keep
	case r >= 0x1d7ce && r <= 0x1d7ff: // mathematical digits, in five styles
		return byte('0' + (r-0x1d7ce)%10)
	case unicode.Is(unicode.Nd, r):
		return '0' + digitOf(r)
	}
	switch r {
	case 0xfeff, 0x180e, 0x034f, 0x061c, 0x2800, 0x3164, 0xffa0, 0x20e3: // marks and fillers without width, a keycap
		return drop
	case 0x3000, 0x1680, 0x205f:
		return ' '
	case 0x2212, 0xfe58, 0xfe63, 0x2e3a, 0x2e3b, 0x30fc:
		return '-'
	case 0xfe6b:
		return '@'
	default:
	}
	if r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0000 && r <= 0xe0fff { // variants and tags
		return drop
	}
	return keep
}

func foldedLow(r rune) byte {
	switch r {
	case 0xa0: // no-break space
		return ' '
	case 0xad, 0x34f, 0x61c: // soft hyphen, joiners, marks
		return drop
	case 0xb7: // middle dot
		return '.'
	default:
		if r >= 0x300 && r <= 0x36f { // accents that stand over the letter, or digit, before
			return drop
		}
		return keep
	}
}

func foldedPunctuation(r rune) byte {
	switch {
	case r <= 0x200a, r == 0x202f, r == 0x205f: // spaces
		return ' '
	case r >= 0x2010 && r <= 0x2013: // hyphens, figure dash, en dash
		return '-'
	case r == 0x2014, r == 0x2015: // these part words, not digits
		return ' '
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060: // without width, and directions
		return drop
	case r == 0x2028, r == 0x2029:
		return '\n'
	case r == 0x2024, r == 0x2027: // one dot leader, hyphenation point
		return '.'
	case r == 0x2022, r == 0x2043: // bullets
		return '-'
	default:
		return keep
	}
}

// digitOf is the value of a decimal digit: they stand in tens, in order.
func digitOf(r rune) byte {
	for _, t := range unicode.Nd.R16 {
		if r <= rune(t.Hi) {
			return byte((r - rune(t.Lo)) % 10)
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r <= rune(t.Hi) {
			return byte((r - rune(t.Lo)) % 10)
		}
	}
	return 0
}
