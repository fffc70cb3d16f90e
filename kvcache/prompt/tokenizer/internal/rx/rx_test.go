package rx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func compile(t *testing.T, pattern string) (*Regexp, *Alphabet) {
	t.Helper()
	var c Compiler
	re, err := c.Add(pattern)
	require.NoError(t, err)
	a, err := c.Finish()
	require.NoError(t, err)
	return re, a
}

// all returns every match, empty ones included, as an iterator that goes on by one
// character after an empty match would.
func all(t *testing.T, pattern, text string) []string {
	t.Helper()
	re, a := compile(t, pattern)
	at := a.Atoms(nil, []byte(text))
	var m Matcher
	m.Begin(len(at))
	var out []string
	for from := 0; from <= len(at); {
		lo, hi, err := m.Find(re, at, from)
		require.NoError(t, err)
		if lo < 0 {
			break
		}
		out = append(out, text[lo:hi])
		if from = hi; lo == hi {
			from = Next(at, hi)
		}
	}
	require.Empty(t, m.stack)
	return out
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          []string
	}{
		{`a+`, "baab", []string{"aa"}},
		{`a*?b|a`, "aab a", []string{"aab", "a"}},
		{`(?:ab)+`, "abababa", []string{"ababab"}},
		{`a{2,3}`, "aaaaa", []string{"aaa", "aa"}},
		{`a{,2}b`, "aaab", []string{"aab"}},
		{`\s+(?!\S)|\s+`, "x   y  ", []string{"  ", " ", "  "}},
		{`(?i:'s|'LL)`, "'S 'ſ 'll", []string{"'S", "'ſ", "'ll"}},
		{`[^\s\p{L}]+`, "é1, 中2", []string{"1,", "2"}},
		{`[a-z&&[^aeiou]]+`, "hello", []string{"h", "ll"}},
		{`[[:digit:]x]+`, "1x٣y", []string{"1x٣"}},
		// Oniguruma's \w has superscripts and fractions, but not between brackets.
		{`\w+|[^\w\s]+`, "\u0378½² a½", []string{"\u0378½²", "a½"}},
		{`\p{Word}+`, "a²-", []string{"a²"}},
		{`[\p{Word}]+|[[:word:]]+`, "a²b", []string{"a", "b"}},
		{`[\W]+|\P{Word}+`, "a²¾b", []string{"²¾"}},
		{`[^\W]+`, "¹c¼", []string{"c"}},
		{`\W+`, "a²¾b", nil},
		{`a++b|a`, "aab aac", []string{"aab", "a", "a"}},
		{`a++a`, "aaa", nil},
		{`(?>a|ab)c|ab`, "abc", []string{"ab"}},
		{`^.|.$`, "ab\ncd", []string{"a", "b", "c", "d"}},
		{`\A.|.\z`, "ab\ncd", []string{"a", "d"}},
		{`d\Z`, "cd\n", []string{"d"}},
		{`\b\w+\b`, "é x1", []string{"é", "x1"}},
		{`x?`, "yxy", []string{"", "x", "", ""}},
		{`(?:a|ab)(?:c|bcd)(?:d*)`, "abcd", []string{"abcd"}},
		{`\p{Lu}\P{Lu}*|\p{^L}`, "ABc1", []string{"A", "Bc1"}},
		{`\x41\u00e9\x{1F600}\t`, "Aé😀\t", []string{"Aé😀\t"}},
		{`\p{N}{1,3}`, "12345", []string{"123", "45"}},
		{`[一-龥]+`, "中文a龦", []string{"中文"}},
		{`(?<=\p{N})[a-z]|(?<![a-z])é`, "1a2bcéé", []string{"a", "b", "é"}},
		{`(?:x|y(?=z))+`, "xxyzxy", []string{"xxy", "x"}},
	} {
		t.Run(c.pattern, func(t *testing.T) { require.Equal(t, c.want, all(t, c.pattern, c.text)) })
	}
}

