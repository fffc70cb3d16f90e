package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type object = map[string]any

// bases are the trained tokenizers that Components begins with.
var bases = []string{"bytes", "chars", "affix", "holes", "letters", "shuffled"}

// addable are tokens that are added: letters that normalizers change, marks, spaces, words
// of the vocabulary, one token within another.
var addable = []string{
	"<a>", "<|x|>", "<a><a>", "foo", "foo bar", "a", "ab", "the", "S", "K", "1", "é", "e\u0301", "İ", "ß", "ẞ", "ﬁ", "①", "中", "😀",
	" ", " A ", "▁", "\n\n", "_z", "\u1100\u1161", "각",
}

// literals are what normalizers and pre-tokenizers look for, replace by and begin with.
var literals = []string{" ", "  ", "▁", "a", "ab", "the", "é", "e\u0301", "\u0301", "\n", "Ġ", "'", "1", "_", "xx", ""}

// splits are patterns of real tokenizers and of some that are none, beside those that
// Pattern makes.
var splits = []string{
	`\s+`, `\p{N}{1,3}`, `\d{1,3}(?=(?:\d{3})*\b)`, `[^\r\n\p{L}\p{N}]?\p{L}+`, `\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*`,
	`'(?i:s|t|re)|\p{L}++|.`, `(?s:.)`, `[[:alpha:]]+`, `[[:punct:]]`, `\h+`, `\w+|[^\w\s]+`, `(?i:ss|straße|k)`, `\p{Lu}\p{Ll}*`,
	`[\p{L}&&[^\p{Han}]]+`, `\X`, `\R`, `^.`, `.$`, `\s+$`, `\n+(?!\S)`, `(a|b)*c`, `\p{Han}+|\p{Hiragana}+|\p{Katakana}+`,
	`\p{Emoji}`, `[\u4e00-\u9fa5]+`, `[^\S\r\n]+`, `\p{Cyrillic}+`, `[\s\S]{1,7}`, `(?>a+)b`, `a{,2}b`, `[a-\d]`, `[\]a]+`,
	`(?x) a b `, `(a)\1`, `\p{Zs}+`, `[[:^space:]]+`, `\p{M}+`, `(?i:\p{Lu})`, `\S+\s`, `[\W\d]+`, `[^\W\p{N}]+`, `\b\w`, `\B.`,
	`(?i:[ǅ-ǳ])`, `(?<!\w)\d+`, `(?<=ab|c)d`, `\s{2,}|\S`, `\G.`, `(?m:.)+`, `[a-z&&[^x]]`, `\p{Lm}|\p{Sk}+`, `[!-/:-@]`,
	`[\u0300-\u036f]`, `(?:a{2}){1,2}`, `a{1,2}{2}`, `a*+a`, `\p{Any}`, `\p{Cn}`, `\p{Co}|\p{Cf}`, `(?#c)a`, `\e`, `#`,
}

var behaviors = []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}

// Components makes n tokenizers of the trained ones in a folder, with normalizers,
// pre-tokenizers, added tokens and model options at random. Not every one can be loaded.
func (s *Source) Components(dir string, n int) ([]Variant, error) {
	files := map[string][]byte{}
	for _, base := range bases {
		text, err := os.ReadFile(filepath.Join(dir, base+".json")) //nolint:gosec // a tool of tests reads what it is told to
		if err != nil {
			return nil, err
		}
		files[base] = text
	}
	out := make([]Variant, 0, n)
	for i := range n {
		base := s.pick(bases)
		var file object
		if err := json.Unmarshal(files[base], &file); err != nil {
			return nil, err
		}
		s.change(file)
		text, err := json.Marshal(file)
		if err != nil {
			return nil, err
		}
		out = append(out, Variant{Name: fmt.Sprintf("%s-%d", base, i), File: text})
	}
	return out, nil
}

// likely is true in so many of ten cases.
func (s *Source) likely(tenths int) bool { return s.r.IntN(10) < tenths }

func (s *Source) change(file object) {
	model, _ := file["model"].(object)
	vocab, _ := model["vocab"].(object)
	added, _ := file["added_tokens"].([]any)
	for _, content := range s.sample(addable, s.r.IntN(7)) {
		added = append(added, object{
			"id": len(vocab) + s.r.IntN(50), "content": content, "single_word": s.likely(3), "lstrip": s.likely(3), "rstrip": s.likely(3),
			"normalized": s.likely(5), "special": s.likely(4),
		})
	}
	file["added_tokens"] = added
	if s.likely(6) {
		file["normalizer"] = nil
		if s.likely(8) {
			file["normalizer"] = s.normalizer(0)
		}
	}
	if s.likely(7) {
		file["pre_tokenizer"] = nil
		if s.likely(9) {
			file["pre_tokenizer"] = s.preTokenizer(0)
		}
	}
	for _, option := range []string{"fuse_unk", "byte_fallback", "ignore_merges"} {
		if s.likely(3) {
			on, _ := model[option].(bool)
			model[option] = !on
		}
	}
	if s.likely(1) {
		model["unk_token"] = []any{nil, "<unk>", "a", "not in it"}[s.r.IntN(4)]
	}
	if s.likely(1) {
		var bytes []string
		for token := range vocab {
			if strings.HasPrefix(token, "<0x") {
				bytes = append(bytes, token)
			}
		}
		if slices.Sort(bytes); len(bytes) > 0 { // a byte that can't be fallen back on
			delete(vocab, s.pick(bytes))
		}
	}
}

