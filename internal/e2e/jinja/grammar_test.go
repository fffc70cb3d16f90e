//go:build e2e

package jinja_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// generator makes small random templates that use everything the grammar has, on
// values of every type, so that most expressions go wrong somewhere: where they do
// is compared, too.
type generator struct {
	*rand.Rand
	scope []string // names that may exist
	loops int
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

const vars = `{"s":"Hello, World","t":"größe ΑΣ 你好 🎉\n  x\t","e":"","n":7,"neg":-3,"f":2.5,"g":1e16,"big":123456789012345678901234567890,
"l":[3,1,2],"ls":["b","A","a","C"],"mix":[1,"a",null,2.0,true],"d":{"b":1,"a":"x","items":[1,2],"None":null},"ds":[{"k":"x","v":2},{"k":"X","v":1},{"v":3}],
"z":null,"b":true,"nb":false,"el":[],"ed":{},"nest":{"a":{"b":[{"c":1},{"c":2}]}},"html":"<a href='x'>&\"</a>","lines":"one\n\n  two\r\nthree\u2028four",
"m":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1,"b":[true,null]}}}]},{"role":"tool","content":["x",{"type":"text","text":"y"}]}]}`

func (g *generator) name() string {
	if len(g.scope) > 0 && g.chance(0.3) {
		return g.scope[g.IntN(len(g.scope))]
	}
	return g.pick("s", "t", "e", "n", "neg", "f", "g", "big", "l", "ls", "mix", "d", "ds", "z", "b", "nb", "el", "ed", "nest",
		"html", "lines", "m", "undef", "range", "dict")
}

func (g *generator) literal() string {
	switch g.IntN(14) {
	case 0, 1:
		return strconv.Itoa(g.IntN(12) - 3)
	case 2:
		return g.pick("1.5", "0.0", "1e3", "2.50", "1_000", "0x1f", "0b101", "1e-7", "3.0")
	case 3, 4, 5:
		return g.str()
	case 6:
		return g.pick("true", "false", "none", "True", "None")
	case 7:
		return "[" + g.list(3) + "]"
	case 8:
		return "(" + g.list(2) + ",)"
	case 9:
		return "{" + g.str() + ": " + g.expr(1) + ", " + g.key() + ": " + g.expr(1) + "}"
	case 10:
		return g.pick("()", "[]", "{}", "''")
	default:
		return g.name()
	}
}

func (g *generator) key() string { return g.pick("1", "none", "'k'", "1.0", "true", "(1,2)", "n", "s") }

func (g *generator) str() string {
	return g.pick(`'a'`, `"b"`, `' x '`, `'%s'`, `'%d-%s'`, `'{}'`, `'{0}{k}'`, `'a,b,,c'`, `'é'`, `'\n'`, `'\u00df\x41\''`, `'Hello World'`,
		`'%5.2f|'`, `'{:>6}|{!r}'`, `'<b>'`, `'abcabc'`, `'1'`, `' 42 '`, `'0x1f'`, `'1.5'`, `'a' 'b'`, `'A-b (c)'`, `'%(k)s'`, `'ab cd  ef'`, `'\\é'`)
}

func (g *generator) list(n int) string {
	var parts []string
	for range g.IntN(n) + 1 {
		parts = append(parts, g.expr(1))
	}
	return strings.Join(parts, ", ")
}

// expr makes an expression.
func (g *generator) expr(depth int) string {
	if depth <= 0 {
		return g.literal()
	}
	sub := func() string { return g.expr(depth - 1) }
	switch g.IntN(22) {
	case 0, 1:
		return g.literal()
	case 2:
		return sub() + " " + g.pick("+", "-", "*", "/", "//", "%", "~") + " " + sub()
	case 3:
		return "(" + sub() + " " + g.pick("+", "-", "*", "%", "~") + " " + sub() + ")"
	case 4:
		return sub() + " " + g.pick("==", "!=", "<", "<=", ">", ">=", "in", "not in") + " " + sub()
	case 5:
		return sub() + " " + g.pick("and", "or") + " " + sub()
	case 6:
		return g.pick("not ", "-", "+") + sub()
	case 7:
		return "(" + sub() + " if " + sub() + g.pick(" else "+sub(), "", " else "+sub()) + ")"
	case 8, 9:
		return g.name() + "." + g.pick("a", "b", "items", "role", "content", "k", "v", "x", "0", "__class__", "append", "keys", "upper", "index", "first", "name", "real")
	case 10, 11:
		return "(" + sub() + ")[" + g.pick("0", "-1", "1", "'a'", "'items'", "n", "5", "none", sub()) + "]"
	case 12:
		bound := func() string { return g.pick("", "0", "1", "-1", "2", "-2", "5", "-5", "none", sub()) }
		return "(" + sub() + ")[" + bound() + ":" + bound() + g.pick("", ":"+g.pick("", "-1", "2", "-2", "0")) + "]"
	case 13, 14, 15:
		return "(" + sub() + ")|" + g.filter(depth-1)
	case 16, 17:
		return "(" + sub() + ")" + g.pick(" is ", " is not ") + g.test(depth-1)
	case 18, 19:
		return "(" + sub() + ")." + g.method(depth-1)
	case 20:
		return g.pick("range", "dict", "namespace", "cycler", "joiner", "f1", "f2", "loop.cycle", "loop.changed", "caller") + "(" +
			g.pick("", "3", "1, 5", "5, 1, -2", "a=1", sub(), sub()+", "+sub(), "*"+sub(), "**"+sub(), "a="+sub()) + ")"
	default:
		return sub() + " < " + sub() + " <= " + sub()
	}
}

func (g *generator) filter(depth int) string {
	a := func() string { return g.expr(depth) }
	switch g.IntN(40) {
	case 0:
		return g.pick("upper", "lower", "title", "capitalize", "trim", "string", "length", "count", "list", "first", "last")
	case 1:
		return g.pick("reverse|list", "unique|list", "sort", "sort|join", "sum", "min", "max", "abs", "int", "float", "round", "wordcount", "items|list", "dictsort")
	case 2:
		return "trim(" + a() + ")"
	case 3:
		return "default(" + a() + g.pick("", ", true", ", boolean=true") + ")"
	case 4, 5:
		return "join(" + g.pick("", "','", "', '", a()) + g.pick("", ", attribute='k'", "") + ")"
	case 6, 7:
		return "map(" + g.pick("'upper'", "'string'", "'length'", "attribute='k'", "attribute='v', default=0", "'default', 'x'", "'tojson'", "'nosuch'", a(), "attribute='a.b.0'") + ")|list"
	case 8, 9:
		return g.pick("select", "reject") + "(" + g.pick("", "'string'", "'defined'", "'odd'", "'equalto', 1", "'in', l", "'gt', 1", "'nosuch'", a()) + ")|list"
	case 10, 11:
		return g.pick("selectattr", "rejectattr") + "(" + g.pick("'k'", "'k', 'defined'", "'k', 'equalto', 'x'", "'v', '>', 1", "'role', '==', 'user'", "'role', 'in', ['user']", "", a()) + ")|list"
	case 12, 13, 14:
		return "tojson" + g.pick("", "", "(indent=2)", "(indent=4)", "(true)", "(separators=(',', ':'))", "(sort_keys=true)", "(ensure_ascii=false, indent=0)", "(indent="+a()+")", "(separators="+a()+")")
	case 15:
		return "replace(" + g.str() + ", " + g.str() + g.pick("", ", 1", ", count=2") + ")"
	case 16:
		return "indent" + g.pick("", "(2)", "(2, true)", "(width=1, first=true, blank=true)", "('>')")
	case 17:
		return "int(" + g.pick("0", "-1", "0, 16", "default=5", "base=2", a()) + ")"
	case 18:
		return "round(" + g.pick("1", "0, 'floor'", "1, 'ceil'", "-1", "2", "method='floor'") + ")"
	case 19:
		return "batch(" + g.pick("2", "3, 'x'", a()) + ")|list"
	case 20:
		return "slice(" + g.pick("2", "3, 'x'", a()) + ")|list"
	case 21:
		return "groupby(" + g.pick("'k'", "'v'", "'k', default='y'", "'role'", "'k', case_sensitive=true") + ")"
	case 22:
		return "sort(" + g.pick("reverse=true", "attribute='v'", "true, true", "attribute='k'", "case_sensitive=true", "attribute='role,content'") + ")"
	case 23:
		return "dictsort(" + g.pick("", "true", "false, 'value'", "reverse=true", "by='value'") + ")"
	case 24:
		return "sum(" + g.pick("", "start=1", "attribute='v'", "start=[]", a()) + ")"
	case 25:
		return g.pick("min", "max") + "(" + g.pick("", "true", "attribute='v'", "case_sensitive=true") + ")"
	case 26:
		return "truncate(" + g.pick("5", "5, true", "5, true, '..', 0", "3", "10, false, '', 0") + ")"
	case 27:
		return "center(" + g.pick("10", "", "3", a()) + ")"
	case 28:
		return "format(" + g.pick("1", "1, 'x'", "k=1", a()) + ")"
	case 29:
		return g.pick("escape", "e", "safe", "forceescape", "striptags", "urlencode", "xmlattr", "filesizeformat", "filesizeformat(true)")
	case 30:
		return "attr(" + g.pick("'a'", "'upper'", "'items'", a()) + ")"
	case 31:
		return g.pick("nosuch", "length|string", "first|upper", "string|length", "list|length", "tojson|length")
	case 32:
		return "unique(" + g.pick("true", "attribute='k'", "case_sensitive=false") + ")|list"
	default:
		return g.pick("tojson", "string", "length", "list", "upper", "join(', ')", "first", "trim", "items|list")
	}
}

func (g *generator) test(depth int) string {
	return g.pick("defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "iterable",
		"sequence", "callable", "lower", "upper", "odd", "even", "divisibleby(2)", "divisibleby 3", "in l", "in("+g.expr(depth)+")",
		"equalto("+g.expr(depth)+")", "eq 1", "ne 1", "gt 1", "lt(5)", "ge 2", "le n", "sameas none", "sameas(true)", "escaped", "nosuch",
		"filter", "test", "== 1", "string and s", "defined and n")
}

func (g *generator) method(depth int) string {
	a := func() string { return g.expr(depth) }
	switch g.IntN(24) {
	case 0, 1:
		return g.pick("upper", "lower", "title", "capitalize", "swapcase", "casefold", "strip", "lstrip", "rstrip", "split", "splitlines", "keys", "values", "items",
			"isalpha", "isdigit", "isspace", "isupper", "islower", "istitle", "isalnum", "isnumeric", "isidentifier", "isprintable", "isdecimal", "isascii", "copy", "bit_length", "is_integer", "conjugate") + "()"
	case 2, 3:
		return g.pick("strip", "lstrip", "rstrip") + "(" + g.pick(g.str(), "none", a()) + ")"
	case 4, 5, 6:
		return g.pick("split", "rsplit") + "(" + g.pick("','", "'a'", "none, 1", "' ', 1", "sep=','", "maxsplit=1", "', ', maxsplit=1", a()) + ")" + g.pick("", "[0]", "[-1]")
	case 7:
		return "splitlines(" + g.pick("true", "keepends=true", "") + ")"
	case 8, 9:
		return g.pick("startswith", "endswith") + "(" + g.pick("'a'", "('a', 'H')", "'b', 1", "'b', 0, -1", "()", a()) + ")"
	case 10:
		return "replace(" + g.str() + ", " + g.str() + g.pick("", ", 1", ", -1", ", 0") + ")"
	case 11:
		return g.pick("find", "rfind", "index", "rindex", "count") + "(" + g.pick("'a'", "'b', 1", "'', 2", "'l', -5, -1", a()) + ")"
	case 12, 13:
		return "join(" + g.pick("ls", "l", "['a', 'b']", "s", "d", a()) + ")"
	case 14:
		return g.pick("center", "ljust", "rjust") + "(" + g.pick("8", "9, '*'", "2", a()) + ")"
	case 15:
		return g.pick("zfill(6)", "expandtabs()", "expandtabs(4)", "partition(' ')", "rpartition('a')", "removeprefix('a')", "removesuffix('c')", "encode()", "format_map(d)")
	case 16, 17:
		return "get(" + g.pick("'a'", "'zz', 5", "'items'", "none", "1, 2", a(), a()+", "+a()) + ")"
	case 18:
		return "format(" + g.pick("1", "1, 'x'", "k=1", "s, k=n", a(), "f", "*l") + ")"
	case 19:
		return g.pick("append(1)", "update({'x': 1})", "pop()", "__len__()", "items", "nosuch()", "setdefault('a', 1)", "sort()", "x")
	case 20:
		return "count(" + a() + ")"
	case 21:
		return "index(" + g.pick("1", "'a'", a()) + ")"
	default:
		return g.pick("upper()", "strip()", "items()|list", "keys()|list", "get('a')", "split()")
	}
}

func (g *generator) sign() string { return g.pick("", "", "", "-", "+") }

func (g *generator) tag(inner string) string {
	return "{%" + g.sign() + " " + inner + " " + g.sign() + "%}"
}

func (g *generator) body(depth int) string {
	var b strings.Builder
	for range g.IntN(3) + 1 {
		b.WriteString(g.stmt(depth))
		b.WriteString(g.pick("", "", " ", "\n", "\n  ", " x", "  \n\n", "{# c #}", "{#- c -#}\n"))
	}
	return b.String()
}

func (g *generator) target() string {
	name := g.pick("x", "y", "s", "n", "loop", "acc", "_p")
	if name != "loop" || g.chance(0.02) {
		g.scope = append(g.scope, name)
		return name
	}
	return "x"
}

func (g *generator) stmt(depth int) string {
	if depth <= 0 {
		return g.print()
	}
	switch g.IntN(22) {
	case 0, 1:
		cond := g.tag("if "+g.cond(1)) + g.body(depth-1)
		if g.chance(0.4) {
			cond += g.tag("elif "+g.cond(1)) + g.body(depth-1)
		}
		if g.chance(0.5) {
			cond += g.tag("else") + g.body(depth-1)
		}
		return cond + g.tag("endif")
	case 2, 3, 4, 5:
		return g.forLoop(depth)
	case 6, 7:
		return g.tag("set " + g.target() + " = " + g.any(2))
	case 8:
		t := g.target()
		return g.tag("set "+t+g.pick("", "", "|upper", "|trim|length", "|default('x')")) + g.body(depth-1) + g.tag("endset")
	case 9:
		return g.tag("set ns = namespace("+g.pick("", "a=1", "a=[], b='x'", "d")+")") + g.tag("set ns.a = "+g.any(1)) + "{{ ns.a }}" + g.pick("", "{{ ns.b }}", "{{ ns }}")
	case 10, 11:
		name := g.pick("f1", "f2")
		params := g.pick("", "a", "a, b=2", "a=1, b='x'", "a, b=a", "caller=none", "b=s, c=b")
		call := g.pick("", "1", "1, 2", "a=5", "b=3", "1, 2, 3", "1, z=2", "s, b=n")
		g.scope = append(g.scope, "a", "b", "varargs", "kwargs")
		return g.tag("macro "+name+"("+params+")") + g.body(depth-1) + g.pick("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}") + g.tag("endmacro") +
			"{{ " + name + "(" + call + ") }}" + g.pick("", "{{ "+name+".name }}", "{{ "+name+".arguments }}")
	case 12:
		return g.tag("call"+g.pick("", "(x)", "(x, y=1)")+" "+g.pick("f1", "f2", "f1")+"("+g.pick("", "1", "a=2")+")") + g.body(depth-1) + g.tag("endcall")
	case 13:
		return g.tag("filter "+g.pick("upper", "trim", "replace('a', 'b')|upper", "indent(2)", "length")) + g.body(depth-1) + g.tag("endfilter")
	case 14:
		t := g.target()
		return g.tag("with "+t+" = "+g.any(1)+g.pick("", ", y = "+t)) + g.body(depth-1) + g.tag("endwith")
	case 15:
		return g.tag("raw") + g.pick("{{ x }}", " {% if %} ", "\n") + g.tag("endraw")
	case 16:
		return g.tag("generation") + g.body(depth-1) + g.tag("endgeneration")
	case 17:
		return g.tag("set " + g.pick("x, y", "(x, y)", "x, y, z") + " = " + g.pick("1, 2", "l", "'ab'", "d", g.expr(1)))
	case 18:
		if g.loops > 0 {
			return g.tag("if "+g.cond(1)) + g.tag(g.pick("break", "continue")) + g.tag("endif")
		}
		return g.print()
	case 19:
		return g.tag("block "+g.pick("one", "two", "three")+g.pick("", " scoped")) + g.body(depth-1) + g.tag("endblock")
	case 20:
		return g.tag("print " + g.any(2))
	default:
		return g.print()
	}
}

func (g *generator) forLoop(depth int) string {
	target := g.target()
	over := g.pick("l", "ls", "d", "m", "range(3)", "s", "mix", "el", "z", "undef", "d.items()", "ds", g.seq(2))
	if g.chance(0.15) {
		target, over = "x, y", g.pick("d.items()", "ed.items()", "d|items", "d|dictsort", "ds", "['ab', 'cd']", g.expr(1))
		g.scope = append(g.scope, "x", "y")
	}
	g.scope = append(g.scope, "loop.index", "loop.last", "loop.first", "loop.length", "loop.previtem", "loop.nextitem", "loop.revindex", "loop.depth", "loop.index0", "loop")
	head := "for " + target + " in " + over
	if g.chance(0.2) {
		head += " if " + g.cond(1)
	}
	recursive := g.chance(0.06)
	if recursive {
		head += " recursive"
	}
	g.loops++
	body := g.body(depth - 1)
	if recursive {
		body += g.pick("{% if loop.depth < 3 %}{{ loop(" + g.pick("l", "ls", "el", "x") + ") }}{% endif %}")
	}
	g.loops--
	out := g.tag(head) + body
	if g.chance(0.25) {
		out += g.tag("else") + g.body(depth-1)
	}
	return out + g.tag("endfor")
}

func (g *generator) print() string {
	x := g.any(2)
	if g.chance(0.08) {
		x = g.expr(2)
	}
	return "{{" + g.pick("", "", "-", "+") + " " + x + " " + g.pick("", "", "-") + "}}"
}

// address matches what Python prints with a memory address in it.
var address = regexp.MustCompile(`(?i)( at 0x|0x[0-9a-f]{8,}|object at|<generator|<built-in|<bound method|<function)`)

// TestGrammar compares random templates.
func TestGrammar(t *testing.T) {
	seed, err := strconv.ParseUint(envOr("KVSTEER_SEED", "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	count, err := strconv.Atoi(envOr("KVSTEER_GRAMMAR", "20000"))
	if err != nil {
		t.Fatal(err)
	}
	compareSources(t, startOracle(t), grammar(seed, count))
}

func grammar(seed uint64, count int) []string {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	sources := make([]string, count)
	for i := range sources {
		g.scope = g.scope[:0]
		if i%3 == 0 {
			sources[i] = g.print()
		} else {
			sources[i] = g.body(3)
		}
	}
	return sources
}

func compareSources(t *testing.T, o *oracle, sources []string) {
	t.Helper()
	d := variables(t, strings.ReplaceAll(vars, "\n", " "))
	go func() {
		for _, s := range sources {
			line, err := json.Marshal(map[string]string{"source": s, "vars": vars})
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(o.in, "%s\n", line)
		}
		if err := o.in.Flush(); err != nil {
			panic(err)
		}
	}()
	equal, fail, different, refused := 0, 0, 0, map[string]int{}
	for _, source := range sources {
		var want struct {
			Text  string   `json:"text"`
			Error []string `json:"error"`
		}
		o.receive(&want)
		text, err := hex.DecodeString(want.Text)
		if err != nil {
			t.Fatal(err)
		}
		out, err := renderOnce(source, d)
		switch {
		case err == nil && want.Error == nil && bytes.Equal(out, text):
			equal++
		case err != nil && want.Error != nil && (kind(err) != "!limit" || want.Error[0] == "RecursionError" || want.Error[0] == "MemoryError") && (kind(err) == "!raised") == (want.Error[0] == "raised"):
			fail++
		case err != nil && kind(err) == "!unsupported":
			if !address.Match(text) {
				refused[err.Error()]++
			}
		default:
			if different++; different <= 200 {
				t.Errorf("%q\n   here: %q %v\n  Python: %q %v", source, out, err, text, want.Error)
			}
		}
	}
	t.Logf("%d equal, %d fail in both, %d differ, refused: %v", equal, fail, different, refused)
}

func renderOnce(source string, d *jinja.Dict) ([]byte, error) {
	tmpl, err := jinja.Compile(source, jinja.Options{Now: func() time.Time { return now }})
	if err != nil {
		return nil, err
	}
	return tmpl.Render(context.Background(), nil, d)
}
