package rx

import (
	"fmt"
	"slices"
)

type op uint8

const (
	opMatch  op = iota
	opClass     // one character of mask
	opRun       // min to max characters of mask, as many as possible
	opLazy      // the same, as few as possible
	opAlt       // one of alts
	opLook      // the program at sub matches here, or not
	opAtomic    // the program at sub, without giving anything back
	opBehind    // the character before is of mask, or not
	opAnchor
)

// A node is one instruction; next follows it.
type node struct {
	op     op
	negate bool   // opLook, opBehind
	keep   bool   // opRun: nothing is ever given back
	kind   anchor // opAnchor
	next   int32
	sub    int32 // opLook, opAtomic
	min    int32
	max    int32 // -1: no limit
	mask   uint64
	alts   []int32
	first  []uint64 // opAlt: by atom, the alternatives that may begin with it
}

// Regexp is a compiled pattern.
type Regexp struct {
	nodes []node
	start int32
	first uint64 // atoms that a match may begin with

	// Nullable says that the pattern may match nothing.
	Nullable bool
}

// Compiler compiles the patterns of one tokenizer.
type Compiler struct {
	sets    []set
	index   map[string]int
	pending []*build
	bytes   int // of all patterns
	nodes   int // of all patterns
}

type build struct {
	re   *Regexp
	expr expr
}

// maxNodes bounds what repetitions of groups expand to, in all patterns of a tokenizer.
const maxNodes = 8192

// maxAlts is how many alternatives a node may have: a bit of 64 each.
const maxAlts = 60

// Add parses a pattern. The result can be used once Finish has been called.
func (c *Compiler) Add(pattern string) (*Regexp, error) {
	if c.bytes += len(pattern); c.bytes > maxPattern {
		return nil, fmt.Errorf("%w: more than %d bytes of patterns", ErrSyntax, maxPattern)
	}
	e, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	return c.add(e), nil
}

func (c *Compiler) collect(e expr) {
	switch e := e.(type) {
	case exprSet:
		c.id(e.set)
	case exprSeq:
		for _, x := range e.items {
			c.collect(x)
		}
	case exprAlt:
		for _, x := range e.items {
			c.collect(x)
		}
	case exprRepeat:
		c.collect(e.item)
	case exprLook:
		c.collect(e.item)
	case exprAtomic:
		c.collect(e.item)
	case exprBehind:
		c.id(e.set)
	case exprAnchor:
		c.id(anchorSet(e.kind))
	}
}

// anchorSet is the class that an anchor looks for in its neighbours.
func anchorSet(a anchor) set {
	if a == wordBoundary || a == notWordBoundary {
		s, _ := named(`\w`)
		return s
	}
	return single('\n')
}

func (c *Compiler) id(s set) int {
	key := fmt.Sprint(s)
	if i, ok := c.index[key]; ok {
		return i
	}
	if c.index == nil {
		c.index = map[string]int{}
	}
	i := len(c.sets)
	c.index[key] = i
	c.sets = append(c.sets, s)
	return i
}

// Finish builds the alphabet that all added patterns share.
func (c *Compiler) Finish() (*Alphabet, error) {
	a, masks, err := alphabet(c.sets)
	if err != nil {
		return nil, err
	}
	for _, b := range c.pending {
		g := &generator{c: c, masks: masks, nodes: []node{{op: opMatch, next: -1}}}
		start := g.emit(b.expr, 0)
		if g.err != nil {
			return nil, g.err
		}
		g.optimise()
		b.re.nodes, b.re.start, b.re.first = g.nodes, start, g.firstOf(start)
	}
	return a, nil
}

type generator struct {
	c      *Compiler
	masks  []uint64
	nodes  []node
	err    error
	firsts map[int32]uint64
}

func (g *generator) add(n node) int32 {
	if g.c.nodes++; g.c.nodes > maxNodes {
		g.err = fmt.Errorf("%w: too large", ErrSyntax)
		return 0
	}
	g.nodes = append(g.nodes, n)
	return int32(len(g.nodes) - 1)
}

func (g *generator) mask(s set) uint64 { return g.masks[g.c.id(s)] }

// emit compiles e, to be followed by next, and returns where it begins.
func (g *generator) emit(e expr, next int32) int32 {
	if g.err != nil {
		return 0
	}
	switch e := e.(type) {
	case exprSet:
		return g.add(node{op: opClass, mask: g.mask(e.set), next: next})
	case exprSeq:
		for _, x := range slices.Backward(e.items) {
			next = g.emit(x, next)
		}
		return next
	case exprAlt:
		if len(e.items) > maxAlts {
			// In the order of the pattern: the first ones, or else the rest.
			first, rest := exprAlt{e.items[:maxAlts]}, exprAlt{e.items[maxAlts:]}
			return g.emit(exprAlt{[]expr{first, rest}}, next)
		}
		alts := make([]int32, len(e.items))
		for i, x := range e.items {
			alts[i] = g.emit(x, next)
		}
		return g.add(node{op: opAlt, alts: alts, next: -1})
	case exprRepeat:
		return g.repeat(e, next)
	case exprLook:
		return g.add(node{op: opLook, negate: e.negate, sub: g.emit(e.item, 0), next: next})
	case exprBehind:
		return g.add(node{op: opBehind, negate: e.negate, mask: g.mask(e.set), next: next})
	case exprAtomic:
		return g.add(node{op: opAtomic, sub: g.emit(e.item, 0), next: next})
	case exprAnchor:
		return g.add(node{op: opAnchor, kind: e.kind, mask: g.mask(anchorSet(e.kind)), next: next})
	}
	return 0
}

