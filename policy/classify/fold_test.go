package classify

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestFold(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"plain", "plain"},
		{"４１＠ａ．ＣＯＭ", "41@a.COM"},
		{"٤١ ۴۱ ४१ ๔๑ 𝟒𝟙", "41 41 41 41 41"},
		{"a\u200bb\u00adc\ufeffd\u2060e\ufe0f", "abcde"},
		{"1\u00a02\u20093\u30004", "1 2 3 4"},
		{"1–2—3−4‐5‑6", "1-2 3-4-5-6"},
		{"é中文日本 한국", "é中文日本 한국"},
		{"a\xe4b\xffc", "a\xe4b\xffc"},
		{"²①", "²①"},
	}
	for _, tt := range tests {
		var f fold
		f.add([]byte(tt.text), 0)
		require.Equal(t, tt.want, string(f.text))
		// Each byte that stayed as it was is where it came from.
		for i := range f.text {
			at := f.origin(i)
			require.GreaterOrEqual(t, at, i)
			require.Less(t, at, len(tt.text))
			if c := tt.text[at]; c < utf8.RuneSelf {
				require.Equal(t, string(c), string(f.text[i]), tt.text)
			}
		}
	}
}

func TestAllDecimalDigitsAreFolded(t *testing.T) {
	t.Parallel()
	count := 0
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if unicode.Is(unicode.Nd, r) {
			count++
			c := folded(r)
			require.True(t, c >= '0' && c <= '9', "%U", r)
			if prev := folded(r - 1); c > '0' {
				require.Equal(t, c-1, prev, "%U", r)
			}
		}
	}
	require.Greater(t, count, 500)
}

func FuzzFold(f *testing.F) {
	for _, seed := range []string{"４１\u200b١", "é中文–", "\xe4\xbd", "𝟒"} {
		f.Add([]byte(seed), []byte("x"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var w fold
		w.add(a, 0)
		w.add(b, len(a)+1)
		require.LessOrEqual(t, len(w.text), len(a)+len(b))
		last := -1
		for i := range w.text {
			at := w.origin(i)
			require.Greater(t, at, last)
			require.LessOrEqual(t, at, len(a)+len(b))
			last = at
		}
	})
}
