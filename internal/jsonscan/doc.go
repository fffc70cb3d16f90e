// Package jsonscan reads and rewrites JSON objects without decoding them.
//
// A gateway must send on the very bytes that it received but for the fields it
// had to change: re-encoding would reorder keys, round 9007199254740993 and drop
// duplicates. So an [Object] is the original bytes with the span of each
// top-level field, and an [Edit] copies those bytes around the changed spans.
//
// Input is checked strictly against RFC 8259 in one pass: one value, no byte
// order mark, no comments, no trailing commas, no NaN. Bytes that are not UTF-8
// are refused, because engines refuse them too and because what they stand for
// is ambiguous. A lone surrogate escape (\ud800) is valid grammar and passes; it
// decodes to U+FFFD. Nesting is bounded. Keys are compared after unescaping, so
// "mod\u0065l" is model, as it is for the engine.
//
// Nothing here reads more than once per call, uses reflection, keeps a reference
// beyond the slices it returns, or is shared: all types are plain values that
// may be read by several goroutines while the body is not modified.
package jsonscan
