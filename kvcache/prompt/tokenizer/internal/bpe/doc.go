// Package bpe turns words into token ids by byte-pair encoding, as the BPE model of the
// Rust tokenizers does: of all pairs of neighbours, the one whose merge ranks first is
// merged first, the leftmost of equals before the others.
//
// A word is split into symbols, each a character that the vocabulary knows; or, where it
// doesn't, the bytes of that character, the unknown token, or nothing. In a byte-level
// model the characters stand for bytes, and the model is fed the bytes themselves.
//
// Short words are merged by looking for the best pair again and again; long ones with a
// heap, in time n log n. Words of up to 96 bytes are cached.
package bpe
