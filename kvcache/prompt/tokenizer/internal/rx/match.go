package rx

import (
	"errors"
	"math/bits"
)

// ErrBudget reports a match that was given up because it took too many steps.
var ErrBudget = errors.New("rx: the pattern takes too long on this text")

// Steps that a scan may take: enough for any pattern that looks at each character a few
// dozen times, or that is quadratic on words of some thousand characters.
const (
	stepsPerByte = 64
	stepsAtLeast = 1 << 20
)

// Matcher holds what matching needs besides the pattern. Its zero value is ready.
type Matcher struct {
	stack []choice
	steps int
}

// A choice is a place to come back to: for a run, positions from hi down to lo (from lo up
// to hi if it is lazy); for an alternative, those of rest.
type choice struct {
	node   int32
	lo, hi int32
	rest   uint64
}

// Begin sets the budget for scanning a text of n bytes.
func (m *Matcher) Begin(n int) { m.steps = stepsAtLeast + stepsPerByte*n }

// Find returns the first match in at that begins at from or later; begin is -1 if there is
// none.
func (m *Matcher) Find(re *Regexp, at []byte, from int) (begin, end int, err error) {
	for i := from; i <= len(at); i++ {
		if !admits(re.first, at, i) {
			continue
		}
		end, err := m.run(re, re.start, at, i)
		if end >= 0 || err != nil {
			return i, end, err
		}
		if m.steps--; m.steps < 0 {
			return -1, -1, ErrBudget
		}
	}
	return -1, -1, nil
}

// admits says whether a match that begins with first may begin at i.
func admits(first uint64, at []byte, i int) bool {
	if i == len(at) {
		return first&endBit != 0
	}
	return first>>(at[i]&tailAtom)&1 != 0 && at[i] != tailAtom
}

// run matches the program that begins at a node, at exactly pos. It returns -1 if there is
// no match.
func (m *Matcher) run(re *Regexp, start int32, at []byte, pos int) (int, error) {
	base := len(m.stack)
	i := start
	for {
		n := &re.nodes[i]
		var ok bool
		switch n.op {
		case opMatch:
			m.stack = m.stack[:base]
			return pos, nil
		case opAlt:
			if i, ok = m.branch(n, i, at, pos); ok && m.steps >= 0 {
				continue
			}
		case opLook, opAtomic:
			end, err := m.run(re, n.sub, at, pos)
			if err != nil {
				m.stack = m.stack[:base]
				return -1, err
			}
			if n.op == opLook {
				ok = (end >= 0) != n.negate
			} else if ok = end >= 0; ok {
				pos = end
			}
		default:
			pos, ok = m.step(n, i, at, pos)
		}
		if ok && m.steps >= 0 {
			i = n.next
			continue
		}
		if m.steps < 0 {
			m.stack = m.stack[:base]
			return -1, ErrBudget
		}
		if len(m.stack) == base {
			return -1, nil
		}
		m.steps--
		i, pos = m.back(re, at)
	}
}

// branch takes the first alternative of a node that may begin at pos, and notes the rest.
func (m *Matcher) branch(n *node, i int32, at []byte, pos int) (int32, bool) {
	atom := endAtom
	if pos < len(at) {
		atom = int(at[pos])
	}
	rest := n.first[atom]
	if rest == 0 {
		return i, false
	}
	k := bits.TrailingZeros64(rest)
	if rest &= rest - 1; rest != 0 {
		m.stack = append(m.stack, choice{node: i, lo: int32(pos), rest: rest})
	}
	m.steps--
	return n.alts[k], true
}

// step matches one of the simple instructions, and returns where it ends.
func (m *Matcher) step(n *node, i int32, at []byte, pos int) (int, bool) {
	switch n.op {
	case opClass:
		if pos == len(at) || n.mask>>(at[pos]&tailAtom)&1 == 0 {
			return pos, false
		}
		return after(at, pos), true
	case opRun, opLazy:
		lo, hi := n.extent(at, pos)
		m.steps -= hi - pos
		if lo < 0 {
			return pos, false
		}
		if !n.keep && hi > lo {
			m.stack = append(m.stack, choice{node: i, lo: int32(lo), hi: int32(hi)})
		}
		if n.op == opLazy {
			return lo, true
		}
		return hi, true
	case opBehind:
		return pos, n.follows(at, pos) != n.negate
	default: // opAnchor
		return pos, n.holds(at, pos)
	}
}

// back takes the next possibility of the latest choice.
func (m *Matcher) back(re *Regexp, at []byte) (i int32, pos int) {
	last := len(m.stack) - 1
	c := &m.stack[last]
	n := &re.nodes[c.node]
	switch n.op {
	case opAlt:
		k := bits.TrailingZeros64(c.rest)
		pos = int(c.lo)
		if c.rest &= c.rest - 1; c.rest == 0 {
			m.stack = m.stack[:last]
		}
		return n.alts[k], pos
	case opRun:
		c.hi--
		for at[c.hi] == tailAtom {
			c.hi--
		}
		pos = int(c.hi)
	default: // opLazy
		pos = after(at, int(c.lo))
		c.lo = int32(pos)
	}
	if c.hi == c.lo {
		m.stack = m.stack[:last]
	}
	return n.next, pos
}

// extent returns where a run from pos must end at the least and may end at the most; lo is
// -1 if it is too short.
func (n *node) extent(at []byte, pos int) (lo, hi int) {
	count := int32(0)
	for hi = pos; count < n.min; count++ {
		if hi == len(at) || n.mask>>(at[hi]&tailAtom)&1 == 0 {
			return -1, hi
		}
		hi = after(at, hi)
	}
	lo = hi
	if n.max < 0 {
		for hi < len(at) && n.mask>>(at[hi]&tailAtom)&1 != 0 {
			hi++
		}
		return lo, hi
	}
	for ; count < n.max && hi < len(at) && n.mask>>(at[hi]&tailAtom)&1 != 0; count++ {
		hi = after(at, hi)
	}
	return lo, hi
}

// after returns where the character at pos ends.
func after(at []byte, pos int) int {
	pos++
	for pos < len(at) && at[pos] == tailAtom {
		pos++
	}
	return pos
}

func (n *node) holds(at []byte, pos int) bool {
	in := func(i int) bool { return n.mask>>(at[i]&tailAtom)&1 != 0 }
	switch n.kind {
	case textBegin:
		return pos == 0
	case textEnd:
		return pos == len(at)
	case lineBegin:
		return pos == 0 || pos < len(at) && in(pos-1)
	case lineEnd:
		return pos == len(at) || in(pos)
	case textEndOrLast:
		return pos == len(at) || pos == len(at)-1 && in(pos)
	default: // word boundaries
		here := pos < len(at) && in(pos)
		return (n.follows(at, pos) != here) == (n.kind == wordBoundary)
	}
}

// follows says whether the character before pos is of the mask.
func (n *node) follows(at []byte, pos int) bool {
	if pos == 0 {
		return false
	}
	pos--
	for at[pos] == tailAtom {
		pos--
	}
	return n.mask>>(at[pos]&tailAtom)&1 != 0
}

// Next returns where the character of at that begins at pos ends; beyond the end of at it
// goes on by one.
func Next(at []byte, pos int) int { return after(at, pos) }