func (g *generator) repeat(e exprRepeat, next int32) int32 {
	if s, ok := e.item.(exprSet); ok {
		n := node{op: opRun, mask: g.mask(s.set) | tailBit, min: int32(e.min), max: int32(e.max), next: next}
		n.keep = e.mode == possessive
		if e.mode == lazy {
			n.op = opLazy
		}
		return g.add(n)
	}
	if e.mode == possessive {
		plain := e
		plain.mode = greedy
		return g.emit(exprAtomic{plain}, next)
	}
	// A group: the required ones in a row, then the optional ones or a loop.
	if e.max < 0 {
		loop := g.add(node{op: opAlt, next: -1})
		body := g.emit(e.item, loop)
		if g.err != nil {
			return 0
		}
		g.nodes[loop].alts = []int32{body, next}
		if e.mode == lazy {
			g.nodes[loop].alts = []int32{next, body}
		}
		next = loop
	} else {
		skip := next
		for range e.max - e.min {
			alts := []int32{g.emit(e.item, next), skip}
			if e.mode == lazy {
				alts[0], alts[1] = alts[1], alts[0]
			}
			next = g.add(node{op: opAlt, alts: alts, next: -1})
		}
	}
	for range e.min {
		next = g.emit(e.item, next)
	}
	return next
}

const everything = ^uint64(0)

// firstOf returns the atoms that what begins at a node may begin with; endAtom if it may
// match at the end of the text. It may say too many, never too few.
func (g *generator) firstOf(i int32) uint64 {
	if g.firsts == nil {
		g.firsts = map[int32]uint64{}
	}
	if f, ok := g.firsts[i]; ok {
		return f
	}
	g.firsts[i] = everything // for a loop that comes back here
	n := &g.nodes[i]
	f := everything
	switch n.op {
	case opClass:
		f = n.mask &^ (tailBit | endBit)
	case opRun, opLazy:
		f = n.mask &^ (tailBit | endBit)
		if n.min == 0 {
			f |= g.firstOf(n.next)
		}
	case opAlt:
		f = 0
		for _, a := range n.alts {
			f |= g.firstOf(a)
		}
	case opLook, opBehind, opAnchor:
		f = g.firstOf(n.next)
	case opAtomic:
		f = g.firstOf(n.sub)
		if f&endBit != 0 { // it may be empty
			f |= g.firstOf(n.next)
		}
	case opMatch:
	}
	if n.op != opAlt || !g.loops(i) {
		g.firsts[i] = f
	} else {
		g.firsts[i] = everything
	}
	return g.firsts[i]
}

// loops says whether an alternative leads back to node i.
func (g *generator) loops(i int32) bool {
	seen := map[int32]bool{}
	var walk func(j int32) bool
	walk = func(j int32) bool {
		if j < 0 || seen[j] {
			return j == i
		}
		seen[j] = true
		n := &g.nodes[j]
		for _, a := range n.alts {
			if a == i || walk(a) {
				return true
			}
		}
		return n.next == i || walk(n.next)
	}
	return walk(i)
}

func (g *generator) optimise() {
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.op == opRun {
			// Giving a character back helps only if what follows may begin with it.
			disjoint := g.firstOf(n.next)&n.mask&^(tailBit|endBit) == 0
			n.keep = n.keep || disjoint || g.nodes[n.next].op == opMatch
		}
		if n.op != opAlt {
			continue
		}
		n.first = make([]uint64, endAtom+1)
		for k, a := range n.alts {
			f := g.firstOf(a)
			for atom := range n.first {
				n.first[atom] |= f >> atom & 1 << k
			}
		}
	}
}

// AddClass compiles a class of package unidata: one character of it.
func (c *Compiler) AddClass(name string) (*Regexp, error) {
	s, ok := named(name)
	if !ok {
		return nil, fmt.Errorf("%w: class %s", ErrSyntax, name)
	}
	return c.add(exprSet{s}), nil
}

// AddWords compiles what Go would write \w+|[^\w\s]+, with classes of package unidata.
func (c *Compiler) AddWords(word, space string) (*Regexp, error) {
	w, okWord := named(word)
	s, okSpace := named(space)
	if !okWord || !okSpace {
		return nil, fmt.Errorf("%w: classes %s, %s", ErrSyntax, word, space)
	}
	run := func(s set) expr { return exprRepeat{item: exprSet{s}, min: 1, max: -1} }
	return c.add(exprAlt{[]expr{run(w), run(complement(union(w, s)))}}), nil
}

func (c *Compiler) add(e expr) *Regexp {
	re := &Regexp{Nullable: e.nullable()}
	c.pending = append(c.pending, &build{re, e})
	c.collect(e)
	return re
}
