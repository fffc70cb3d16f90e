package rx

import (
	"cmp"
	"slices"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/unidata"
)

const maxRune = 0x10FFFF

// A set is an ascending list of disjoint ranges that don't touch.
type set []unidata.Range

func single(r rune) set { return set{{Lo: r, Hi: r}} }

// named returns a class of unidata; it must exist.
func named(name string) (set, bool) {
	r, ok := unidata.Class(name)
	return set(r), ok
}

func (s set) has(r rune) bool {
	_, found := slices.BinarySearchFunc(s, r, func(x unidata.Range, r rune) int {
		switch {
		case x.Hi < r:
			return -1
		case x.Lo > r:
			return 1
		default:
			return 0
		}
	})
	return found
}

func (s set) ascii() bool { return len(s) == 0 || s[len(s)-1].Hi < 0x80 }

func union(sets ...set) set {
	var all set
	for _, s := range sets {
		all = append(all, s...)
	}
	slices.SortFunc(all, func(a, b unidata.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	var out set
	for _, r := range all {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

func complement(s set) set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r.Lo > next {
			out = append(out, unidata.Range{Lo: next, Hi: r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= maxRune {
		out = append(out, unidata.Range{Lo: next, Hi: maxRune})
	}
	return out
}

func intersection(a, b set) set {
	return complement(union(complement(a), complement(b)))
}