func TestRefused(t *testing.T) {
	for _, pattern := range []string{
		`(a`, `a)`, `[a`, `[]a]`, `*a`, `a**?b(`, `\1`, `(?<n>a)`, `(?<=ab)c`, `(?<!a|b)c`, `(?<=a)+b`, `(?m:a)`, `(?i)a`, `\k<n>`, `\R`, `\X`,
		`(?:a*)*`, `(?:a|b?)+`, `a{3,2}`, `a{x}`, `a{99999}`, `\p{Nonsense}`, `\p{rust:mark}`, `\p`, `[[:nonsense:]]`, `\xC3`,
		`[z-a]`, `[a-\d]`, `[a&&]`, `[&&a]`, `(?i:é)`, `(?i:ss)`, `(?i:xfl)`, `(?i:[à-ü])`, `a{2}?`, `\é`, "\xff", `^*`, `(?=a)+`,
		strings.Repeat("(", 100) + strings.Repeat(")", 100), strings.Repeat("[", 100) + "a" + strings.Repeat("]", 100),
		strings.Repeat("a", maxPattern+1), `(?:(?:(?:ab){1000}){1000}){1000}`, `\u00`, `\uD800`, `\x{110000}`, `\x{`, `\`,
	} {
		var c Compiler
		_, err := c.Add(pattern)
		if err == nil {
			_, err = c.Finish()
		}
		require.ErrorIs(t, err, ErrSyntax, "%.40q", pattern)
	}
}

func TestTooManyKindsOfCharacters(t *testing.T) {
	var c Compiler
	for r := 'A'; r < 'A'+maxAtoms; r++ {
		_, err := c.Add(string([]rune{'\\', 'x', '{', hexDigit(r >> 4), hexDigit(r & 15), '}'}))
		require.NoError(t, err)
	}
	_, err := c.Finish()
	require.ErrorIs(t, err, ErrSyntax)
}

func hexDigit(r rune) rune { return rune("0123456789ABCDEF"[r]) }

// Patterns that would take exponential or quadratic time run out of steps.
func TestBudget(t *testing.T) {
	for _, c := range []struct{ pattern, text string }{
		{`(?:a+)+b`, strings.Repeat("a", 3000)},
		{`(?:a|a|aa)+b`, strings.Repeat("a", 3000)},
		{`(?:\s*\s*\s*)x`, strings.Repeat(" ", 3000)},
		{`a+b`, strings.Repeat("a", 200_000)},
		{`(?=a+b)a`, strings.Repeat("a", 200_000)},
	} {
		re, a := compile(t, c.pattern)
		at := a.Atoms(nil, []byte(c.text))
		var m Matcher
		m.Begin(len(at))
		_, _, err := m.Find(re, at, 0)
		require.ErrorIs(t, err, ErrBudget, c.pattern)
		require.Empty(t, m.stack)
	}
}

func TestLinearWhereItMatters(t *testing.T) {
	const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	for _, text := range []string{strings.Repeat(" ", 1<<20) + "x", strings.Repeat("a", 1<<20), strings.Repeat("\n ", 1<<19)} {
		re, a := compile(t, gpt2)
		at := a.Atoms(nil, []byte(text))
		var m Matcher
		m.Begin(len(at))
		for from := 0; from < len(at); {
			_, hi, err := m.Find(re, at, from)
			require.NoError(t, err)
			from = hi
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	re, a := compile(t, `(?i:'s)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+`)
	text := []byte("It's  12345 words — 中文,  and so on")
	var m Matcher
	at := a.Atoms(nil, text)
	run := func() {
		at = a.Atoms(at[:0], text)
		m.Begin(len(at))
		for from := 0; from < len(at); {
			_, hi, err := m.Find(re, at, from)
			if err != nil || hi < 0 {
				break
			}
			from = hi
		}
	}
	run()
	require.Zero(t, testing.AllocsPerRun(20, run))
}

// FuzzPattern checks that any pattern is refused or runs within its budget, and that
// matches lie within the text and between characters.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{`(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\s+(?!\S)`, `(?>a+|b)*?c{2,}`, `[[:alpha:]&&[^a-f]]+`, `^$|\b`, `((?:a|b?)c)+`} {
		f.Add(p, "it's aab  中\n")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		text = strings.ToValidUTF8(text, "")
		var c Compiler
		re, err := c.Add(pattern)
		if err != nil {
			return
		}
		a, err := c.Finish()
		if err != nil {
			return
		}
		at := a.Atoms(nil, []byte(text))
		var m Matcher
		m.Begin(len(at))
		lo, hi, err := m.Find(re, at, 0)
		if err != nil || lo < 0 {
			return
		}
		if hi < lo || hi > len(text) || lo < len(at) && at[lo] == tailAtom || hi < len(at) && at[hi] == tailAtom {
			t.Fatalf("%q on %q: %d to %d", pattern, text, lo, hi)
		}
		if lo == hi && !re.Nullable {
			t.Fatalf("%q on %q: an empty match", pattern, text)
		}
	})
}
