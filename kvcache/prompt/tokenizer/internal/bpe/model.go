package bpe

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrModel is wrapped by what New returns for a model that can't be encoded with exactly.
var ErrModel = errors.New("bpe: unusable model")

// Config describes a model.
type Config struct {
	// Vocab maps tokens to ids. The model keeps it; it must not change.
	Vocab map[string]uint32
	// Merges lists the merges in the order of their ranks.
	Merges []Merge

	ByteLevel    bool   // words are bytes, which Alphabet spells as characters
	ByteFallback bool   // unknown characters become <0x..> tokens
	IgnoreMerges bool   // a word that is a token is that token
	FuseUnk      bool   // unknown characters in a row are one
	Unk          string // token of unknown characters; "" drops them
	Prefix       string // of all characters but the first of a word
	Suffix       string // of the last character of a word

	// CacheBytes bounds the memory of the word cache; 0 means no cache.
	CacheBytes int64
}

// Merge is two tokens that become one.
type Merge struct{ A, B, Merged uint32 }

// Model encodes words. It is immutable but for its cache, and safe for concurrent use.
type Model struct {
	pairs    *pairs
	vocab    map[string]uint32
	alphabet *[256]rune // of byte-level models
	starts   *starts
	cuts     *cuts // nil: words aren't cut
	cache    *cache

	ignoreMerges bool
	fuseUnk      bool
	prefix       string
	suffix       string
	unk          start
	fallback     *[256]uint32 // ids of <0x00> to <0xFF>; nil if there are none
	fallbackHas  [256]bool
}

// Scratch is the working memory of one goroutine. Its zero value is ready.
type Scratch struct {
	syms  []uint32
	merge []uint64
	heap  []uint64
	next  []int32
	prev  []int32
	text  []byte
	sweep sweeper
}

// Big says that the scratch has grown so much that it isn't worth keeping.
func (s *Scratch) Big() bool {
	const limit = 1 << 17
	return cap(s.syms) > limit
}

// New builds a model.
func New(c Config) (*Model, error) {
	m := &Model{
		vocab:        c.Vocab,
		ignoreMerges: c.IgnoreMerges,
		fuseUnk:      c.FuseUnk,
		prefix:       c.Prefix,
		suffix:       c.Suffix,
		cache:        newCache(c.CacheBytes),
	}
	if c.ByteLevel {
		m.alphabet = Alphabet()
	}
	m.pairs = newPairs(len(c.Merges))
	for rank, g := range c.Merges {
		m.pairs.put(g.A, g.B, uint64(rank)<<32|uint64(g.Merged))
	}
	if c.ByteFallback {
		m.fallback = new([256]uint32)
		for b := range m.fallback {
			m.fallback[b], m.fallbackHas[b] = c.Vocab[fmt.Sprintf("<0x%02X>", b)]
		}
	}
	m.unk = start{kind: startDrop}
	if c.Unk != "" {
		m.unk = start{kind: startUnkMissing}
		if id, ok := c.Vocab[c.Unk]; ok {
			m.unk = start{kind: startUnk, id: id}
		}
	}
	m.starts = newStarts(m)
	if missing := m.missingUnk(c.Vocab); missing {
		return nil, fmt.Errorf("%w: the unknown token isn't in the vocabulary", ErrModel)
	}
	if !c.ByteLevel && !m.affixed() {
		m.cuts = newCuts(c, m.starts)
	}
	return m, nil
}

// affixed says whether symbols depend on where in the word they are.
func (m *Model) affixed() bool { return m.prefix != "" || m.suffix != "" }

// missingUnk says whether some character might need an unknown token that doesn't exist.
// The Rust code fails when it meets one; here the model is refused.
func (m *Model) missingUnk(vocab map[string]uint32) bool {
	if m.unk.kind != startUnkMissing {
		return false
	}
	if m.alphabet == nil || m.affixed() {
		return true
	}
	for _, r := range m.alphabet {
		if _, ok := vocab[string(r)]; !ok {
			return true
		}
	}
	return false
}

// Alphabet returns the characters that stand for bytes in byte-level models: for a
// printable Latin-1 byte the character of that number, for the others those from U+0100 on.
func Alphabet() *[256]rune {
	var a [256]rune
	next := rune(0x100)
	for b := range rune(256) {
		printable := '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xFF && b != 0xAD
		if a[b] = b; !printable {
			a[b] = next
			next++
		}
	}
	return &a
}

// Append appends the ids of a word to dst. In a byte-level model the word is any bytes,
// else it must be UTF-8.
func (m *Model) Append(dst []uint32, word []byte, s *Scratch) []uint32 {
	if len(word) == 0 {
		return dst
	}
	var hash uint64
	cacheable := m.cache.takes(word)
	if cacheable {
		var hit bool
		if dst, hash, hit = m.cache.get(dst, word, 0); hit {
			return dst
		}
	}
	n := len(dst)
	if id, ok := m.whole(word, s); ok {
		dst = append(dst, id)
	} else if m.cuts != nil && len(word) > cutAtLeast {
		return m.pieces(dst, word, s)
	} else {
		dst = m.encode(dst, word, s)
	}
	if cacheable {
		m.cache.put(hash, word, dst[n:], 0)
	}
	return dst
}

// whole looks the word up as a token, if the model does that.
func (m *Model) whole(word []byte, s *Scratch) (uint32, bool) {
	if !m.ignoreMerges {
		return 0, false
	}
	if m.alphabet != nil {
		s.text = s.text[:0]
		for _, b := range word {
			s.text = utf8.AppendRune(s.text, m.alphabet[b])
		}
		word = s.text
	}
	id, ok := m.vocab[string(word)]
	return id, ok
}

// encode appends the ids of a word that is neither cached nor cut.
func (m *Model) encode(dst []uint32, word []byte, s *Scratch) []uint32 {
	switch {
	case m.affixed():
		m.affixedSymbols(word, s)
	case m.alphabet != nil:
		m.byteSymbols(word, s)
	default:
		m.charSymbols(word, s)
	}
	return m.merge(dst, s)
}
