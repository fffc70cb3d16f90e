//go:build e2e

package jinja_test

// The following make expressions of a type, so that more of them have a value.

func (g *generator) text(depth int) string {
	if depth <= 0 || g.chance(0.2) {
		return g.pick("s", "t", "e", "html", "lines", g.str(), "m[0].role", "nest|tojson", "ls[0]")
	}
	x := g.text(depth - 1)
	switch g.IntN(12) {
	case 0:
		return x + " ~ " + g.any(depth-1)
	case 1:
		return x + " + " + g.text(depth-1)
	case 2:
		return "(" + x + ")[" + g.pick("0", "-1", "1", "", ":2", "1:", "::-1", ":-1", "-3:", "1::2", "5:1:-1") + "]"
	case 3, 4:
		return "(" + x + ")." + g.pick("upper()", "lower()", "title()", "capitalize()", "strip()", "swapcase()", "lstrip('H <')", "rstrip('\\n')", "casefold()",
			"strip(s)", "replace('a', 'bb')", "replace('', '-', 2)", "split(',')[0]", "split()[-1]", "splitlines()[0]", "center(20, '*')", "zfill(9)", "ljust(5)",
			"rjust(30)", "expandtabs(3)", "removeprefix('H')", "partition(' ')[2]", "rpartition('l')[0]", "join(ls)", "format(1, k=s)", "rsplit('l', 1)[0]")
	case 5, 6, 7:
		return "(" + x + ")|" + g.pick("upper", "lower", "title", "capitalize", "trim", "trim('ae')", "replace('l', 'L', 1)", "indent", "indent(2, true)", "indent(blank=true)",
			"truncate(5)", "truncate(8, true, '')", "center(15)", "reverse", "string", "urlencode", "striptags", "e|string", "forceescape", "safe", "tojson", "tojson(true)", "first", "last",
			"list|join('-')", "default('q', true)", "escape ~ '<'")
	case 8:
		return g.pick("'%s|%5s|%-6s|%r'", "'%s %s %s %s'", "'%(a)s'") + " % (" + g.any(depth-1) + ", " + x + ", " + g.text(depth-1) + ", " + g.any(depth-1) + ")"
	case 9:
		return "'" + g.pick("{:>8}|{}", "{0!r:10}{1}", "{:<5}{:^9}", "{:.2}{}", "{0}{0}{1}", "{{}}{}{}") + "'.format(" + x + ", " + g.any(depth-1) + ")"
	case 10:
		return "(" + x + " if " + g.cond(depth-1) + " else " + g.text(depth-1) + ")"
	default:
		return "(" + g.seq(depth-1) + ")|join(" + g.pick("", "','", "s") + ")"
	}
}

func (g *generator) num(depth int) string {
	if depth <= 0 || g.chance(0.25) {
		return g.pick("n", "neg", "f", "g", "big", "0", "1", "2", "-5", "2.5", "1e3", "true", "loop.index", "1_0", "0.1")
	}
	x := g.num(depth - 1)
	switch g.IntN(9) {
	case 0, 1, 2:
		return "(" + x + " " + g.pick("+", "-", "*", "/", "//", "%") + " " + g.num(depth-1) + ")"
	case 3:
		return "(" + x + ")|" + g.pick("abs", "int", "float", "round", "round(1)", "round(-1)", "round(2, 'floor')", "round(1, 'ceil')", "string|int", "string|float", "default(1)")
	case 4:
		return "(" + g.text(depth-1) + ")" + g.pick("|length", "|wordcount", ".count('l')", ".find('o')", ".rfind('l', 2)", "|int(3)", "|float(1.5)")
	case 5:
		return "(" + g.seq(depth-1) + ")|" + g.pick("length", "count", "sum", "min", "max", "first", "last", "map('string')|map('length')|sum")
	case 6:
		return "-" + x
	case 7:
		return "2 ** " + g.pick("3", "-1", "0.5", "10", "70")
	default:
		return "(" + x + " if " + g.cond(depth-1) + " else " + g.num(depth-1) + ")"
	}
}

