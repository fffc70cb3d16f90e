// Package tokenizer turns texts into token ids exactly as the Hugging Face tokenizers
// (the Rust library that engines use) do, from the same tokenizer.json, in pure Go.
//
// A router needs the very ids that the engine will compute: with one id wrong, the keys of
// all blocks from there on are wrong, and nobody notices. So a file is either done
// exactly, component by component, or refused by Load with ErrUnsupported.
//
// # Supported files
//
// BPE models, byte-level or with byte fallback, with all their options but dropout; the
// normalizers NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, Prepend, Replace,
// ByteLevel; the pre-tokenizers ByteLevel, Split, Digits, Metaspace, Punctuation,
// Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit, FixedLength; the
// post-processors ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing; added
// tokens with all their flags; sequences of all these. Patterns are a subset of
// Oniguruma's syntax, see internal/rx.
//
// # How a text becomes ids
//
//	text ─ raw added tokens ─► gaps ─ normalize ─ normalized added tokens ─► parts
//	     ─ pre-tokenize ─► words ─ BPE ─► ids
//
// A gap tokenizes the same wherever it stands, so gaps are cached by their content, and
// words by theirs. Both caches are bounded (Options.CacheBytes) and change no result.
//
// # Map
//
//	load.go, model.go, component.go   the file
//	added.go, trie.go                 added tokens: what to find, and where
//	normalizer.go                     rewriting before the second pass
//	pretokenizer.go, split.go         splitting into words
//	post.go                           what comes around a text
//	tokenizer.go, work.go             Encode
//	segments.go                       the cache of gaps
//	internal/bpe                      words to ids, and the cache of words
//	internal/rx                       Oniguruma's regular expressions
//	internal/norm, internal/unidata   Unicode as the Rust crates know it
//	internal/jsontree                 strict JSON
package tokenizer
