// Package rx matches the regular expressions of tokenizer files as Oniguruma does.
//
// Go's regexp has no lookahead and other classes, so this is a backtracking matcher of
// its own, for the part of the syntax that such files use. Whatever it doesn't know, it
// refuses at compile time.
//
// Patterns of one tokenizer are compiled together. The classes that occur in them cut the
// code points into a few atoms: sets whose members no pattern can tell apart. A text is
// turned into atoms once, a byte for each byte of text, and all matching happens on that:
// a class is a 64-bit mask of atoms, and a test one shift. Continuation bytes of UTF-8 are
// an atom of their own that belongs to every class, so that a run of characters is a run
// of bytes.
//
// Time is bounded by a budget proportional to the text; what exceeds it is ErrBudget,
// never a wrong answer. All types are safe for concurrent use once compiled, but for
// Matcher, which is the scratch space of one goroutine.
package rx
