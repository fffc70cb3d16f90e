package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// asString returns the text of a str or Markup.
func asString(v Value) (string, bool) {
	switch v := v.(type) {
	case String:
		return string(v), true
	case markup:
		return string(v), true
	default:
		return "", false
	}
}

func isString(v Value) bool {
	switch v.(type) {
	case String, markup:
		return true
	default:
		return false
	}
}

// str is str(v).
func (st *state) str(v Value) (string, error) {
	switch v := v.(type) {
	case String:
		return string(v), nil
	case markup:
		return string(v), nil
	case *Undefined:
		return "", nil
	case None:
		return "None", nil
	case Bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case Int:
		return strconv.FormatInt(int64(v), 10), nil
	case Float:
		return floatRepr(float64(v)), nil
	default:
		return st.repr(v)
	}
}

// repr is repr(v).
func (st *state) repr(v Value) (string, error) {
	r := repring{st: st}
	if err := r.value(v); err != nil {
		return "", err
	}
	if err := st.grow(len(r.out)); err != nil {
		return "", err
	}
	return string(r.out), nil
}

// repring writes the repr of a value.
type repring struct {
	st  *state
	out []byte
}

func (r *repring) add(s string) { r.out = append(r.out, s...) }

func (r *repring) value(v Value) error {
	if len(r.out) > r.st.opts.MaxOutput {
		return limit("string longer than %d bytes", r.st.opts.MaxOutput)
	}
	switch v := v.(type) {
	case String:
		r.out = appendRepr(r.out, string(v))
	case markup:
		r.add("Markup(")
		r.out = appendRepr(r.out, string(v))
		r.add(")")
	case *Undefined:
		r.add("Undefined")
	case *bigInt:
		if digitCount(v.v) > maxIntDigits {
			return raise(valueError, "exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
		}
		r.out = v.v.Append(r.out, 10)
	case *List:
		return r.items("[", v.items, "]")
	case *Tuple:
		if len(v.items) == 1 {
			return r.items("(", v.items, ",)")
		}
		return r.items("(", v.items, ")")
	case *Dict:
		return r.dict(v)
	case *dictView:
		items := make([]Value, len(v.d.entries))
		for i := range items {
			items[i] = v.at(i)
		}
		return r.items(v.typeName()+"([", items, "])")
	case None, Bool, Int, Float:
		s, err := r.st.str(v)
		if err != nil {
			return err
		}
		r.add(s)
	default:
		return r.object(v)
	}
	return nil
}

// object writes what is neither data nor a container.
func (r *repring) object(v Value) error {
	switch v := v.(type) {
	case *rangeValue:
		r.add("range(" + strconv.FormatInt(v.start, 10) + ", " + strconv.FormatInt(v.stop, 10))
		if v.step != 1 {
			r.add(", " + strconv.FormatInt(v.step, 10))
		}
		r.add(")")
	case *namespace:
		r.add("<Namespace ")
		if err := r.dict(v.attrs); err != nil {
			return err
		}
		r.add(">")
	case *macro:
		if v.code.anonymous {
			r.add("<Macro anonymous>")
			return nil
		}
		r.add("<Macro ")
		r.out = appendRepr(r.out, v.code.name)
		r.add(">")
	case *loopContext:
		n, err := v.len(r.st)
		if err != nil {
			return err
		}
		r.add("<LoopContext " + strconv.Itoa(v.index0+1) + "/" + strconv.Itoa(n) + ">")
	case missing:
		r.add("missing")
	case *dictType:
		r.add("<class 'dict'>")
	case *alias:
		r.add("dict[")
		if err := r.value(v.key); err != nil {
			return err
		}
		r.add("]")
	case *callable:
		if v.repr == "" {
			return unsupported("printing a function")
		}
		r.add(v.repr)
	default:
		// What Python prints has an address in it.
		return unsupported("printing a %s", v.typeName())
	}
	return nil
}

func (r *repring) items(open string, items []Value, end string) error {
	if err := r.st.nest(); err != nil {
		return err
	}
	defer r.st.unnest()
	r.add(open)
	for i, item := range items {
		if i > 0 {
			r.add(", ")
		}
		if err := r.st.step(1); err != nil {
			return err
		}
		if err := r.value(item); err != nil {
			return err
		}
	}
	r.add(end)
	return nil
}

func (r *repring) dict(d *Dict) error {
	if err := r.st.nest(); err != nil {
		return err
	}
	defer r.st.unnest()
	r.add("{")
	for i, e := range d.entries {
		if i > 0 {
			r.add(", ")
		}
		if err := r.st.step(1); err != nil {
			return err
		}
		if err := r.value(e.key); err != nil {
			return err
		}
		r.add(": ")
		if err := r.value(e.val); err != nil {
			return err
		}
	}
	r.add("}")
	return nil
}

// appendRepr appends repr of a str.
func appendRepr(dst []byte, s string) []byte {
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	dst = append(dst, quote)
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == quote || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, `\n`...)
			case c == '\r':
				dst = append(dst, `\r`...)
			case c == '\t':
				dst = append(dst, `\t`...)
			case c < ' ' || c == 0x7f:
				dst = append(dst, `\x`+hexDigits(rune(c), 2)...)
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, n := decodeRune(s[i:])
		switch {
		case isPrintable(r):
			dst = append(dst, s[i:i+n]...)
		case r < 0x100:
			dst = append(dst, `\x`+hexDigits(r, 2)...)
		case r < 0x10000:
			dst = append(dst, `\u`+hexDigits(r, 4)...)
		default:
			dst = append(dst, `\U`+hexDigits(r, 8)...)
		}
		i += n
	}
	return append(dst, quote)
}

// Python switches to exponents below 1e-4 and from 1e16 on.
const (
	minFixedExp = -4
	maxFixedExp = 16
)

// floatRepr is repr of a float: the shortest digits that read back the same.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	e, err := strconv.Atoi(exp)
	if err != nil {
		return s
	}
	if e < minFixedExp || e >= maxFixedExp {
		if len(exp) == 2 { // sign and one digit
			exp = exp[:1] + "0" + exp[1:]
		}
		return mantissa + "e" + exp
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// maxIntDigits is CPython's limit for ints in decimal text.
const maxIntDigits = 4300

// digitCount returns the number of decimal digits of b, exactly where it matters.
func digitCount(b *big.Int) int {
	const bitsPerDigit = 3.3219281
	n := int(float64(b.BitLen()) / bitsPerDigit)
	if n < maxIntDigits-2 || n > maxIntDigits+2 {
		return n
	}
	return len(new(big.Int).Abs(b).String())
}

// escapeHTML is markupsafe.escape of a text.
func escapeHTML(s string) string { return htmlEscaper.Replace(s) }

//nolint:gochecknoglobals // a table that nothing changes
var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")
