package jinja

import (
	"math/big"
	"strings"
)

// percent is format % v, for a format that is a str.
func (st *state) percent(format, v Value) (Value, error) {
	if _, isMarkup := format.(markup); isMarkup {
		return nil, unsupported("formatting of Markup")
	}
	s, _ := asString(format)
	if err := st.work(len(s)); err != nil {
		return nil, err
	}
	p := &percentFormat{st: st, s: s}
	switch v := v.(type) {
	case *Tuple:
		p.args = v.items
	case *Dict:
		p.args, p.mapping = []Value{v}, v
	default:
		p.args = []Value{v}
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	if p.used < len(p.args) && !hasItems(v) {
		return nil, raise(typeError, "not all arguments converted during string formatting")
	}
	if err := st.grow(len(p.out)); err != nil {
		return nil, err
	}
	return String(p.out), nil
}

// hasItems tells what Python takes for a mapping, which need not be used up.
func hasItems(v Value) bool {
	switch v.(type) {
	case *Dict, *List, *rangeValue, *Undefined, *alias:
		return true
	default:
		return false
	}
}

type percentFormat struct {
	st      *state
	s       string
	args    []Value
	used    int
	mapping *Dict
	out     []byte
}

func (p *percentFormat) run() error {
	for i := 0; i < len(p.s); i++ {
		if p.s[i] != '%' {
			p.out = append(p.out, p.s[i])
			continue
		}
		n, err := p.conversion(p.s[i+1:])
		if err != nil {
			return err
		}
		if len(p.out) > p.st.opts.MaxOutput {
			return limit("string longer than %d bytes", p.st.opts.MaxOutput)
		}
		i += n
	}
	return nil
}

func (p *percentFormat) next() (Value, error) {
	if p.used >= len(p.args) {
		return nil, raise(typeError, "not enough arguments for format string")
	}
	p.used++
	return p.args[p.used-1], nil
}

// conversion handles what follows a % and returns its length.
func (p *percentFormat) conversion(s string) (int, error) {
	incomplete := raise(valueError, "incomplete format")
	i := 0
	var value Value
	if strings.HasPrefix(s, "(") {
		n, v, err := p.key(s)
		if err != nil {
			return 0, err
		}
		i, value = n, v
	}
	f := spec{fill: " ", sign: '-', precision: -1}
	left := false
flags:
	for ; i < len(s); i++ {
		switch s[i] {
		case '-':
			left = true
		case '+':
			f.sign = '+'
		case ' ':
			if f.sign != '+' {
				f.sign = ' '
			}
		case '#':
			f.alt = true
		case '0':
			f.zero = true
		default:
			break flags
		}
	}
	width, n, err := p.number(s[i:], 0)
	if err != nil {
		return 0, err
	}
	i += n
	if width < 0 {
		left, width = true, -width
	}
	f.width = width
	if i < len(s) && s[i] == '.' {
		var precision int
		if precision, n, err = p.number(s[i+1:], 0); err != nil {
			return 0, err
		}
		f.precision = max(precision, 0)
		i += 1 + n
	}
	if i < len(s) && (s[i] == 'h' || s[i] == 'l' || s[i] == 'L') {
		i++
	}
	if i >= len(s) {
		return 0, incomplete
	}
	f.letter = s[i]
	f.align = '>'
	if left {
		f.align = '<'
	}
	if f.letter == '%' {
		p.out = append(p.out, '%')
		return i + 1, nil
	}
	if value == nil {
		if value, err = p.next(); err != nil {
			return 0, err
		}
	}
	text, err := p.st.percentOne(f, left, value)
	p.out = append(p.out, text...)
	return i + 1, err
}

// key reads "(name)" and looks the name up.
func (p *percentFormat) key(s string) (int, Value, error) {
	if p.mapping == nil {
		return 0, nil, raise(typeError, "format requires a mapping")
	}
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth > 0 {
			continue
		}
		v, ok := p.mapping.Get(s[1:i])
		if !ok {
			return 0, nil, raise(lookupError, "no such key")
		}
		return i + 1, v, nil
	}
	return 0, nil, raise(valueError, "incomplete format key")
}

