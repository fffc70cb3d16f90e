package tokenizer

import (
	"bytes"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/bpe"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/norm"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/rx"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/unidata"
)

// A normalizer rewrites a text before it is split. It appends the result to dst, or
// returns same when there is nothing to change.
type normalizer interface {
	apply(dst, text []byte, w *work) (out []byte, same bool, err error)
}

// normalize applies all of them in turn. The result is valid until the next call.
func (t *Tokenizer) normalize(text []byte, w *work) ([]byte, error) {
	turn := 0
	for _, n := range t.normalizers {
		out, same, err := n.apply(w.norm[turn][:0], text, w)
		if err != nil {
			return nil, err
		}
		if same {
			continue
		}
		w.norm[turn] = out
		text = out
		turn ^= 1
	}
	return text, nil
}

// loadNormalizer appends the normalizers of a component, sequences laid flat.
func (l *loader) loadNormalizer(path string, v *jsontree.Value) error {
	c := l.component(path, v)
	if c.err != nil {
		return c.err
	}
	var n normalizer
	aligned := false // it changes no piece's distance from the beginning; see metaspace
	switch c.kind {
	case "Sequence":
		c.items("normalizers", l.loadNormalizer)
		return c.done()
	case "NFC":
		n = form{norm.NewForm(true, false)}
	case "NFD":
		n = form{norm.NewForm(false, false)}
	case "NFKC":
		n = form{norm.NewForm(true, true)}
	case "NFKD":
		n = form{norm.NewForm(false, true)}
	case "Lowercase":
		n = newLowercase()
	case "StripAccents":
		n = newFilter(runeSet("rust:mark"), nil)
	case "Nmt":
		n = newFilter(runeSet("nmt:removed"), runeSet("nmt:space"))
	case "Strip":
		n = strip{left: c.flag("strip_left"), right: c.flag("strip_right"), space: runeSet("rust:strip")}
	case "Prepend":
		text := c.text("prepend")
		if text == "" { // the Rust code then loses track of what is where
			c.refusef("nothing to prepend")
		}
		n = prepend(text)
	case "ByteLevel":
		n = byteLevelNormalizer{bpe.Alphabet()}
	case "Replace":
		r := replace{content: []byte(c.text("content")), alphabet: &l.alphabet}
		r.literal, r.re = c.pattern("pattern", &l.rx)
		// Where nothing is replaced at the beginning of a text, the Rust code loses track of
		// what is where.
		if r.re != nil && r.re.Nullable {
			c.refusef("a pattern that may match nothing")
		}
		aligned = utf8.RuneCount(r.literal) == 1 && utf8.RuneCount(r.content) == 1
		n = r
	default:
		c.refusef("normalizer")
	}
	l.normalizers = append(l.normalizers, n)
	l.shifts = l.shifts || !aligned
	return c.done()
}

type form struct{ *norm.Form }

func (f form) apply(dst, text []byte, _ *work) ([]byte, bool, error) {
	if f.Same(text) {
		return dst, true, nil
	}
	return f.Append(dst, text), false, nil
}

type prepend string

func (p prepend) apply(dst, text []byte, _ *work) ([]byte, bool, error) {
	if len(text) == 0 {
		return dst, true, nil
	}
	return append(append(dst, p...), text...), false, nil
}

type replace struct {
	literal  []byte
	re       *rx.Regexp
	content  []byte
	alphabet **rx.Alphabet
}

func (r replace) apply(dst, text []byte, w *work) ([]byte, bool, error) {
	if r.re == nil {
		if !bytes.Contains(text, r.literal) {
			return dst, true, nil
		}
		for {
			i := bytes.Index(text, r.literal)
			if i < 0 {
				return append(dst, text...), false, nil
			}
			dst = append(append(dst, text[:i]...), r.content...)
			text = text[i+len(r.literal):]
			if len(dst) > maxText {
				return dst, false, ErrTooLong
			}
		}
	}
	w.at = (*r.alphabet).Atoms(w.at[:0], text)
	w.fresh = false
	w.rx.Begin(len(w.at))
	last := 0
	err := eachMatch(&w.rx, r.re, w.at, func(lo, hi int) {
		if len(dst) <= maxText { // else it is refused below
			dst = append(append(dst, text[last:lo]...), r.content...)
		}
		last = hi
	})
	if err == nil && len(dst) > maxText {
		err = ErrTooLong
	}
	return append(dst, text[last:]...), false, err
}

type byteLevelNormalizer struct{ alphabet *[256]rune }

func (b byteLevelNormalizer) apply(dst, text []byte, _ *work) ([]byte, bool, error) {
	for _, c := range text {
		dst = utf8.AppendRune(dst, b.alphabet[c])
	}
	return dst, false, nil
}

// A runes is a set of code points.
type runes []unidata.Range

func runeSet(class string) runes {
	r, _ := unidata.Class(class)
	return r
}

func (s runes) has(r rune) bool {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := (lo + hi) / 2
		switch {
		case r < s[mid].Lo:
			hi = mid
		case r > s[mid].Hi:
			lo = mid + 1
		default:
			return true
		}
	}
	return false
}

// filter removes some characters and makes spaces of others.
type filter struct{ remove, space runes }

func newFilter(remove, space runes) filter { return filter{remove, space} }

func (f filter) apply(dst, text []byte, _ *work) ([]byte, bool, error) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case f.remove.has(r):
		case f.space.has(r):
			dst = append(dst, ' ')
		default:
			dst = append(dst, text[i:i+size]...)
		}
		i += size
	}
	return dst, false, nil
}

type strip struct {
	left, right bool
	space       runes
}

func (s strip) apply(dst, text []byte, _ *work) ([]byte, bool, error) {
	n := len(text)
	if s.left {
		text = bytes.TrimLeftFunc(text, s.space.has)
	}
	if s.right {
		text = bytes.TrimRightFunc(text, s.space.has)
	}
	if len(text) == n {
		return dst, true, nil
	}
	return append(dst, text...), false, nil
}

type lowercase map[rune]string

func newLowercase() lowercase {
	l := lowercase{}
	for r, to := range unidata.Lower() {
		l[r] = string(to)
	}
	return l
}

func (l lowercase) apply(dst, text []byte, _ *work) ([]byte, bool, error) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case 'A' <= r && r <= 'Z':
			dst = append(dst, byte(r|0x20))
		case r < utf8.RuneSelf:
			dst = append(dst, byte(r))
		default:
			if to, ok := l[r]; ok {
				dst = append(dst, to...)
			} else {
				dst = append(dst, text[i:i+size]...)
			}
		}
		i += size
	}
	return dst, false, nil
}
