package fleettest

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Ids of the tokenizer. Those below firstWord are special.
const (
	// VocabSize bounds the ids.
	VocabSize = 151936

	tokenStart  = 1 // opens a message of the chat template
	tokenEnd    = 2 // closes it
	tokenImage  = 3 // stands for a piece of an image
	tokenTools  = 4 // precedes the tools' definitions
	tokenCall   = 5 // precedes an assistant's tool calls
	firstWord   = 256
	maxPiece    = 12 // bytes; longer words are several tokens
	imageTokens = 64 // placeholder tokens of one image
)

// Tokenize returns the ids of a text. A token is a run of at most 12 bytes that
// are not white space, together with one space before it; other white space is
// a token a byte. Ids are hashes of their text, so there is no table and no way
// back. Concatenating texts at a white-space boundary concatenates their ids.
// It is what the engines of this package use; it resembles no real tokenizer.
func Tokenize(text string) []uint32 {
	return appendTokens(make([]uint32, 0, len(text)/5+1), text)
}

func appendTokens(ids []uint32, text string) []uint32 {
	for text != "" {
		n := pieceLen(text)
		ids = append(ids, tokenID(text[:n]))
		text = text[n:]
	}
	return ids
}

// pieces returns the texts of a text's tokens.
func pieces(text string) []string {
	var list []string
	for text != "" {
		n := pieceLen(text)
		list = append(list, text[:n])
		text = text[n:]
	}
	return list
}

// pieceLen returns the length in bytes of the first token of a text.
func pieceLen(text string) int {
	i := 0
	if text[0] == ' ' {
		i = 1
	}
	start := i
	for i < len(text) && !isSpace(text[i]) && i-start < maxPiece {
		i++
	}
	if i == start { // white space of its own, or a space before more of it
		return 1
	}
	// Don't cut a character in two, unless it isn't one.
	for i < len(text) && i-start > maxPiece-utf8.UTFMax && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

func tokenID(piece string) uint32 {
	return firstWord + uint32(xxhash.Sum64String(piece)%(VocabSize-firstWord))
}

// Text returns a text of exactly the given number of tokens, which is different
// for every seed and the same for every call.
func Text(seed uint64, tokens int) string {
	rng := rand.New(rand.NewPCG(seed, textStream))
	var b strings.Builder
	b.Grow(tokens * len(" abcdef"))
	for i := range tokens {
		if i > 0 {
			b.WriteByte(' ')
		}
		writeWord(&b, rng)
	}
	return b.String()
}

// Streams of the random generators, so that one seed gives unrelated sequences.
const (
	textStream  = 1
	replyStream = 2
	faultStream = 3
)

// writeWord writes two or three syllables.
func writeWord(b *strings.Builder, rng *rand.Rand) {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	for range 2 + rng.IntN(2) {
		b.WriteByte(consonants[rng.IntN(len(consonants))])
		b.WriteByte(vowels[rng.IntN(len(vowels))])
	}
}

// words returns n tokens of pseudo-random text, determined by seed.
func words(seed uint64, n int) []string {
	text := Text(seed^replyStream, n)
	list := make([]string, 0, n)
	for text != "" {
		end := pieceLen(text)
		list = append(list, text[:end])
		text = text[end:]
	}
	return list
}