// number reads a width or precision: digits, or * for an argument.
func (p *percentFormat) number(s string, fallback int) (value, length int, err error) {
	if strings.HasPrefix(s, "*") {
		v, failed := p.next()
		if failed != nil {
			return 0, 0, failed
		}
		if !isInt(v) {
			return 0, 0, raise(typeError, "* wants int")
		}
		n, ok := asInt(v)
		if !ok || n > maxWidth || n < -maxWidth {
			return 0, 0, limit("format width beyond %d", maxWidth)
		}
		return int(n), 1, nil
	}
	n, rest, err := leadingNumber(s, fallback)
	return n, len(s) - len(rest), err
}

// percentOne formats one value.
func (st *state) percentOne(f spec, left bool, v Value) (string, error) {
	switch f.letter {
	case 's', 'r', 'a':
		text, err := st.str(v)
		if f.letter != 's' {
			text, err = st.repr(v)
		}
		if f.letter == 'a' && !isASCII(text) {
			return "", unsupported("conversion %%a")
		}
		if err != nil {
			return "", err
		}
		if f.precision >= 0 {
			text = text[:runeOffset(text, f.precision)]
		}
		return f.pad("", text), nil
	case 'c':
		if s, ok := asString(v); ok {
			if runeLen(s) != 1 {
				return "", raise(typeError, "%%c requires int or char")
			}
			return f.pad("", s), nil
		}
		if !isInt(v) {
			return "", raise(typeError, "%%c requires int or char")
		}
		b, _ := asBig(v)
		c := spec{fill: " ", sign: '-', precision: -1, width: f.width, align: f.align}
		return c.character(b)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return st.percentInt(f, left, v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return st.percentFloat(f, left, v)
	default:
		return "", raise(valueError, "unsupported format character")
	}
}

func (st *state) percentInt(f spec, left bool, v Value) (string, error) {
	if fl, ok := v.(Float); ok && (f.letter == 'd' || f.letter == 'i' || f.letter == 'u') {
		var err error
		if v, err = floatToInt(float64(fl)); err != nil {
			return "", err
		}
	}
	if !isInt(v) {
		return "", raise(typeError, "%%%c format: a number is required, not %s", f.letter, v.typeName())
	}
	b, _ := asBig(v)
	base, prefix := 10, ""
	switch f.letter {
	case 'x':
		base, prefix = 16, "0x"
	case 'X':
		base, prefix = 16, "0X"
	case 'o':
		base, prefix = 8, "0o"
	default:
		if digitCount(b) > maxIntDigits {
			return "", raise(valueError, "exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
		}
	}
	digits := new(big.Int).Abs(b).Text(base)
	if f.letter == 'X' {
		digits = strings.ToUpper(digits)
	}
	if n := f.precision - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	sign := f.signOf(b.Sign() < 0)
	if f.alt {
		sign += prefix
	}
	return f.zeroed(left).pad(sign, digits), nil
}

func (st *state) percentFloat(f spec, left bool, v Value) (string, error) {
	x, err := st.toFloatStrict(v)
	if err != nil {
		return "", err
	}
	f.align = f.zeroed(left).align
	if f.align == '=' {
		f.fill = "0"
	}
	return f.float(x)
}

// toFloatStrict is float(v) for numbers only.
func (st *state) toFloatStrict(v Value) (float64, error) {
	if u, ok := v.(*Undefined); ok {
		return 0, u.fail()
	}
	f, ok, err := asFloat(v)
	if !ok {
		return 0, raise(typeError, "must be real number, not %s", v.typeName())
	}
	return f, err
}

// zeroed pads with zeros behind the sign if the flags say so.
func (p spec) zeroed(left bool) spec {
	if p.zero && !left {
		p.align, p.fill = '=', "0"
	}
	return p
}
