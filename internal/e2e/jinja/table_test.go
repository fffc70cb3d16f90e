//go:build e2e

package jinja_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTables compares what is best tried systematically: every format on every
// number, every method on every kind of text.
func TestTables(t *testing.T) { compareSources(t, startOracle(t), tables()) }

func tables() []string {
	var sources []string
	add := func(format string, args ...any) { sources = append(sources, fmt.Sprintf(format, args...)) }

	numbers := strings.FieldsSeq(`0 1 -1 7 -7 10 255 1000 -1000 123456789 9223372036854775807 9223372036854775808 -9223372036854775808 10**20 -(10**20)
		0.0 -0.0 0.5 1.5 2.5 -2.5 0.1 1e-5 1e-4 123456.789 1e15 1e16 1e17 1e22 1e23 123456789012345680.0 5e-324 1.7976931348623157e308 (1e308*10) -(1e308*10)
		((1e308*10)-(1e308*10)) 0.000123456 99999.95 0.045 1.005 2.675 1e100 true false 3.0 100.0 1234567.0 0.99995 9.9995`)
	for n := range numbers {
		// The variable keeps the compiler from folding, which has quirks of its own.
		add("{%% set x = [%s, 1] %%}{{ x[0] }}", n)
		for f := range strings.FieldsSeq("d i u x X o e E f F g G s r c 5d 05d -5d| +d .3d #x #o #X +.2f 010.2f -10.1f| .0f #.0f .0e .10g .3g #g .1g %% 5s| .2s ld 08x +08d #010x") {
			add("{%% set x = [%s][n - 7] %%}{{ '%%%s' %% x }}", n, f)
		}
		for f := range strings.FieldsSeq("d n x X o b c e E f F g G % s 5 <8 >8 ^8 =8 *^9 08 +d -d +.1f .0f .3 .10 , _ ,.2f _x _b #x #o #b #X 010,d 012,.1f 015,d 09,d 010_x .2e .3g #.3g +, 0>6 <06 .0% .1% 20.5f e^9 =+9 .15g .17g g .1g .2g 2 010 >+9 x<5") {
			add("{%% set x = [%s][n - 7] %%}{{ '{:%s}'.format(x) }}", n, f)
		}
		for _, f := range []string{"round", "round(1)", "round(2)", "round(-1)", "round(-2)", "round(3, 'floor')", "round(1, 'ceil')", "round(-1, 'floor')", "int", "float", "abs", "string", "tojson", "filesizeformat", "filesizeformat(true)", "length", "upper", "int(9, 16)", "list", "escape", "indent", "wordcount", "center(9)"} {
			add("{%% set x = [%s][n - 7] %%}{{ x|%s }}", n, f)
		}
		for _, m := range []string{"3", "-3", "0", "2.5", "-0.5", "10**18", "true", "1e10"} {
			for _, op := range []string{"+", "-", "*", "/", "//", "%", "<", "==", ">=", "~"} {
				add("{%% set x = [%s][n - 7] %%}{{ x %s %s }}|{{ %s %s x }}", n, op, m, m, op)
			}
		}
		for _, op := range []string{"**2", "**3", "**-1", "**0", "**0.5", "**-2"} {
			add("{%% set x = [%s][n - 7] %%}{{ x %s }}", n, op)
		}
	}
	texts := []string{
		"''", "' '", "'abc'", "'ABC'", "'aBc dEf'", "'  x  y '", "'ß'", "'ŉa'", "'ΑΣ'", "'ΑΣ.'", "'ΑΣΑ Σ'", "'İi'", "'ǆ Ǆ ǅ'", "'ﬁx ﬁX'", "'1²٣'", "'½'", "'一二'", "'a\\n\\nb\\r\\nc'", "'a\\u2028b\\x0bc\\x1cd\\x85e'",
		"'\\u00a0a\\u3000'", "'\\x00\\x7f\\u00ad\\u200b'", "'it\\'s'", "'\"q\"'", "'\\'\"'", "'a\\\\b'", "'ⅷⅧ'", "'ⓐⒶ'", "'ª'", "'ᾳ ᾼ'", "'ΐ'", "'😀👩\u200d💻'", "'e\u0301'", "'İ'", "'ＡＢ'", "'-5'", "'+5.5'", "'1_000'", "' 12 '", "'1e5'", "'inf'", "'-Infinity'", "'nan'", "'0x1F'", "'0b11'", "'١٢'", "'1__0'", "'_1'", "'007'", "'0_7'", "'<a>&amp;\"\\'</a>'", "'hello-world (foo) [bar] {baz} <qux>'", "'\\ud800x'", "'tab\\tx\\ty'", "'a\\tb\\n\\tc'", "'aaa'", "'ababa'",
	}
	methods := strings.Fields(`upper() lower() title() capitalize() swapcase() casefold() strip() lstrip() rstrip() split() rsplit() splitlines() splitlines(true) isalnum() isalpha() isascii() isdecimal() isdigit()
		isidentifier() islower() isnumeric() isprintable() isspace() istitle() isupper() split(none,1) rsplit(none,1) split('a') split('a',1) rsplit('a',1) split('b',0) partition('b') rpartition('b') replace('a','') replace('','.') replace('a','bb',1)
		find('a') rfind('a') count('a') count('') find('',2) find('a',-2) index('a') startswith('a') endswith('a') startswith('') startswith(('x','a')) center(7) center(8) ljust(6,'.') rjust(6,'.') zfill(6) expandtabs() expandtabs(4) expandtabs(0) removeprefix('a') removesuffix('a')
		strip('ab') lstrip('a') rstrip('a.') join('xyz') join(['a']) format(1) encode() __len__() find('b',1,2) find('a',99) startswith('a',99) startswith('',99) count('a',1,-1)`)
	filters := strings.Fields(`upper lower title capitalize trim length wordcount reverse list first last int float string tojson tojson(true) urlencode escape forceescape striptags indent indent(2,true,true) truncate(3) truncate(3,true) truncate(5,false,'',0) center(9) default('x',true)
		int(5,16) int(5,2) int(5,0) float(2) replace('a','b') batch(2)|list join('.') sort unique|list min max map('upper')|list select|list items|list dictsort round abs filesizeformat title|lower`)
	for _, s := range texts {
		for _, m := range methods {
			add("{%% set x = [%s][n - 7] %%}{{ x.%s }}", s, m)
		}
		for _, f := range filters {
			add("{%% set x = [%s][n - 7] %%}{{ x|%s }}", s, f)
		}
		add("{%% set x = [%s][n - 7] %%}{{ [x] }}{{ {x: x} }}{{ x ~ 1 }}{{ x * 2 }}{{ x[1:] }}{{ x[::-1] }}{{ x[-1] }}{{ '%%5s|%%-5s|%%.1s|%%r' %% (x, x, x, x) }}", s) //nolint:dupword // a test
		add("{%% set x = [%s][n - 7] %%}{{ '{:5}|{:>5}|{:.1}|{!r:*^9}|{}'.format(x, x, x, x, x) }}", s)                                                                 //nolint:dupword // a test
		add("{{ %s }}|{{ [%s] }}|{%% for c in %s %%}{{ c }},{%% endfor %%}", s, s, s)
		for _, u := range texts {
			add("{%% set x, y = %s, %s %%}{{ x < y }}{{ x == y }}{{ x in y }}{{ x.split(y) if y else '' }}", s, u)
		}
	}
	for d := range strings.SplitSeq("aAbBcCdDeFgGhHIjklmMnprRsSTtuUVwWxXyYzZ%+PfEOq", "") {
		for _, flag := range []string{"", "-", "_", "0", "^", "#", "5", "E", "O", "_5", "-3", "^#", "10"} {
			add("{{ strftime_now('%%%s%s|') }}", flag, d)
		}
	}
	add("{{ strftime_now('%%') }}{{ strftime_now('100%%%%') }}{{ strftime_now('é %%Y') }}")
	add("{{ strftime_now('') }}|{{ strftime_now('%%d %%b %%Y') }}|{{ strftime_now(format='%%H') }}")
	add("{{ strftime_now(3) }}")
	for _, a := range []string{"range(3)", "range(0)", "d", "ed", "d.items()", "d.keys()", "d.values()", "l", "el", "()", "(1,)", "z", "undef", "s", "5", "m", "namespace(a=1)", "cycler(1, 2)", "joiner()", "dict", "range", "namespace", "ds|map('upper')", "'x'|safe", "raise_exception", "l|reverse", "[1]|batch(1)"} {
		for test := range strings.FieldsSeq("defined undefined none boolean true false integer float number string mapping iterable sequence callable lower upper odd even escaped filter test") {
			add("{%% set x = %s %%}{{ x is %s }}", a, test)
		}
		for f := range strings.FieldsSeq("length list first last reverse|list sort unique|list sum min max join tojson string items|list dictsort int float round abs upper trim map('string')|list select|list batch(2)|list slice(2)|list groupby('k') random|length xmlattr urlencode default('x') default('x',true) escape wordcount reverse|first tojson(indent=1) center(3) indent") {
			add("{%% set x = %s %%}{{ x|%s }}", a, f)
		}
		for _, b := range []string{"l", "s", "d", "1", "z", "undef", "()", "range(3)"} {
			for _, op := range []string{"+", "*", "==", "<", "in", "~", "%", "-", "!=", "and", "or"} {
				add("{%% set x = %s %%}{{ x %s %s }}", a, op, b)
			}
		}
		for _, k := range []string{"[0]", "[-1]", "['a']", "[1:]", ".a", ".items", ".keys", ".x", "[none]", "[undef]", "[l]", "[1.0]", "[true]", ".__class__", ".start", ".next", ".sep", ".current", "()", "[::-1]", "[n:]"} {
			add("{%% set x = %s %%}{{ x%s is defined }}", a, k)
			add("{%% set x = %s %%}{{ x%s }}", a, k)
		}
		add("{%% set x = %s %%}{{ x }}", a)
		add("{%% set x = %s %%}{{ not x }}{%% for i in x %%}{{ loop.length }}{{ loop.last }}{{ i }}{%% else %%}E{%% endfor %%}", a)
	}
	for _, head := range []string{"{%", "{%-", "{%+", "{{", "{{-", "{#", "{#-", "{#+"} {
		for _, tail := range []string{"%}", "-%}", "+%}", "}}", "-}}", "#}", "-#}", "+#}"} {
			for _, before := range []string{"", "  ", "a", "a ", "\n", "\n  ", "a\n  ", " \t\n\n \t", "{% raw %} x {% endraw %} "} {
				for _, after := range []string{"", "  ", "\n", "\n\n", "  \nb", "\r\n x", " b"} {
					inside := " if b "
					switch head[1] {
					case '{':
						inside = " 5 "
					case '#':
						inside = " c "
					}
					add("%s%s%s%s%s{%% if 0 %%}{%% endif %%}", before, head, inside, tail, after)
					if head[1] == '%' {
						add("%s%s%s%s%s{%% endif %%}x\n", before, head, inside, tail, after)
					}
				}
			}
		}
	}
	for _, begin := range []string{"{% raw %}", "{%- raw %}", "{%+ raw -%}", "{% raw-%}", "{%raw%}"} {
		for _, end := range []string{"{% endraw %}", "{%- endraw -%}", "{%+ endraw +%}", "{%endraw%}"} {
			add("a \n  %s \n {{ x }} {%% \n  %s\n b", begin, end)
		}
	}
	return sources
}
