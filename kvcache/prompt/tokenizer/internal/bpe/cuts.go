package bpe

import (
	"unicode/utf8"
)

// cuts knows between which characters no merge ever reaches. A long word, such as a whole
// text in models without a pre-tokenizer, is the concatenation of what it is cut into
// there: merging makes tokens of neighbouring characters only, so if no token that a merge
// makes holds two characters side by side, nothing is ever merged across that place.
//
// It is a filter of one bit per pair of characters: a false yes costs a cut, no more.
type cuts struct {
	bits  []uint64
	shift uint8
}

const (
	cutAtLeast  = 24 // bytes of a word that is worth cutting
	bitsPerPair = 12
)

func newCuts(c Config, s *starts) *cuts {
	text := make(map[uint32]string, len(c.Vocab))
	for token, id := range c.Vocab {
		text[id] = token
	}
	size := uint8(10)
	for 1<<size < bitsPerPair*len(c.Merges) {
		size++
	}
	k := &cuts{bits: make([]uint64, 1<<size/64), shift: 64 - size}
	for _, g := range c.Merges {
		last, _ := utf8.DecodeLastRuneInString(text[g.A])
		first, _ := utf8.DecodeRuneInString(text[g.B])
		a, b := s.char(last), s.char(first)
		i := k.index(a, b)
		k.bits[i/64] |= 1 << (i % 64)
	}
	return k
}

func (k *cuts) index(a, b uint32) uint64 {
	const golden = 0x9E3779B97F4A7C15
	return pairKey(a, b) * golden >> k.shift
}

// joined says whether a merge might reach from a to b, given as starts.char does.
func (k *cuts) joined(a, b uint32) bool {
	i := k.index(a, b)
	return k.bits[i/64]>>(i%64)&1 != 0
}

// pieces encodes a long word piece by piece. It is only cut between characters that are
// tokens, so that unknown ones stay together.
func (m *Model) pieces(dst []uint32, word []byte, s *Scratch) []uint32 {
	begin := 0
	before := uint32(0)
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		this := m.starts.char(r)
		if before != 0 && this != 0 && !m.cuts.joined(before, this) {
			dst = m.piece(dst, word[begin:i], s)
			begin = i
		}
		before = this
		i += size
	}
	return m.piece(dst, word[begin:], s)
}

// isPiece marks cached pieces: a piece is never looked up as a token, a word may be.
const isPiece = 1

func (m *Model) piece(dst []uint32, word []byte, s *Scratch) []uint32 {
	if !m.cache.takes(word) {
		return m.encode(dst, word, s)
	}
	dst, hash, hit := m.cache.get(dst, word, isPiece)
	if hit {
		return dst
	}
	n := len(dst)
	dst = m.encode(dst, word, s)
	m.cache.put(hash, word, dst[n:], isPiece)
	return dst
}
