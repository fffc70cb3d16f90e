// Package unidata holds what the Rust tokenizers know of Unicode: the members of regexp
// classes, combining classes, decompositions, composites and lower case.
//
// Go's own tables can't serve: those crates carry several versions of the standard, the
// classes being newer than Go's and the combining classes much older. So every fact was
// asked of the Rust code itself (internal/e2e/tokenizer/unicode.py) and is kept here as
// unicode.txt.gz; gen.go packs it into tables.bin, which is what the package embeds.
package unidata

//go:generate go run gen.go
