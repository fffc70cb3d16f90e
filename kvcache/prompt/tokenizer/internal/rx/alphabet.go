package rx

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Atoms below maxAtoms are sets of code points. endAtom stands for the end of the text in
// first sets; tailAtom for the continuation bytes of a character.
const (
	maxAtoms = 62
	endAtom  = 62
	tailAtom = 63

	endBit  = uint64(1) << endAtom
	tailBit = uint64(1) << tailAtom
)

const pageBits = 7 // code points of a page, as a power of two

// Alphabet maps code points to atoms.
type Alphabet struct {
	ascii [utf8.RuneSelf]uint8
	pages [maxRune>>pageBits + 1]uint16 // into blocks
	block [][1 << pageBits]uint8
}

// Atoms appends to dst the atom of each byte of text, which must be UTF-8.
func (a *Alphabet) Atoms(dst, text []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, len(text))[:n+len(text)]
	out := dst[n:]
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			out[i] = a.ascii[c]
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		out[i] = a.atom(r)
		for j := i + 1; j < i+size; j++ {
			out[j] = tailAtom
		}
		i += size
	}
	return dst
}

func (a *Alphabet) atom(r rune) uint8 {
	return a.block[a.pages[r>>pageBits]][r&(1<<pageBits-1)]
}

// alphabet cuts the code points into atoms by the given sets, and returns the mask of
// each set.
func alphabet(sets []set) (*Alphabet, []uint64, error) {
	// Where membership of any set changes, a new stretch begins.
	cuts := []rune{0}
	for _, s := range sets {
		for _, r := range s {
			cuts = append(cuts, r.Lo, r.Hi+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if last := len(cuts) - 1; cuts[last] > maxRune {
		cuts = cuts[:last]
	}
	a := &Alphabet{}
	masks := make([]uint64, len(sets))
	atoms := map[string]uint8{} // by the sets that hold the stretch
	at := make([]int, len(sets))
	key := make([]byte, len(sets))
	flat := make([]uint8, maxRune+1)
	for i, lo := range cuts {
		for k, s := range sets {
			for at[k] < len(s) && s[at[k]].Hi < lo {
				at[k]++
			}
			key[k] = 0
			if at[k] < len(s) && s[at[k]].Lo <= lo {
				key[k] = 1
			}
		}
		id, ok := atoms[string(key)]
		if !ok {
			if len(atoms) == maxAtoms {
				return nil, nil, fmt.Errorf("%w: the patterns tell more than %d kinds of characters apart", ErrSyntax, maxAtoms)
			}
			id = uint8(len(atoms))
			atoms[string(key)] = id
			for k := range sets {
				masks[k] |= uint64(key[k]) << id
			}
		}
		hi := rune(maxRune + 1)
		if i+1 < len(cuts) {
			hi = cuts[i+1]
		}
		for r := lo; id != 0 && r < hi; r++ {
			flat[r] = id
		}
	}
	a.fold(flat)
	return a, masks, nil
}

// fold keeps each distinct page of the flat table once.
func (a *Alphabet) fold(flat []uint8) {
	copy(a.ascii[:], flat)
	seen := map[[1 << pageBits]uint8]uint16{}
	for p := range a.pages {
		block := [1 << pageBits]uint8(flat[p<<pageBits:])
		id, ok := seen[block]
		if !ok {
			id = uint16(len(a.block))
			seen[block] = id
			a.block = append(a.block, block)
		}
		a.pages[p] = id
	}
}
