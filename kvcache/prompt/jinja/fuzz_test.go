package jinja

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"
)

// fuzzOptions are limits that a fuzzing machine can bear a thousand times a second.
func fuzzOptions() Options {
	return Options{MaxOutput: 1 << 16, MaxSteps: 20_000, MaxDepth: 50, Now: func() time.Time { return time.Unix(1e9, 0).UTC() }}
}

func seedTemplates(f *testing.F, add func(source string)) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "templates", "*.jinja"))
	if err != nil || len(paths) == 0 {
		f.Fatal("no templates", err)
	}
	for _, p := range paths {
		source, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		add(string(source))
	}
	for _, source := range []string{
		"{{ x }}", "{% for a, b in d.items() if a recursive %}{{ loop.index }}{{ loop(b) }}{% else %}e{% endfor %}",
		"{% macro f(a, b=1) %}{{ varargs }}{{ kwargs }}{{ caller() }}{% endmacro %}{% call(x) f(1, *l, **d) %}{{ x }}{% endcall %}",
		"{% set ns = namespace(a=1) %}{% set ns.a, y = 2, 3 %}{% set z %}{{ ns }}{% endset %}{{ z|upper }}", "{%- raw -%} {{ {% endraw +%}{# #}",
		"{{ '%s %5.2f %(a)s' % (1, 2) }}{{ '{:>5}{!r}'.format(x, s) }}{{ s[1:-1:2] }}{{ l|map(attribute='k')|sort|join(',') }}",
		"{% with a=1, b=2 %}{% filter indent(2)|trim %}{{ a ~ b }}{% endfilter %}{% endwith %}{% generation %}g{% endgeneration %}",
		"{{ 1 if x is defined and not y else 2 ** 3 // 4 % 5 - -6 }}{{ a.b['c'].0(1)(2) }}{{ [1, (2,), {3: none}]|tojson(indent=2) }}",
	} {
		add(source)
	}
}

// FuzzCompile: a source compiles or is refused, the same way each time.
func FuzzCompile(f *testing.F) {
	seedTemplates(f, func(s string) { f.Add(s) })
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Compile(source, fuzzOptions())
		if (tmpl == nil) == (err == nil) {
			t.Fatal("error xor template", err)
		}
		again, err2 := Compile(source, fuzzOptions())
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("not the same twice: %v, %v", err, err2)
		}
		if tmpl != nil && (len(tmpl.Variables()) != len(again.Variables()) || tmpl.ContentFormat() != again.ContentFormat()) {
			t.Fatal("not the same twice")
		}
	})
}

// FuzzRender: a render ends within its limits, twice the same, and leaves its
// variables and what was in dst alone.
func FuzzRender(f *testing.F) {
	const vars = `{"x": 1, "s": "a é 😀", "l": [1, "b", null, {"k": 2}], "d": {"a": 1.5, "b": [true]}, "messages": [{"role": "user", "content": "hi"},
		{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}], "tools": null}`
	seedTemplates(f, func(s string) { f.Add(s, vars) })
	f.Fuzz(func(t *testing.T, source, text string) {
		v, err := FromJSON([]byte(text))
		d, ok := v.(*Dict)
		if err != nil || !ok {
			d = &Dict{}
		}
		tmpl, err := Compile(source, fuzzOptions())
		if err != nil {
			return
		}
		before, err := AppendJSON(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tmpl.Render(context.Background(), []byte("dst"), d)
		if !bytes.HasPrefix(out, []byte("dst")) || err != nil && len(out) != len("dst") {
			t.Fatalf("dst is damaged: %q", out)
		}
		if len(out) > len("dst")+fuzzOptions().MaxOutput {
			t.Fatal("longer than allowed")
		}
		again, err2 := tmpl.Render(context.Background(), []byte("dst"), d)
		if !bytes.Equal(out, again) || (err == nil) != (err2 == nil) {
			t.Fatalf("not the same twice: %q %v, %q %v", out, err, again, err2)
		}
		after, err := AppendJSON(nil, d)
		if err != nil || !bytes.Equal(before, after) {
			t.Fatal("variables have changed")
		}
	})
}

// FuzzJSON: what decodes encodes, and decodes to the same again.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, "x\u00e9\ud800", null, true, {}], "a": -0}`, `[1e400, NaN, 123456789012345678901234567890]`, `"\ud83d\ude00"`, `[[[]]]`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := FromJSON(data)
		if (v == nil) == (err == nil) {
			t.Fatal("error xor value", err)
		}
		if err != nil {
			return
		}
		once, err := AppendJSON(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(once) {
			return // a lone surrogate, which JSON text can hold only as an escape
		}
		v, err = FromJSON(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		twice, err := AppendJSON(nil, v)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s: %v", once, twice, err)
		}
	})
}
