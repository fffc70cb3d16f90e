package rx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrSyntax is wrapped by the error for a pattern that this package doesn't know how to
// match exactly as Oniguruma would, be it wrong, or only unusual.
var ErrSyntax = errors.New("rx: pattern not supported")

// An expr is a node of a parsed pattern.
type expr interface{ nullable() bool }

type (
	exprSet    struct{ set set }
	exprSeq    struct{ items []expr }
	exprAlt    struct{ items []expr }
	exprRepeat struct {
		item     expr
		min, max int // max -1: no limit
		mode     repeatMode
	}
	exprLook struct {
		item   expr
		negate bool
	}
	exprBehind struct { // the character before
		set    set
		negate bool
	}
	exprAtomic struct{ item expr }
	exprAnchor struct{ kind anchor }
)

type repeatMode uint8

const (
	greedy repeatMode = iota
	lazy
	possessive
)

type anchor uint8

const (
	lineBegin anchor = iota
	lineEnd
	textBegin
	textEnd
	textEndOrLast // before the newline that ends the text, too
	wordBoundary
	notWordBoundary
)

func (exprSet) nullable() bool      { return false }
func (exprLook) nullable() bool     { return true }
func (exprBehind) nullable() bool   { return true }
func (exprAnchor) nullable() bool   { return true }
func (e exprAtomic) nullable() bool { return e.item.nullable() }
func (e exprRepeat) nullable() bool { return e.min == 0 || e.item.nullable() }

func (e exprSeq) nullable() bool {
	for _, x := range e.items {
		if !x.nullable() {
			return false
		}
	}
	return true
}

func (e exprAlt) nullable() bool {
	for _, x := range e.items {
		if x.nullable() {
			return true
		}
	}
	return false
}

const (
	maxPattern = 1 << 14 // bytes of all patterns of a tokenizer; real ones have a few hundred
	maxNesting = 50
	maxRepeat  = 1000
)

type parser struct {
	rest     string
	depth    int
	brackets int  // how many classes are open
	fold     bool // inside (?i:...)
}

func parse(pattern string) (expr, error) {
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("%w: not UTF-8", ErrSyntax)
	}
	p := &parser{rest: pattern}
	e, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.rest != "" {
		return nil, p.refuse("a closing parenthesis too many")
	}
	return e, nil
}

func (p *parser) refuse(what string) error { return fmt.Errorf("%w: %s", ErrSyntax, what) }

func (p *parser) next() (rune, bool) {
	if p.rest == "" {
		return 0, false
	}
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r, true
}