func (s *Source) sample(from []string, n int) []string {
	out := slices.Clone(from)
	s.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}

// pattern is what a component looks for.
func (s *Source) pattern() object {
	switch {
	case s.likely(4):
		return object{"String": s.pick(literals)}
	case s.likely(2):
		return object{"Regex": s.Pattern()}
	default:
		return object{"Regex": s.pick(splits)}
	}
}

const maxNesting = 2

// several makes a sequence of one to three parts.
func (s *Source) several(one func(depth int) object, depth int) []any {
	list := make([]any, 1+s.r.IntN(3))
	for i := range list {
		list[i] = one(depth + 1)
	}
	return list
}

func (s *Source) normalizer(depth int) object {
	switch s.r.IntN(14) {
	case 0:
		if depth < maxNesting {
			return object{"type": "Sequence", "normalizers": s.several(s.normalizer, depth)}
		}
		return object{"type": "Nmt"}
	case 1, 2:
		return object{"type": s.pick([]string{"NFC", "NFD", "NFKC", "NFKD"})}
	case 3, 4:
		return object{"type": "Prepend", "prepend": s.pick(literals)}
	case 5, 6, 7:
		return object{"type": "Replace", "pattern": s.pattern(), "content": s.pick(literals)}
	case 8:
		return object{"type": "Lowercase"}
	case 9:
		return object{"type": "Strip", "strip_left": s.likely(5), "strip_right": s.likely(5)}
	case 10:
		return object{"type": "StripAccents"}
	case 11:
		return object{"type": "Nmt"}
	case 12:
		return object{
			"type": "BertNormalizer", "clean_text": s.likely(5), "handle_chinese_chars": s.likely(5),
			"strip_accents": []any{nil, true, false}[s.r.IntN(3)], "lowercase": s.likely(5),
		}
	default:
		return object{"type": "ByteLevel"}
	}
}

func (s *Source) preTokenizer(depth int) object {
	switch s.r.IntN(16) {
	case 0, 1, 2:
		if depth < maxNesting {
			return object{"type": "Sequence", "pretokenizers": s.several(s.preTokenizer, depth)}
		}
		return object{"type": "WhitespaceSplit"}
	case 3, 4, 5, 6:
		return object{"type": "Split", "pattern": s.pattern(), "behavior": s.pick(behaviors), "invert": s.likely(4)}
	case 7, 8:
		return object{"type": "ByteLevel", "add_prefix_space": s.likely(4), "trim_offsets": s.likely(5), "use_regex": s.likely(5)}
	case 9:
		return object{
			"type": "Metaspace", "replacement": s.pick([]string{"▁", "_", "é"}), "prepend_scheme": s.pick([]string{"always", "never", "first"}),
			"split": s.likely(5),
		}
	case 10:
		return object{"type": "Digits", "individual_digits": s.likely(5)}
	case 11:
		return object{"type": "Punctuation", "behavior": s.pick(behaviors)}
	case 12:
		return object{"type": s.pick([]string{"Whitespace", "WhitespaceSplit", "BertPreTokenizer"})}
	case 13:
		return object{"type": "CharDelimiterSplit", "delimiter": s.pick([]string{" ", "a", "é"})}
	case 14:
		return object{"type": "UnicodeScripts"}
	default:
		return object{"type": "FixedLength", "length": 1 + s.r.IntN(5)}
	}
}

// atoms are pieces that the components of Components treat in ways of their own.
var atoms = append(append([]string{
	"don't ", "I'LL ", " \u00a0", "\u3000", "\u200b", "\u0085", "\x1c", "\u2028", "\ufeff", "\x00", "\x07", "\u0327", "\u0345",
	"ΑΣ ", "ΑΣΣ", "ſ", "DŽ", "İi", "\u212a", "123456", "12 345", " .,!?", "\r\n", "\n \n", "\t", "漢字かなカナ", "ー", "한글",
	"\u1100\u1161\u11a8", "🏽👩‍👩‍👧", "abcabc", "aaaa", "bbc", "hello world", "Straße", strings.Repeat("x", 30), "\U00010041\u0323",
	"q\u0307\u0323", "ﷺ", "½²", "٣४", "\ue000", "\U000e0100", "\u0378", "<0x41>", "##a", "</w>", "|", "$", "`", "Ａ１",
}, addable...), literals...)

// Atoms returns a text of some such pieces.
func (s *Source) Atoms() string {
	var b strings.Builder
	for range []int{0, 1, 1, 2, 3, 5, 8, 14, 25}[s.r.IntN(9)] {
		b.WriteString(s.pick(atoms))
	}
	return b.String()
}
