package norm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForms(t *testing.T) {
	nfc, nfd := NewForm(true, false), NewForm(false, false)
	nfkc, nfkd := NewForm(true, true), NewForm(false, true)
	for _, c := range []struct{ name, in, nfc, nfd, nfkc, nfkd string }{
		{"plain", "plain text 中文", "plain text 中文", "plain text 中文", "plain text 中文", "plain text 中文"},
		{"accent", "e\u0301", "é", "e\u0301", "é", "e\u0301"},
		{"ligature", "ﬁ", "ﬁ", "ﬁ", "fi", "fi"},
		{"hangul", "\u1112\u1161\u11ab", "한", "\u1112\u1161\u11ab", "한", "\u1112\u1161\u11ab"},
		{"hangul with no T", "\u1112\u1161\u11a7", "하\u11a7", "\u1112\u1161\u11a7", "하\u11a7", "\u1112\u1161\u11a7"},
		{"order", "a\u0301\u0323", "ạ\u0301", "a\u0323\u0301", "ạ\u0301", "a\u0323\u0301"},
		{"blocked", "a\u0345\u0301\u0345", "á\u0345\u0345", "a\u0301\u0345\u0345", "á\u0345\u0345", "a\u0301\u0345\u0345"},
		{"blocked by an equal", "a\u0313\u0301", "a\u0313\u0301", "a\u0313\u0301", "a\u0313\u0301", "a\u0313\u0301"},
		{"excluded", "\u0958", "\u0915\u093c", "\u0915\u093c", "\u0915\u093c", "\u0915\u093c"},
		{"singleton", "\u212b", "Å", "A\u030a", "Å", "A\u030a"},
		{"astral rune that must not compose", "\U00010041\u0323", "\U00010041\u0323", "\U00010041\u0323", "\U00010041\u0323", "\U00010041\u0323"},
		{"marks first", "\u0323\u0301e\u0301", "\u0323\u0301é", "\u0323\u0301e\u0301", "\u0323\u0301é", "\u0323\u0301e\u0301"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for form, want := range map[*Form]string{nfc: c.nfc, nfd: c.nfd, nfkc: c.nfkc, nfkd: c.nfkd} {
				require.Equal(t, want, string(form.Append(nil, []byte(c.in))))
				require.Equal(t, "x"+want+"y", string(form.Append([]byte("x"), []byte(c.in+"y"))))
				if form.Same([]byte(c.in)) {
					require.Equal(t, want, c.in)
				}
			}
		})
	}
}

// What is composed by stretches is what is composed as a whole, and doing it twice changes
// nothing.
func TestStretches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	letters := []rune("aeoé한하\u1112\u1161\u11ab中 ạ\u0301\u0323\u0345\u093c\u0915ﬁ\u3099か")
	for _, f := range []*Form{NewForm(true, false), NewForm(false, false), NewForm(true, true), NewForm(false, true)} {
		for range 3000 {
			text := make([]rune, 1+r.IntN(12))
			for i := range text {
				text[i] = letters[r.IntN(len(letters))]
			}
			in := []byte(string(text))
			out := f.Append(nil, in)
			require.Equal(t, string(f.segment(nil, in)), string(out), "%+q", string(in))
			require.Equal(t, string(out), string(f.Append(nil, out)), "%+q", string(in))
		}
	}
}
