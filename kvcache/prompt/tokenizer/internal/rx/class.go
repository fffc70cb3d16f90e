package rx

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/unidata"
)

// class reads a character class after its opening bracket.
func (p *parser) class() (set, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.refuse("nested too deeply")
	}
	p.brackets++
	defer func() { p.depth--; p.brackets-- }()
	negate := p.accept("^")
	var all, part set // all: the operands of && so far
	and, empty := false, true
	for {
		switch {
		case p.accept("]"):
			if empty {
				return nil, p.refuse("an empty class, or operand of &&")
			}
			if and {
				part = intersection(all, part)
			}
			whole, err := p.folded(part)
			if err == nil && negate {
				whole = complement(whole)
			}
			return whole, err
		case p.accept("&&"):
			if empty {
				return nil, p.refuse("an empty operand of &&")
			}
			if and {
				part = intersection(all, part)
			}
			all, part, and, empty = part, nil, true, true
		default:
			s, err := p.member()
			if err != nil {
				return nil, err
			}
			part = union(part, s)
			empty = false
		}
	}
}

// member reads one character, range, escape or nested class.
func (p *parser) member() (set, error) {
	if p.accept("[:") {
		return p.posix()
	}
	if p.accept("[") {
		fold := p.fold
		p.fold = false // the outermost class folds
		s, err := p.class()
		p.fold = fold
		return s, err
	}
	lo, isRune, s, err := p.char()
	if err != nil || !isRune {
		return s, err
	}
	if !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") {
		return single(lo), nil
	}
	p.accept("-")
	if strings.HasPrefix(p.rest, "[") || strings.HasPrefix(p.rest, "&&") {
		return nil, p.refuse("- before a class")
	}
	hi, isRune, _, err := p.char()
	if err != nil {
		return nil, err
	}
	if !isRune || hi < lo {
		return nil, p.refuse("a range that isn't one")
	}
	return set{{Lo: lo, Hi: hi}}, nil
}

// char reads one character of a class, or an escape that stands for several.
func (p *parser) char() (r rune, isRune bool, s set, err error) {
	c, ok := p.next()
	if !ok {
		return 0, false, nil, p.refuse("a closing bracket is missing")
	}
	if c != '\\' {
		return c, true, nil, nil
	}
	s, isRune, err = p.escape()
	if err != nil {
		return 0, false, nil, err
	}
	if isRune {
		return s[0].Lo, true, nil, nil
	}
	return 0, false, s, nil
}

func (p *parser) posix() (set, error) {
	end := strings.Index(p.rest, ":]")
	if end < 0 {
		return nil, p.refuse("[: without :]")
	}
	name := p.rest[:end]
	p.rest = p.rest[end+len(":]"):]
	bare, negate := strings.CutPrefix(name, "^")
	s, ok := named("posix:" + bare)
	if !ok {
		return nil, p.refuse("[:" + name + ":]")
	}
	if negate {
		s = complement(s)
	}
	return s, nil
}

// escape reads what follows a backslash; isRune says that it stands for one character.
func (p *parser) escape() (s set, isRune bool, err error) {
	c, ok := p.next()
	if !ok {
		return nil, false, p.refuse("a backslash at the end")
	}
	switch c {
	case 'w', 'W':
		if s, ok = p.word(); c == 'W' {
			s = complement(s)
		}
	case 'd', 's', 'h':
		s, ok = named(`\` + string(c))
	case 'D', 'S', 'H':
		s, ok = named(`\` + string(c|0x20))
		s = complement(s)
	case 'p', 'P':
		s, err = p.property(c == 'P')
	case 'u':
		s, err = p.hex(4)
		isRune = true
	case 'x':
		s, err = p.hexByte()
		isRune = true
	default:
		if i := strings.IndexRune("tnrfvae", c); i >= 0 {
			return single(rune("\t\n\r\f\v\a\x1b"[i])), true, nil
		}
		if c >= utf8.RuneSelf || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			return nil, false, p.refuse(`\` + string(c))
		}
		return single(c), true, nil
	}
	if err == nil && !ok {
		err = p.refuse(`\` + string(c))
	}
	return s, isRune, err
}

// word is what \w and \p{Word} stand for. Between brackets Oniguruma goes by its table of
// Unicode, outside by one of Latin-1, where ² ³ ¹ ¼ ½ ¾ are of words too.
func (p *parser) word() (set, bool) {
	if p.brackets > 0 {
		return named("posix:word")
	}
	return named(`\w`)
}

func (p *parser) property(negate bool) (set, error) {
	if !p.accept("{") {
		return nil, p.refuse(`\p without {`)
	}
	end := strings.IndexByte(p.rest, '}')
	if end < 0 {
		return nil, p.refuse(`\p{ without }`)
	}
	name := p.rest[:end]
	p.rest = p.rest[end+1:]
	bare, not := strings.CutPrefix(name, "^")
	s, ok := property(bare)
	if bare == "Word" || bare == "word" {
		s, ok = p.word()
	}
	if !ok {
		return nil, p.refuse(`\p{` + name + `}`)
	}
	if not != negate {
		s = complement(s)
	}
	return s, nil
}

// property finds a class by its name in the spelling of the standard, or a long name of a
// general category, or a lower-case one. Other spellings that Oniguruma takes are refused.
func property(name string) (set, bool) {
	for _, prefix := range []string{"", "p:"} {
		if strings.HasPrefix(name, "rust") || strings.ContainsAny(name, `:\(.`) {
			return nil, false
		}
		if s, ok := unidata.Class(prefix + name); ok {
			return s, true
		}
	}
	switch name {
	case "Letter":
		return named("L")
	case "Mark":
		return named("M")
	case "Number":
		return named("N")
	case "Punctuation":
		return named("P")
	case "Symbol":
		return named("S")
	case "Separator":
		return named("Z")
	case "Other":
		return named("C")
	case "Alnum", "Alpha", "Digit", "Space", "Punct", "Word", "Upper", "Lower":
		return named("p:" + strings.ToLower(name))
	default:
		return nil, false
	}
}

func (p *parser) hexByte() (set, error) {
	if strings.HasPrefix(p.rest, "{") {
		end := strings.IndexByte(p.rest, '}')
		if end < 0 {
			return nil, p.refuse(`\x{ without }`)
		}
		digits := p.rest[1:end]
		p.rest = p.rest[end+1:]
		return p.code(digits)
	}
	s, err := p.hex(2)
	if err == nil && !s.ascii() {
		return nil, p.refuse(`\x of a byte beyond ASCII`)
	}
	return s, err
}

func (p *parser) hex(n int) (set, error) {
	if len(p.rest) < n {
		return nil, p.refuse("too few hexadecimal digits")
	}
	digits := p.rest[:n]
	p.rest = p.rest[n:]
	return p.code(digits)
}

func (p *parser) code(digits string) (set, error) {
	const bits = 32
	v, err := strconv.ParseUint(digits, 16, bits)
	if err != nil || v > maxRune || !utf8.ValidRune(rune(v)) {
		return nil, p.refuse("not the code of a character: " + digits)
	}
	return single(rune(v)), nil
}
