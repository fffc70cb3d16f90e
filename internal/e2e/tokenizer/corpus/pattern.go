package corpus

import (
	"fmt"
	"strings"
)

// Pattern returns a random regular expression, of constructs that tokenizers use and some
// that they don't. It may be one that a matcher refuses.
func (s *Source) Pattern() string { return s.alternatives(3) }

func (s *Source) alternatives(depth int) string {
	parts := make([]string, 1+s.r.IntN(3))
	for i := range parts {
		var b strings.Builder
		for range 1 + s.r.IntN(3) {
			b.WriteString(s.quantified(depth))
		}
		parts[i] = b.String()
	}
	return strings.Join(parts, "|")
}

func (s *Source) quantified(depth int) string {
	if s.one(9) {
		return s.pick([]string{
			`^`, `$`, `\b`, `\B`, `\A`, `\z`, `\Z`,
			`(?=` + s.alternatives(0) + `)`, `(?!` + s.alternatives(0) + `)`, `(?<=` + s.class() + `)`, `(?<!` + s.class() + `)`,
		})
	}
	item := s.class()
	if depth > 0 && s.one(4) {
		item = s.pick([]string{"(?:", "(", "(?>", "(?i:"}) + s.alternatives(depth-1) + ")"
	}
	lo := s.r.IntN(3)
	item += s.pick([]string{
		"", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+",
		fmt.Sprintf("{%d,%d}", lo, lo+s.r.IntN(3)), fmt.Sprintf("{%d,}", lo), fmt.Sprintf("{%d}", lo+1),
		fmt.Sprintf("{%d,%d}?", lo, lo+1+s.r.IntN(3)), fmt.Sprintf("{,%d}", lo+1), fmt.Sprintf("{%d,}+", lo+1),
	})
	return item
}

func (s *Source) class() string {
	return s.pick([]string{
		"a", "b", "c", "é", "中", " ", "1", "'", `\n`, `\.`, "k", "S", ".",
		"[abc]", "[^a]", "[a-c1-3]", "[^ab ]", `[\s1]`, `[^\s\p{L}]`,
		`\p{L}`, `\p{Lu}`, `\P{L}`, `\p{N}`, `\p{^N}`, `\s`, `\S`, `\w`, `\W`, `\d`, `\D`, "[a-z&&[^aeiou]]", "[[:alpha:]1]", "[[:^space:]]",
		"[^[a-b]c]", `[\p{L}&&[^\p{Lu}]]`, `[a\-z]`, `[-a]`, `[^\r\n\p{L}\p{N}]`, `\x61`, `\u4e2d`,
	})
}

// Short returns a text of the characters that Pattern's patterns are about.
func (s *Source) Short() string {
	var b strings.Builder
	for range s.r.IntN(24) {
		b.WriteString(s.pick(strings.Fields("a b c é a b É 中 1 2 ' . k K s S ſ \u212a _ z")))
		if s.one(6) {
			b.WriteByte(" \n"[s.r.IntN(2)])
		}
	}
	return b.String()
}
