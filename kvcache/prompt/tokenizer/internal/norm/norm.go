// Package norm normalises text to the Unicode forms as the Rust tokenizers do. Their
// combining classes are those of an old version of the standard, and golang.org/x/text
// composes some characters that don't compose, so the forms are made here, from tables of
// package unidata.
package norm

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/unidata"
)

// Composition of Hangul syllables, from the Unicode standard, section 3.12.
const (
	hangulS = 0xAC00
	hangulL = 0x1100
	hangulV = 0x1161
	hangulT = 0x11A7
	countL  = 19
	countV  = 21
	countT  = 28
	countS  = countL * countV * countT
)

// Form is one of the four normalisation forms. It is immutable.
type Form struct {
	compose   bool
	class     map[rune]uint8
	expand    map[rune][]rune
	composite map[[2]rune]rune
	// touched holds the code points that the form may change, move, or join to what is
	// before them: a bit for each.
	touched []uint64
}

// NewForm builds a form: with compose NFC or NFKC, else NFD or NFKD; with compat the K.
func NewForm(compose, compat bool) *Form {
	f := &Form{
		compose: compose,
		class:   unidata.Combining(),
		expand:  unidata.Decompositions(compat),
		touched: make([]uint64, (utf8.MaxRune+1)/wordBits+1),
	}
	for r := range f.class {
		f.touch(r)
	}
	if !compose {
		for r := range f.expand {
			f.touch(r)
		}
		for r := rune(hangulS); r < hangulS+countS; r++ {
			f.touch(r)
		}
		return f
	}
	f.composite = unidata.Composites()
	for pair := range f.composite {
		f.touch(pair[1])
	}
	for i := range rune(countV) {
		f.touch(hangulV + i)
	}
	for i := range rune(countT) {
		f.touch(hangulT + i)
	}
	// What decomposes and comes back whole is left alone, unless its parts begin with
	// something that may join what is before it.
	for r, parts := range f.expand {
		back := f.recompose(f.order(slices.Clone(parts)))
		if len(back) != 1 || back[0] != r || f.touches(parts[0]) {
			f.touch(r)
		}
	}
	return f
}

const wordBits = 64

func (f *Form) touch(r rune)        { f.touched[r/wordBits] |= 1 << (r % wordBits) }
func (f *Form) touches(r rune) bool { return f.touched[r/wordBits]>>(r%wordBits)&1 != 0 }

// Append appends the form of text, which must be UTF-8, to dst.
func (f *Form) Append(dst, text []byte) []byte {
	done, boundary := 0, 0 // boundary: where the latest character that nothing joins begins
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			boundary = i
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if !f.touches(r) {
			boundary = i
			i += size
			continue
		}
		end := i + size
		for end < len(text) {
			r, size := utf8.DecodeRune(text[end:])
			if !f.touches(r) {
				break
			}
			end += size
		}
		boundary = max(boundary, done)
		dst = append(dst, text[done:boundary]...)
		dst = f.segment(dst, text[boundary:end])
		done, boundary, i = end, end, end
	}
	return append(dst, text[done:]...)
}

// Same says whether text is its own form for sure; when it isn't sure it says no.
func (f *Form) Same(text []byte) bool {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if f.touches(r) {
			return false
		}
		i += size
	}
	return true
}

// segment appends the form of a stretch that doesn't join its neighbours.
func (f *Form) segment(dst, text []byte) []byte {
	var out []rune
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch parts, ok := f.expand[r]; {
		case ok:
			out = append(out, parts...)
		case hangulS <= r && r < hangulS+countS:
			s := r - hangulS
			out = append(out, hangulL+s/(countV*countT), hangulV+s%(countV*countT)/countT)
			if t := s % countT; t != 0 {
				out = append(out, hangulT+t)
			}
		default:
			out = append(out, r)
		}
	}
	out = f.order(out)
	if f.compose {
		out = f.recompose(out)
	}
	for _, r := range out {
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// order sorts each run of marks by combining class, keeping the order of equals.
func (f *Form) order(s []rune) []rune {
	for i := 0; i < len(s); {
		if f.class[s[i]] == 0 {
			i++
			continue
		}
		end := i + 1
		for end < len(s) && f.class[s[end]] != 0 {
			end++
		}
		slices.SortStableFunc(s[i:end], func(a, b rune) int { return cmp.Compare(f.class[a], f.class[b]) })
		i = end
	}
	return s
}

// recompose joins, in place, each starter with the marks after it that aren't blocked.
func (f *Form) recompose(s []rune) []rune {
	out := s[:0]
	starter := -1 // in out
	last := 0     // class of the latest character kept after the starter; -1: none yet
	for _, r := range s {
		class := int(f.class[r])
		if starter >= 0 && last < class || starter >= 0 && last == -1 {
			if whole, ok := f.pair(out[starter], r); ok {
				out[starter] = whole
				continue
			}
		}
		if class == 0 {
			starter, last = len(out), -1
		} else {
			last = class
		}
		out = append(out, r)
	}
	return out
}

func (f *Form) pair(a, b rune) (rune, bool) {
	switch {
	case hangulL <= a && a < hangulL+countL && hangulV <= b && b < hangulV+countV:
		return hangulS + ((a-hangulL)*countV+b-hangulV)*countT, true
	case hangulS <= a && a < hangulS+countS && (a-hangulS)%countT == 0 && hangulT < b && b < hangulT+countT:
		return a + b - hangulT, true
	}
	r, ok := f.composite[[2]rune{a, b}]
	return r, ok
}
