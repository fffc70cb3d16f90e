package jinja

import (
	"context"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends v as Python's json.dumps(v, ensure_ascii=False) writes it.
// The error is an *Error of kind Runtime: v holds something that JSON does not
// have.
func AppendJSON(dst []byte, v Value) ([]byte, error) {
	o := Options{}.withDefaults()
	o.MaxOutput, o.MaxSteps = math.MaxInt32, math.MaxInt32
	e := newEncoder(newState(context.Background(), &o, nil, &Dict{}))
	e.out = dst
	if err := e.value(v); err != nil {
		return dst, err
	}
	return e.out, nil
}

// encoder is json.dumps.
type encoder struct {
	st               *state
	out              []byte
	start            int
	ascii            bool
	sortKeys         bool
	pretty           bool
	indent           string
	level            int
	itemSep, propSep string
}

func newEncoder(st *state) *encoder { return &encoder{st: st, itemSep: ", ", propSep: ": "} }

// toJSON is the filter tojson as transformers defines it.
func toJSON(st *state, a args) (Value, error) {
	e := newEncoder(st)
	e.out = st.out // written behind the output, and taken away from there
	e.start = len(st.out)
	if err := e.configure(a); err != nil {
		return nil, err
	}
	err := e.value(a.pos[0])
	mark := e.start
	st.out = e.out
	if err != nil {
		return nil, err
	}
	s, err := st.take(mark)
	return String(s), err
}

// configure reads the options of tojson: ensure_ascii, indent, separators,
// sort_keys.
func (e *encoder) configure(a args) error {
	truth := func(v Value) (bool, error) {
		if v == nil {
			return false, nil
		}
		return e.st.truth(v)
	}
	var err error
	if e.ascii, err = truth(a.pos[1]); err != nil {
		return err
	}
	if e.sortKeys, err = truth(a.pos[4]); err != nil {
		return err
	}
	if err := e.setIndent(a.pos[2]); err != nil {
		return err
	}
	return e.setSeparators(a.pos[3])
}

func (e *encoder) setIndent(v Value) error {
	if v == nil {
		return nil
	}
	switch v := v.(type) {
	case None:
		return nil
	case String:
		e.indent = string(v)
	case markup:
		e.indent = string(v)
	default:
		n, err := index(v)
		if err != nil {
			return err
		}
		if e.indent, err = e.st.repeatString(" ", max(n, 0)); err != nil {
			return err
		}
	}
	e.pretty = true
	e.itemSep = ","
	return nil
}

func (e *encoder) setSeparators(v Value) error {
	if v == nil {
		return nil
	}
	if _, none := v.(None); none {
		return nil
	}
	items, err := e.st.items(v)
	if err != nil {
		return err
	}
	if len(items) != 2 {
		return raise(valueError, "wrong number of separators")
	}
	var ok1, ok2 bool
	e.itemSep, ok1 = asString(items[0])
	e.propSep, ok2 = asString(items[1])
	if !ok1 || !ok2 {
		return raise(typeError, "separators must be strings")
	}
	return nil
}

func (e *encoder) check() error {
	if len(e.out)-e.start > e.st.opts.MaxOutput {
		return limit("JSON longer than %d bytes", e.st.opts.MaxOutput)
	}
	return e.st.step(1)
}

func (e *encoder) value(v Value) error {
	if err := e.check(); err != nil {
		return err
	}
	switch v := v.(type) {
	case String:
		e.out = appendJSONString(e.out, string(v), e.ascii)
		return e.st.work(len(v))
	case markup:
		e.out = appendJSONString(e.out, string(v), e.ascii)
		return e.st.work(len(v))
	case None:
		e.out = append(e.out, "null"...)
	case Bool:
		e.out = strconv.AppendBool(e.out, bool(v))
	case Int:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case Float:
		e.out = append(e.out, jsonFloat(float64(v))...)
	case *bigInt:
		s, err := e.st.repr(v)
		e.out = append(e.out, s...)
		return err
	case *List:
		return e.list(v.items)
	case *Tuple:
		return e.list(v.items)
	case *Dict:
		return e.dict(v)
	default:
		return raise(typeError, "object of type %s is not JSON serializable", v.typeName())
	}
	return nil
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	default:
		return floatRepr(f)
	}
}

