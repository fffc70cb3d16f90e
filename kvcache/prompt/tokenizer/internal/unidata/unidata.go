package unidata

import (
	_ "embed"
	"encoding/binary"
)

//go:embed tables.bin
var tables string

// Range is the code points from Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// Class returns the members of a class, ascending and disjoint. Names are those of
// unicode.txt: a general category, script or property as the Unicode standard spells it;
// "posix:NAME" for [[:NAME:]], "p:NAME" for \p{NAME} where the two differ; `\d` and its
// like; "(?i)x" for a letter regardless of case; "rust:NAME" and "regex:NAME" for
// predicates of the Rust code. Ranges may span the surrogates, which no text holds.
func Class(name string) ([]Range, bool) {
	body, ok := find("class " + name)
	if !ok {
		return nil, false
	}
	var out []Range
	each(body, func(row []rune) {
		out = append(out, Range{row[0], row[0] + row[1]})
	})
	return out, true
}

// Combining returns the combining class of every code point that has one. Only their
// order is known to be that of the Rust code, and only their order matters.
func Combining() map[rune]uint8 {
	out := map[rune]uint8{}
	table("ccc", func(row []rune) {
		for c := row[0]; c <= row[0]+row[1]; c++ {
			out[c] = uint8(row[2])
		}
	})
	return out
}

// Decompositions returns the full decomposition of every code point that has one, other
// than the Hangul syllables; with compat, compatibility decompositions as well.
func Decompositions(compat bool) map[rune][]rune {
	out := map[rune][]rune{}
	put := func(row []rune) { out[row[0]] = append([]rune(nil), row[1:]...) }
	table("nfd", put)
	if compat {
		table("nfkd", put)
	}
	return out
}

// Composites returns the primary composites, other than the Hangul syllables, by their
// two parts.
func Composites() map[[2]rune]rune {
	out := map[[2]rune]rune{}
	table("comp", func(row []rune) { out[[2]rune{row[0], row[1]}] = row[2] })
	return out
}

// Lower returns the lower case of every code point that changes.
func Lower() map[rune][]rune {
	out := map[rune][]rune{}
	table("lower", func(row []rune) { out[row[0]] = append([]rune(nil), row[1:]...) })
	return out
}

func table(name string, f func(row []rune)) {
	if body, ok := find(name); ok {
		each(body, f)
	}
}

func find(name string) (string, bool) {
	for rest := tables; rest != ""; {
		var key, body string
		key, rest = field(rest)
		body, rest = field(rest)
		if key == name {
			return body, true
		}
	}
	return "", false
}

// each calls f with every row; the slice is reused.
func each(body string, f func(row []rune)) {
	var row []rune
	var first rune
	for body != "" {
		var n, v uint64
		n, body = uvarint(body)
		row = row[:0]
		for range n {
			v, body = uvarint(body)
			row = append(row, rune(v))
		}
		first += row[0]
		row[0] = first
		f(row)
	}
}

func field(s string) (head, rest string) {
	n, rest := uvarint(s)
	return rest[:n], rest[n:]
}

func uvarint(s string) (value uint64, rest string) {
	v, n := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	return v, s[n:]
}