func (g *generator) seq(depth int) string {
	if depth <= 0 || g.chance(0.2) {
		return g.pick("l", "ls", "mix", "el", "ds", "m", "range(4)", "[1, 2, 3]", "(1, 'a')", "d.items()|list", "d.keys()", "nest.a.b", "range(5, 0, -2)")
	}
	x := "(" + g.seq(depth-1) + ")"
	switch g.IntN(10) {
	case 0, 1:
		return x + "[" + g.pick("1:", ":-1", "::-1", ":2", "::2", "-2:", "5:", "2:0:-1") + "]"
	case 2, 3, 4:
		return x + "|" + g.pick("list", "reverse|list", "sort|list", "unique|list", "map('string')|list", "map('tojson')|list", "select|list", "reject('none')|list",
			"select('string')|list", "map('default', 'z')|list", "batch(2)|list", "batch(2, 0)|list", "slice(2)|list", "slice(3, 'f')|list", "sort(reverse=true)", "map('upper')|sort|list",
			"reject('string')|list", "select('number')|map('round', 1)|list", "first|list", "map(attribute='k', default='?')|list", "selectattr('k', 'defined')|list", "groupby('k', default='x')")
	case 5:
		return "[" + g.any(depth-1) + ", " + g.any(depth-1) + "]"
	case 6:
		return x + "|list + " + "(" + g.seq(depth-1) + ")|list"
	case 7:
		return x + "|list * 2"
	case 8:
		return "(" + g.text(depth-1) + ")" + g.pick(".split()", ".split(',', 1)", ".splitlines()", "|list", ".rsplit(None, 1)", ".split('l')", ".splitlines(true)")
	default:
		return "ds|" + g.pick("sort(attribute='v')", "map(attribute='v')|list", "selectattr('v', 'gt', 1)|list", "rejectattr('k')|list", "sum(attribute='v')|string|list",
			"groupby('v')", "unique(attribute='v')|list", "max(attribute='v')|items|list", "map('dictsort')|list", "sort(attribute='v', reverse=true)|first|list")
	}
}

func (g *generator) dictx(depth int) string {
	return g.pick("d", "ed", "nest", "ds[0]", "{'a': "+g.any(depth-1)+"}", "{1: "+g.any(depth-1)+", true: 'x', 1.5: none}", "dict(a=1, **d)", "m[1].tool_calls[0].function", "dict([('a', 1)])")
}

func (g *generator) cond(depth int) string {
	if depth <= 0 {
		return g.pick("b", "nb", "z", "undef", "true", "not b", "n > 3")
	}
	switch g.IntN(9) {
	case 0:
		return "(" + g.cond(depth-1) + " " + g.pick("and", "or") + " " + g.cond(depth-1) + ")"
	case 1:
		return "not " + g.cond(depth-1)
	case 2:
		return "(" + g.num(depth-1) + " " + g.pick("<", ">", "<=", ">=", "==", "!=") + " " + g.num(depth-1) + ")"
	case 3:
		return "(" + g.text(depth-1) + " " + g.pick("in", "not in", "==", "<", "!=") + " " + g.text(depth-1) + ")"
	case 4:
		return "(" + g.any(depth-1) + g.pick(" in ", " not in ", " == ") + g.seq(depth-1) + ")"
	case 5:
		return "'" + g.pick("a", "x", "items") + "' in " + g.dictx(depth-1)
	case 6:
		return "(" + g.text(depth-1) + ")." + g.pick("startswith('H')", "endswith(('d', 't'))", "isupper()", "islower()", "isalpha()", "isspace()", "istitle()", "isdigit()", "startswith('l', 2)", "isalnum()", "isprintable()")
	default:
		return "(" + g.any(depth-1) + ")" + g.pick(" is ", " is not ") + g.pick("defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping",
			"iterable", "sequence", "callable", "lower", "upper", "sameas none", "equalto 1", "eq('a')", "in ls", "escaped")
	}
}

func (g *generator) any(depth int) string {
	switch g.IntN(13) {
	case 0, 1, 2:
		return g.text(depth)
	case 3, 4:
		return g.num(depth)
	case 5, 6:
		return g.seq(depth)
	case 7:
		return g.dictx(depth)
	case 8:
		return g.cond(depth)
	case 9:
		return g.dictx(depth) + g.pick(".a", "['a']", ".get('a', 'dflt')", ".nope", "|tojson(indent=2)", ".items()|list", "|items|list", "|dictsort", ".values()|list", "|length", "|list", "|tojson", ".keys()")
	case 10:
		return g.name()
	default:
		return g.expr(depth)
	}
}
