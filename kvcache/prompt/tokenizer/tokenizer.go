package tokenizer

import (
	"sync"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/bpe"
)

// Options tune a tokenizer. The zero value is fine.
type Options struct {
	// CacheBytes bounds the memory, in bytes, that the caches of words and of stretches
	// between special tokens take together. 0 means 64 MiB; negative means no caches.
	CacheBytes int64
}

const defaultCacheBytes = 64 << 20

// split divides the memory between the two caches.
func (o Options) split() (words, segments int64) {
	n := o.CacheBytes
	if n == 0 {
		n = defaultCacheBytes
	}
	n = max(n, 0)
	return n / 4, n - n/4
}

// Tokenizer turns texts into token ids. It is immutable but for its caches, safe for
// concurrent use, and needs no closing.
type Tokenizer struct {
	model       *bpe.Model
	vocab       map[string]uint32
	tokens      tokenTable
	added       map[string]uint32
	names       map[uint32]string // of added tokens
	raw         *finder           // tokens that are looked for in the text as it is
	normal      *finder           // tokens that are looked for in normalized text
	normalizers []normalizer
	stages      []stage
	before      []uint32
	after       []uint32
	segments    *segments
	// firstDiffers says that the beginning of a text is treated differently from what
	// comes after a special token.
	firstDiffers bool
	pool         sync.Pool
}

// ID returns the id of a token, be it of the vocabulary or added.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	if id, ok := t.added[token]; ok {
		return id, true
	}
	id, ok := t.vocab[token]
	return id, ok
}

// Token returns the token with an id, as the file spells it: in byte-level models with
// characters that stand for bytes.
func (t *Tokenizer) Token(id uint32) (string, bool) {
	if s, ok := t.names[id]; ok {
		return s, true
	}
	return t.tokens.get(id)
}

// Size returns the number of tokens, added ones included. Ids may leave gaps.
func (t *Tokenizer) Size() int {
	n := len(t.vocab)
	for token := range t.added {
		if _, ok := t.vocab[token]; !ok {
			n++
		}
	}
	return n
}

// maxText keeps positions in normalized texts within 32 bits.
const maxText = 256 << 20

// Encode appends to dst the ids of text: exactly those of the Rust tokenizers. Special
// tokens written out in the text are recognised. With addSpecial, the ids that the file's
// post-processor puts around a text are included.
//
// It returns ErrInvalidUTF8, ErrTooLong or ErrTooComplex, and then dst as it was. Time is
// linear in the length of the text but for words of thousands of characters, where it is
// n log n. What lies between two special tokens is cached, so that a conversation that
// grew costs little more than what was added.
func (t *Tokenizer) Encode(dst []uint32, text string, addSpecial bool) ([]uint32, error) {
	return t.EncodeWithin("", dst, text, addSpecial)
}

// EncodeWithin is Encode with a cache of stretches that only texts of the same scope share,
// a tenant's for example: how long it takes tells nothing of what was encoded for others.
// Words of up to 96 bytes are cached for all.
func (t *Tokenizer) EncodeWithin(scope string, dst []uint32, text string, addSpecial bool) ([]uint32, error) {
	if len(text) > maxText {
		return dst, ErrTooLong
	}
	out := dst
	if addSpecial {
		out = append(out, t.before...)
	}
	w := t.borrow()
	defer t.giveBack(w)
	parts := walk[string]{f: t.raw, text: text}
	for p, ok := parts.next(); ok; p, ok = parts.next() {
		if p.token >= 0 {
			out = append(out, t.raw.tokens[p.token].id)
			continue
		}
		var err error
		if out, err = t.gap(scope, out, text[p.lo:p.hi], p.lo == 0, w); err != nil {
			return dst, err
		}
	}
	if addSpecial {
		out = append(out, t.after...)
	}
	return out, nil
}

// gap encodes what lies between two special tokens.
func (t *Tokenizer) gap(scope string, dst []uint32, text string, first bool, w *work) ([]uint32, error) {
	first = first && t.firstDiffers
	if !t.segments.takes(text) {
		return t.encodeGap(dst, text, first, w)
	}
	dst, key, hit := t.segments.get(dst, scope, text, first)
	if hit {
		return dst, nil
	}
	n := len(dst)
	dst, err := t.encodeGap(dst, text, first, w)
	if err == nil {
		t.segments.put(key, scope, text, first, dst[n:])
	}
	return dst, err
}

func (t *Tokenizer) encodeGap(dst []uint32, text string, first bool, w *work) ([]uint32, error) {
	if !utf8.ValidString(text) {
		return dst, ErrInvalidUTF8
	}
	w.raw = append(w.raw[:0], text...)
	normal, err := t.normalize(w.raw, w)
	if err != nil {
		return dst, err
	}
	if len(normal) > maxText {
		return dst, ErrTooLong
	}
	parts := walk[[]byte]{f: t.normal, text: normal}
	for p, ok := parts.next(); ok; p, ok = parts.next() {
		if p.token >= 0 {
			dst = append(dst, t.normal.tokens[p.token].id)
			continue
		}
		w.first = first && p.lo == 0
		if dst, err = t.encodePart(dst, normal[p.lo:p.hi], w); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// encodePart pre-tokenizes a text without added tokens, and encodes the pieces.
func (t *Tokenizer) encodePart(dst []uint32, text []byte, w *work) ([]uint32, error) {
	w.text, w.fresh = text, false
	w.spans = append(w.spans[:0], span{0, int32(len(text))})
	for _, s := range t.stages {
		if err := s.run(w); err != nil {
			return dst, err
		}
	}
	for _, s := range w.spans {
		dst = t.model.Append(dst, w.text[s.lo:s.hi], &w.bpe)
	}
	return dst, nil
}