func (p *parser) accept(s string) bool {
	if !strings.HasPrefix(p.rest, s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

func (p *parser) alternatives() (expr, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.refuse("nested too deeply")
	}
	defer func() { p.depth-- }()
	var out []expr
	for {
		e, err := p.sequence()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if !p.accept("|") {
			break
		}
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return exprAlt{out}, nil
}

func (p *parser) sequence() (expr, error) {
	var out []expr
	var letter rune // the previous item, if it is a letter that folds
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		first, _ := utf8.DecodeRuneInString(p.rest)
		before := len(p.rest)
		e, err := p.item()
		if err != nil {
			return nil, err
		}
		this := rune(0)
		if p.fold && before-len(p.rest) == 1 {
			this = first | 0x20
		}
		// Regardless of case, Oniguruma lets a letter like U+00DF stand for two.
		if p.fold && slices.Contains([]string{"ss", "ff", "fi", "fl", "st"}, string([]rune{letter, this})) {
			return nil, p.refuse("letters that fold to one character, regardless of case")
		}
		letter = this
		if e, err = p.quantifiers(e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return exprSeq{out}, nil
}

// quantifiers reads any number of quantifiers after an item.
func (p *parser) quantifiers(e expr) (expr, error) {
	for {
		r := exprRepeat{item: e}
		interval := false
		switch {
		case p.accept("*"):
			r.max = -1
		case p.accept("+"):
			r.min, r.max = 1, -1
		case p.accept("?"):
			r.max = 1
		case strings.HasPrefix(p.rest, "{"):
			var err error
			if r.min, r.max, err = p.interval(); err != nil {
				return nil, err
			}
			interval = true
		default:
			return e, nil
		}
		switch {
		case interval && strings.HasPrefix(p.rest, "?"):
			if r.min == r.max {
				return nil, p.refuse("{n}?")
			}
			p.accept("?")
			r.mode = lazy
		case interval: // {n,m}+ is no possessive quantifier, but one after another
		case p.accept("?"):
			r.mode = lazy
		case p.accept("+"):
			r.mode = possessive
		}
		switch e.(type) {
		case exprLook, exprBehind, exprAnchor:
			return nil, p.refuse("quantifier after an assertion")
		}
		if r.max < 0 && e.nullable() {
			return nil, p.refuse("unlimited repetition of what may be empty")
		}
		e = r
	}
}

func (p *parser) interval() (lo, hi int, err error) {
	end := strings.IndexByte(p.rest, '}')
	if end < 0 {
		return 0, 0, p.refuse("{ without }")
	}
	body := p.rest[1:end]
	p.rest = p.rest[end+1:]
	from, to, comma := strings.Cut(body, ",")
	lo, okLo := decimal(from)
	hi, okHi := decimal(to)
	switch {
	case !comma && okLo:
		hi = lo
	case comma && okLo && to == "":
		hi = -1
	case comma && from == "" && okHi:
		lo = 0
	case comma && okLo && okHi && lo <= hi:
	default:
		return 0, 0, p.refuse("{" + body + "}")
	}
	return lo, hi, nil
}

func decimal(s string) (int, bool) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int(c-'0'); n > maxRepeat {
			return 0, false
		}
	}
	return n, s != ""
}

func (p *parser) item() (expr, error) {
	c, _ := p.next()
	switch c {
	case '(':
		return p.group()
	case '[':
		s, err := p.class()
		return exprSet{s}, err
	case '.':
		return exprSet{complement(single('\n'))}, nil
	case '^':
		return exprAnchor{lineBegin}, nil
	case '$':
		return exprAnchor{lineEnd}, nil
	case '*', '+', '?', '{':
		return nil, p.refuse("quantifier with nothing before it")
	case '\\':
		if a, ok := p.anchor(); ok {
			return exprAnchor{a}, nil
		}
		s, _, err := p.escape()
		if err != nil {
			return nil, err
		}
		s, err = p.folded(s)
		return exprSet{s}, err
	default:
		s, err := p.folded(single(c))
		return exprSet{s}, err
	}
}

func (p *parser) anchor() (anchor, bool) {
	for _, a := range []struct {
		letter string
		kind   anchor
	}{{"A", textBegin}, {"z", textEnd}, {"Z", textEndOrLast}, {"b", wordBoundary}, {"B", notWordBoundary}} {
		if p.accept(a.letter) {
			return a.kind, true
		}
	}
	return 0, false
}

func (p *parser) group() (expr, error) {
	wrap := func(e expr) expr { return e }
	fold := p.fold
	switch {
	case p.accept("?:"):
	case p.accept("?="):
		wrap = func(e expr) expr { return exprLook{item: e} }
	case p.accept("?!"):
		wrap = func(e expr) expr { return exprLook{item: e, negate: true} }
	case p.accept("?<="):
		wrap = func(e expr) expr { return p.behind(e, false) }
	case p.accept("?<!"):
		wrap = func(e expr) expr { return p.behind(e, true) }
	case p.accept("?>"):
		wrap = func(e expr) expr { return exprAtomic{e} }
	case p.accept("?i:"):
		p.fold = true
	case strings.HasPrefix(p.rest, "?"):
		return nil, p.refuse("group (" + firstRunes(p.rest) + "...)")
	}
	e, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, p.refuse("a closing parenthesis is missing")
	}
	p.fold = fold
	if e = wrap(e); e == nil {
		return nil, p.refuse("looking behind for more than one character")
	}
	return e, nil
}

// behind makes a look at the character before, nil if e is anything else than a class.
func (p *parser) behind(e expr, negate bool) expr {
	if s, ok := e.(exprSet); ok {
		return exprBehind{s.set, negate}
	}
	return nil
}

func firstRunes(s string) string {
	const n = 3
	r := []rune(s)
	return string(r[:min(n, len(r))])
}

// folded adds the other cases of a set's members, inside (?i:...).
func (p *parser) folded(s set) (set, error) {
	if !p.fold {
		return s, nil
	}
	// Outside ASCII folding depends on tables that nothing here knows, and may turn one
	// character into several.
	if !s.ascii() {
		return nil, p.refuse("a class beyond ASCII, regardless of case")
	}
	for c := 'a'; c <= 'z'; c++ {
		if !s.has(c) && !s.has(c-0x20) {
			continue
		}
		both, ok := named("(?i)" + string(c))
		if !ok {
			return nil, p.refuse("a letter regardless of case")
		}
		s = union(s, both)
	}
	return s, nil
}
