package tokenizer

import (
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
)

// addedToken is a token that is found in the text before anything else is done to it.
type addedToken struct {
	id         uint32
	content    string
	singleWord bool
	lstrip     bool
	rstrip     bool
	normalized bool // it is looked for in the normalized text
}

// maxAdded bounds the length of an added token, and so the work per byte of text.
const maxAdded = 1024

func (l *loader) loadAdded(v *jsontree.Value) error {
	if v.Kind != jsontree.Array {
		return malformedf("added_tokens", "expected a list")
	}
	for i := range v.Items {
		item := &v.Items[i]
		c := &component{path: "added_tokens", value: item, known: map[string]bool{}}
		if item.Kind != jsontree.Object {
			return malformedf(c.path, "expected an object")
		}
		a := addedToken{
			id:         c.number("id"),
			content:    c.text("content"),
			singleWord: c.flag("single_word"),
			lstrip:     c.flag("lstrip"),
			rstrip:     c.flag("rstrip"),
			normalized: c.flag("normalized"),
		}
		c.flag("special") // concerns decoding only
		if len(a.content) > maxAdded {
			c.refusef("a token longer than %d bytes", maxAdded)
		}
		if err := c.done(); err != nil {
			return err
		}
		l.added = append(l.added, a)
	}
	return nil
}

// A finder finds added tokens.
type finder struct {
	trie   trie
	tokens []addedToken
	word   runes
	space  runes
}

func newFinder(tokens []addedToken) *finder {
	if len(tokens) == 0 {
		return nil
	}
	f := &finder{tokens: tokens, word: runeSet("regex:word"), space: runeSet("regex:space")}
	f.trie.nodes = []trieNode{{value: noToken}}
	return f
}

// put adds the spelling of token i; false if it is empty or another token's.
func (f *finder) put(spelling []byte, i int) bool {
	return len(spelling) > 0 && f.trie.put(spelling, int32(i))
}

// part is a stretch of a text: added token number token, or what lies between tokens if
// that is negative.
type part struct {
	lo, hi int
	token  int32
}

// A walk goes through the parts of a text, as the Rust code would list them.
type walk[T string | []byte] struct {
	f                *finder // nil: the text is one part
	text             T
	pos              int  // where to look for the next token
	start            int  // where the latest token ended, white space included
	spaceLo, spaceHi int  // a stretch known to be white space, up to a character that isn't
	ready            bool // held is the next part
	held             part
	done             bool
}

// next returns the next part.
func (w *walk[T]) next() (part, bool) {
	if w.ready {
		w.ready = false
		return w.held, true
	}
	for !w.done {
		lo, hi, token := w.find()
		if token < 0 {
			w.done = true
			if w.start != len(w.text) {
				return part{w.start, len(w.text), noToken}, true
			}
			break
		}
		w.pos = hi
		t := &w.f.tokens[token]
		if t.singleWord && (w.wordBefore(lo) || w.wordAfter(hi)) {
			continue
		}
		if t.lstrip {
			lo = w.spaceBefore(lo)
		}
		if t.rstrip {
			hi = w.spaceAfter(hi)
		}
		if lo >= hi {
			continue // white space that the token before has taken: nothing is left of this one
		}
		p := part{lo, hi, token}
		gap := part{w.start, lo, noToken}
		w.start = hi
		if gap.lo < gap.hi {
			w.held, w.ready = p, true
			return gap, true
		}
		return p, true
	}
	return part{}, false
}

func (w *walk[T]) find() (lo, hi int, token int32) {
	if w.f == nil {
		return 0, 0, noToken
	}
	return find(&w.f.trie, w.text, w.pos)
}

func (w *walk[T]) wordBefore(i int) bool {
	r, size := lastRune(w.text[:i])
	return size > 0 && w.f.word.has(r)
}

func (w *walk[T]) wordAfter(i int) bool {
	r, size := firstRune(w.text[i:])
	return size > 0 && w.f.word.has(r)
}

// spaceBefore returns where white space that ends at i begins, no earlier than the part,
// even if i is: it may lie in what the token before has stripped.
func (w *walk[T]) spaceBefore(i int) int {
	i = max(i, w.start)
	for i > w.start {
		r, size := lastRune(w.text[:i])
		if !w.f.space.has(r) {
			break
		}
		i -= size
	}
	return i
}

// spaceAfter returns where white space that begins at i ends.
func (w *walk[T]) spaceAfter(i int) int {
	if w.spaceLo <= i && i <= w.spaceHi {
		return w.spaceHi
	}
	w.spaceLo = i
	for i < len(w.text) {
		r, size := firstRune(w.text[i:])
		if !w.f.space.has(r) {
			break
		}
		i += size
	}
	w.spaceHi = i
	return i
}

// firstRune and lastRune decode without turning bytes into a string that is allocated.
func firstRune[T string | []byte](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	n := copy(b[:], s)
	return utf8.DecodeRune(b[:n])
}

func lastRune[T string | []byte](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	n := copy(b[:], s[max(0, len(s)-utf8.UTFMax):])
	return utf8.DecodeLastRune(b[:n])
}
