// Package corpus makes texts that are likely to tell two tokenizers apart: scripts and
// marks, white space, special tokens, code, numbers, whatever Unicode holds. The same seed
// gives the same texts.
package corpus

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// Source makes texts. It isn't safe for concurrent use.
type Source struct {
	r       *rand.Rand
	special []string // tokens that a tokenizer looks for in the text
	words   []string // tokens of its vocabulary, as text
}

// New returns a source. The special tokens and the vocabulary of the tokenizer under test
// may be nil.
func New(seed uint64, special, vocabulary []string) *Source {
	const stream = 0x746F6B656E
	r := rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // the same texts again and again are what is wanted
	return &Source{r: r, special: special, words: vocabulary}
}

// Text returns a text of up to a few hundred bytes, most of them much shorter.
func (s *Source) Text() string {
	var b strings.Builder
	size := 1 << s.r.IntN(9)
	for first := true; first || b.Len() < size; first = false {
		b.WriteString(s.piece())
	}
	t := b.String()
	if s.one(20) {
		t = s.mutate(t)
	}
	return t
}

// Long returns a text of about n bytes.
func (s *Source) Long(n int) string {
	var b strings.Builder
	switch s.r.IntN(8) {
	case 0: // one character again and again
		c := string(s.anyRune())
		b.WriteString(strings.Repeat(c, n/len(c)+1))
	case 1: // one piece again and again
		p := s.piece()
		b.WriteString(strings.Repeat(p, n/max(len(p), 1)+1))
	case 2: // letters without a space
		kinds := []int{5, 26}[s.r.IntN(2)]
		for b.Len() < n {
			b.WriteByte(byte('a' + s.r.IntN(kinds)))
		}
	case 3: // one script without a space
		script := scripts[s.r.IntN(len(scripts))]
		for b.Len() < n {
			b.WriteRune(s.in(script))
		}
	case 4: // a conversation
		for b.Len() < n {
			b.WriteString(s.token())
			b.WriteString(s.prose(40))
			b.WriteString(s.token())
		}
	default:
		for b.Len() < n {
			b.WriteString(s.piece())
		}
	}
	t := b.String()
	if len(t) > n {
		for t = t[:n]; !utf8.ValidString(t[max(0, len(t)-utf8.UTFMax):]) && len(t) > 0; {
			t = t[:len(t)-1]
			if r, size := utf8.DecodeLastRuneInString(t); r != utf8.RuneError || size > 1 {
				break
			}
		}
	}
	return strings.ToValidUTF8(t, "")
}

func (s *Source) one(in int) bool { return s.r.IntN(in) == 0 }

func (s *Source) pick(list []string) string { return list[s.r.IntN(len(list))] }

// piece returns a bit of text of one kind.
func (s *Source) piece() string {
	switch s.r.IntN(16) {
	case 0, 1:
		return s.prose(1 + s.r.IntN(8))
	case 2, 3:
		return s.script()
	case 4:
		return s.emoji()
	case 5:
		return s.marks()
	case 6:
		return s.space()
	case 7:
		return s.token()
	case 8:
		return s.code()
	case 9:
		return s.number()
	case 10:
		return s.unicode()
	case 11:
		return s.vocabulary()
	case 12:
		return s.contraction()
	case 13:
		return s.repeat()
	case 14:
		return s.punctuation()
	default:
		return s.data()
	}
}

// mutate changes a few characters.
func (s *Source) mutate(t string) string {
	r := []rune(t)
	for range 1 + s.r.IntN(3) {
		if len(r) == 0 {
			break
		}
		i := s.r.IntN(len(r))
		switch s.r.IntN(4) {
		case 0:
			r[i] = s.anyRune()
		case 1:
			r = append(r[:i], r[i+1:]...)
		case 2:
			j := s.r.IntN(len(r))
			r[i], r[j] = r[j], r[i]
		default:
			r = append(r[:i], append([]rune{s.anyRune()}, r[i:]...)...)
		}
	}
	return string(r)
}