func (e *encoder) newline() error {
	if !e.pretty {
		return nil
	}
	if most := e.st.opts.MaxOutput; e.level > 0 && len(e.indent) > most/e.level {
		return limit("JSON longer than %d bytes", most)
	}
	e.out = append(e.out, '\n')
	for range e.level {
		e.out = append(e.out, e.indent...)
	}
	return e.st.work(e.level * len(e.indent))
}

func (e *encoder) list(items []Value) error {
	if len(items) == 0 {
		e.out = append(e.out, "[]"...)
		return nil
	}
	if err := e.st.nest(); err != nil {
		return err
	}
	defer e.st.unnest()
	e.out = append(e.out, '[')
	e.level++
	for i, item := range items {
		if i > 0 {
			e.out = append(e.out, e.itemSep...)
		}
		if err := e.newline(); err != nil {
			return err
		}
		if err := e.value(item); err != nil {
			return err
		}
	}
	e.level--
	if err := e.newline(); err != nil {
		return err
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) dict(d *Dict) error {
	if len(d.entries) == 0 {
		e.out = append(e.out, "{}"...)
		return nil
	}
	if err := e.st.nest(); err != nil {
		return err
	}
	defer e.st.unnest()
	entries := d.entries
	if e.sortKeys {
		var err error
		if entries, err = e.sorted(d); err != nil {
			return err
		}
	}
	e.out = append(e.out, '{')
	e.level++
	for i, entry := range entries {
		if i > 0 {
			e.out = append(e.out, e.itemSep...)
		}
		if err := e.newline(); err != nil {
			return err
		}
		if err := e.key(entry.key); err != nil {
			return err
		}
		e.out = append(e.out, e.propSep...)
		if err := e.value(entry.val); err != nil {
			return err
		}
	}
	e.level--
	if err := e.newline(); err != nil {
		return err
	}
	e.out = append(e.out, '}')
	return nil
}

// sorted returns the entries by key. (Python sorts the pairs, but no two keys are
// equal, so the values don't matter.)
func (e *encoder) sorted(d *Dict) ([]entry, error) {
	if err := e.st.growItems(2 * len(d.entries)); err != nil {
		return nil, err
	}
	out := append([]entry(nil), d.entries...)
	var failed error
	sort.SliceStable(out, func(i, j int) bool {
		if failed != nil {
			return false
		}
		if failed = e.st.step(1); failed != nil {
			return false
		}
		less, err := e.st.order(cmpLt, out[i].key, out[j].key)
		if err != nil {
			failed = err
		}
		return less
	})
	return out, failed
}

func (e *encoder) key(k Value) error {
	switch k := k.(type) {
	case String:
		e.out = appendJSONString(e.out, string(k), e.ascii)
	case markup:
		e.out = appendJSONString(e.out, string(k), e.ascii)
	case None, Bool, Int, Float, *bigInt:
		e.out = append(e.out, '"')
		if err := e.value(k); err != nil {
			return err
		}
		e.out = append(e.out, '"')
	default:
		return raise(typeError, "keys must be str, int, float, bool or None, not %s", k.typeName())
	}
	return nil
}

// appendJSONString appends s as json.dumps writes a string.
func appendJSONString(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf && !ascii || c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' && (c != 0x7f || !ascii) {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		r, n := decodeRune(s[i:])
		i += n
		start = i
		if at := strings.IndexRune("\"\\\n\r\t\b\f", r); r < utf8.RuneSelf && at >= 0 {
			dst = append(dst, '\\', `"\nrtbf`[at])
			continue
		}
		const plane = 0x10000
		if r < plane {
			dst = append(dst, `\u`+hexDigits(r, 4)...)
			continue
		}
		r -= plane
		dst = append(dst, `\u`+hexDigits(0xd800+r>>10, 4)+`\u`+hexDigits(0xdc00+r&0x3ff, 4)...)
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
