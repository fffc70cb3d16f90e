package tokenizer

import (
	"bytes"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/bpe"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
)

// A stage splits or rewrites the pieces of a text.
type stage interface{ run(w *work) error }

// gpt2 is the pattern of a ByteLevel pre-tokenizer: an English contraction; letters,
// numbers or other characters, with a space before them; white space.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// loadPreTokenizer appends the stages of a component, sequences laid flat.
func (l *loader) loadPreTokenizer(path string, v *jsontree.Value) error {
	c := l.component(path, v)
	if c.err != nil {
		return c.err
	}
	class := func(name string) *splitter {
		re, err := l.rx.AddClass(name)
		if err != nil {
			c.refusef("%v", err)
		}
		return &splitter{re: re, alphabet: &l.alphabet}
	}
	switch c.kind {
	case "Sequence":
		c.items("pretokenizers", l.loadPreTokenizer)
	case "ByteLevel":
		l.loadByteLevel(c)
	case "Metaspace":
		l.loadMetaspace(c)
	case "Split":
		s := &splitter{alphabet: &l.alphabet, behavior: c.behavior("behavior"), invert: c.flag("invert")}
		s.literal, s.re = c.pattern("pattern", &l.rx)
		l.stage(s)
	case "Digits":
		s := class("rust:numeric")
		s.behavior = contiguous
		if c.flag("individual_digits") {
			s.behavior = isolated
		}
		l.stage(s)
	case "Punctuation":
		s := class("rust:punctuation")
		s.behavior = isolated
		if c.get("behavior") != nil {
			s.behavior = c.behavior("behavior")
		}
		l.stage(s)
	case "Whitespace":
		re, err := l.rx.AddWords("regex:word", "regex:space")
		if err != nil {
			c.refusef("%v", err)
		}
		l.stage(&splitter{re: re, alphabet: &l.alphabet, behavior: removed, invert: true})
	case "WhitespaceSplit":
		l.stage(class("rust:whitespace"))
	case "BertPreTokenizer":
		l.stage(class("rust:whitespace"))
		s := class("rust:bertpunct")
		s.behavior = isolated
		l.stage(s)
	case "CharDelimiterSplit":
		s := &splitter{literal: []byte(c.text("delimiter")), behavior: removed}
		if utf8.RuneCount(s.literal) != 1 {
			c.refusef("a delimiter that isn't one character")
		}
		l.stage(s)
	case "FixedLength":
		n := uint32(5) // what the Rust code takes if it isn't said
		if c.get("length") != nil {
			n = c.number("length")
		}
		if n == 0 || n > math.MaxInt32 {
			c.refusef("a length of %d", n)
		}
		l.stage(fixedLength(n))
	default:
		c.refusef("pre-tokenizer")
	}
	return c.done()
}

func (c *component) behavior(name string) behavior {
	b, ok := behaviorOf(c.text(name))
	if !ok {
		c.refusef("field %q has an unknown value", name)
	}
	return b
}

func (l *loader) stage(s stage) { l.stages = append(l.stages, s) }

func (l *loader) loadByteLevel(c *component) {
	addSpace, useRegex := c.flag("add_prefix_space"), c.optionalFlag("use_regex", true)
	c.flag("trim_offsets") // concerns offsets only
	if l.byteLevel {
		c.refusef("a second ByteLevel")
	}
	if addSpace {
		l.stage(prefixSpace{})
	}
	if useRegex {
		re, err := l.rx.Add(gpt2)
		if err != nil {
			c.refusef("%v", err)
		}
		l.stage(&splitter{re: re, alphabet: &l.alphabet, behavior: isolated})
	}
	l.byteLevel = true
	l.mapped = len(l.stages)
	l.rewrites = true
}

// prefixSpace puts a space before each piece that doesn't begin with one.
type prefixSpace struct{}

func (prefixSpace) run(w *work) error {
	return w.rewrite(func(dst, piece []byte) []byte {
		if len(piece) > 0 && piece[0] != ' ' {
			dst = append(dst, ' ')
		}
		return append(dst, piece...)
	})
}

// byteMap spells the bytes of each piece as characters; unmap turns them back. The map is
// left out where nothing comes between the two.
type byteMap struct{ alphabet *[256]rune }

func (b byteMap) run(w *work) error {
	return w.rewrite(func(dst, piece []byte) []byte {
		for _, c := range piece {
			dst = utf8.AppendRune(dst, b.alphabet[c])
		}
		return dst
	})
}

type unmap struct{ bytes map[rune]byte }

func newUnmap(alphabet *[256]rune) unmap {
	u := unmap{map[rune]byte{}}
	for b, r := range alphabet {
		u.bytes[r] = byte(b)
	}
	return u
}

func (u unmap) run(w *work) error {
	return w.rewrite(func(dst, piece []byte) []byte {
		for i := 0; i < len(piece); {
			r, size := utf8.DecodeRune(piece[i:])
			dst = append(dst, u.bytes[r])
			i += size
		}
		return dst
	})
}

// finishStages puts the byte map where it belongs, if it is needed.
func (l *loader) finishStages() {
	if !l.byteLevel || l.mapped == len(l.stages) {
		return
	}
	a := bpe.Alphabet()
	l.stages = append(slices.Insert(l.stages, l.mapped, stage(byteMap{a})), newUnmap(a))
}

// metaspace turns spaces into a character, puts one before the text, and splits before
// each.
type metaspace struct {
	mark      []byte
	always    bool
	onlyFirst bool // only before the piece that begins where the input begins
}

func (l *loader) loadMetaspace(c *component) {
	mark := c.text("replacement")
	if utf8.RuneCountInString(mark) != 1 {
		c.refusef("a replacement that isn't one character")
	}
	if r, _ := utf8.DecodeRuneInString(mark); l.byteLevel && !slices.Contains(bpe.Alphabet()[:], r) {
		c.refusef("a replacement that stands for no byte, after ByteLevel")
	}
	scheme := "always"
	if v := c.get("prepend_scheme"); v != nil && v.Kind != jsontree.Null {
		scheme = c.text("prepend_scheme")
	}
	if !c.optionalFlag("add_prefix_space", true) && scheme != "never" {
		c.refusef("add_prefix_space and prepend_scheme contradict each other")
	}
	c.optionalText("str_rep") // the replacement again, in old files
	m := metaspace{mark: []byte(mark)}
	switch scheme {
	case "always":
		m.always = true
	case "first":
		m.onlyFirst = true
		// Where a piece began in the input is known only as long as nothing moved it.
		if l.shifts || l.rewrites {
			c.refusef(`prepend_scheme "first" after something that rewrites the text`)
		}
	case "never":
	default:
		c.refusef("prepend_scheme %q", scheme)
	}
	l.stage(m)
	l.rewrites = true
	if c.optionalFlag("split", true) {
		l.stage(&splitter{literal: m.mark, behavior: mergedWithNext})
	}
}

func (m metaspace) run(w *work) error {
	i := -1
	return w.rewrite(func(dst, piece []byte) []byte {
		i++
		if len(piece) == 0 {
			return dst
		}
		begins := piece[0] == ' ' || bytes.HasPrefix(piece, m.mark)
		if !begins && (m.always || m.onlyFirst && w.first && w.spans[i].lo == 0) {
			dst = append(dst, m.mark...)
		}
		for {
			n := bytes.IndexByte(piece, ' ')
			if n < 0 {
				return append(dst, piece...)
			}
			dst = append(append(dst, piece[:n]...), m.mark...)
			piece = piece[n+1:]
		}
	})
}
