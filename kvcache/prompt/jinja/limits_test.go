package jinja

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/cputime"
)

func mustRender(t testing.TB, source string, o Options, vars *Dict) ([]byte, error) {
	t.Helper()
	tmpl, err := Compile(source, o)
	if err != nil {
		return nil, err
	}
	return tmpl.Render(context.Background(), nil, vars)
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("~ x" + strconv.Itoa(i))
	}
	return b.String()
}

// patience is far more than any of the bounded renders may take, also with the
// race detector.
const patience = 60 * time.Second

func TestHostileTemplates(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	for name, source := range map[string]string{
		"nested loops":         "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
		"long output":          "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}",
		"repeated string":      "{{ 'a' * 10 ** 9 }}",
		"repeated list":        "{{ ([1] * 10 ** 9)|length }}",
		"repeated by a name":   "{% set n = 1000000000 %}{{ 'abc' * n }}",
		"doubling":             "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"doubling lists":       "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"kept strings":         "{% set ns = namespace(l=[]) %}{% set big = 'a' * 10000000 %}{% for i in range(9999) %}{% set ns.l = ns.l + [big ~ i] %}{% endfor %}",
		"nested lists":         "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
		"nested JSON":          "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
		"compared":             "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}{% for i in range(40) %}{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
		"deep value":           "{% set ns = namespace(l=[1]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
		"itself":               "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
		"recursion":            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"recursion by two":     "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
		"fan-out":              "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(99) }}",
		"recursive loop":       "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"huge int":             "{{ 10 ** (10 ** 8) }}",
		"huge product":         "{% set ns = namespace(i=3) %}{% for k in range(99) %}{% set ns.i = ns.i * ns.i %}{% endfor %}{{ ns.i }}",
		"wide format":          "{{ '%1000000000s' % 'x' }}",
		"wide format method":   "{{ '{:1000000000}'.format('x') }}",
		"centered":             "{{ 'x'.center(10 ** 10) }}",
		"padded with zeros":    "{{ 'x'.zfill(10 ** 10) }}",
		"tabs":                 "{{ '\\t'.expandtabs(10 ** 10) }}",
		"replaced":             "{% set s = 'a' * 10000 %}{{ s.replace('a', s).replace('a', s) }}",
		"joined":               "{% set s = 'a' * 100000 %}{{ s.join(s) }}",
		"joined by the filter": "{% set s = 'a' * 100000 %}{{ s|join(s) }}",
		"indented":             "{% set s = '\\na' * 100000 %}{{ s|indent('b' * 100000) }}",
		"indented JSON":        "{{ range(9999)|list|tojson(indent=10 ** 9) }}",
		"batched":              "{{ [1]|batch(10 ** 9, 'x')|list }}",
		"sliced":               "{{ [1]|slice(10 ** 9, 'x')|list }}",
		"sorted":               "{% for i in range(9999) %}{% set x = range(99999)|sort %}{% endfor %}",
		"searched":             "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% if 'b' in s %}{% endif %}{% endfor %}",
		"indexed":              "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{{ s[900000] }}{% endfor %}",
		"counted":              "{% set s = 'é' * 100000 %}{% for i in range(99999) %}{% set n = s|length %}{% endfor %}",
		"members":              "{% set l = range(99999)|list %}{% for i in range(99999) %}{% if -1 in l %}{% endif %}{% endfor %}",
		"mapped":               "{% for i in range(99999) %}{% set l = range(99999)|map('string')|list %}{% endfor %}",
		"parentheses":          "{{ " + deep("(", ")", 100_000) + " }}",
		"brackets":             "{{ " + deep("[", "]", 100_000) + " }}",
		"nots":                 "{{ " + strings.Repeat("not ", 100_000) + "1 }}",
		"signs":                "{{ " + strings.Repeat("-", 100_000) + "1 }}",
		"long sum":             "{{ x" + strings.Repeat(" + x", 100_000) + " }}",
		"long path":            "{{ x" + strings.Repeat(".x", 100_000) + " }}",
		"filters":              "{{ x" + strings.Repeat("|list", 100_000) + " }}",
		"tuples as keys":       "{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}",
		"constants":            "{{ [[[[[1] * 4000] * 4000] * 4000] * 4000] * 4000 }}",
		"constants compared":   "{% set x = [[[[[1] * 4000] * 4000] * 4000] * 4000] * 4000 %}{{ x == x[:-1] + [x] }}{{ x }}",
		"long keys":            "{% set k = 'a' * 8000000 %}{% set d = {k: 1} %}{% for i in range(99999) %}{% set x = d[k] %}{% endfor %}",
		"long texts equal":     "{% set a = 'a' * 1000000 %}{% set l = [a ~ 'b'] * 99999 %}{% for i in range(99) %}{% if a ~ 'c' in l %}{% endif %}{% endfor %}",
		"case folded":          "{% set l = ['A' * 1000000] * 9999 %}{{ l|sort|length }}",
		"JSON indented deeply": "{% set ns = namespace(l=[1]) %}{% for i in range(500) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson(indent=8000000) }}",
		"big products":         "{% set x = 7 ** 20000 %}{% for i in range(99999) %}{% for j in range(99) %}{% set y = x * x % 3 %}{% endfor %}{% endfor %}",
		"keywords":             "{% macro f() %}{{ kwargs|length }}{% endmacro %}{{ f(**dict.fromkeys(range(9999)|map('string'))) }}",
		"names":                "{{ a" + manyNames(5000) + " }}",
		"ifs":                  strings.Repeat("{% if x %}", 100_000),
		"loops in the source":  strings.Repeat("{% for x in y %}", 100_000) + strings.Repeat("{% endfor %}", 100_000),
		"macros in the source": strings.Repeat("{% macro x() %}", 100_000) + strings.Repeat("{% endmacro %}", 100_000),
		"conditionals":         "{{ 1" + strings.Repeat(" if x else 1", 100_000) + " }}",
	} {
		t.Run(name, func(t *testing.T) {
			start := cputime.Process()
			_, err := mustRender(t, source, Options{}, &Dict{})
			require.Error(t, err)
			if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrSyntax) && !errors.Is(err, ErrRuntime) {
				require.NoError(t, err)
			}
			require.Less(t, cputime.Process()-start, patience)
		})
	}
}

func TestLimitsAreLimits(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		o      Options
	}{
		"output": {"{% for i in range(100) %}0123456789{% endfor %}", Options{MaxOutput: 999}},
		"steps":  {"{% for i in range(100) %}{% endfor %}", Options{MaxSteps: 99}},
		"depth":  {"{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(10) }}", Options{MaxDepth: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mustRender(t, c.source, c.o, &Dict{})
			require.ErrorIs(t, err, ErrLimit)
			c.o.MaxOutput *= 2
			c.o.MaxSteps *= 3
			c.o.MaxDepth *= 2
			_, err = mustRender(t, c.source, c.o, &Dict{})
			require.NoError(t, err)
		})
	}
	_, err := Compile(strings.Repeat("x", maxSource+1), Options{})
	require.ErrorIs(t, err, ErrLimit)
}

func TestContextEndsRender(t *testing.T) {
	tmpl, err := Compile("{% for i in range(99999) %}{% for j in range(99) %}{% endfor %}{% endfor %}", Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	out, err := tmpl.Render(ctx, []byte("kept"), &Dict{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "kept", string(out))

	ended := &countdown{Context: context.Background(), left: 3}
	_, err = tmpl.Render(ended, nil, &Dict{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// countdown is a context that ends when it has been looked at a few times.
type countdown struct {
	context.Context //nolint:containedctx // it is one
	left            int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestRenderKeepsDst(t *testing.T) {
	tmpl, err := Compile("{{ 'x' ~ 1 }}{{ f() }}", Options{})
	require.NoError(t, err)
	out, err := tmpl.Render(context.Background(), []byte("before "), &Dict{})
	require.ErrorIs(t, err, ErrRuntime)
	require.Equal(t, "before ", string(out))
	tmpl, err = Compile("{% macro m() %}y{% endmacro %}{{ 'x' ~ 1 }}{{ m() }}", Options{MaxOutput: 3})
	require.NoError(t, err)
	out, err = tmpl.Render(context.Background(), []byte("before "), &Dict{})
	require.NoError(t, err)
	require.Equal(t, "before x1y", string(out))
}

func TestConcurrentRenders(t *testing.T) {
	tmpl, err := Compile("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.content|length %}"+
		"{% filter upper %}{{ m.content }}{% endfilter %}{% endfor %}{{ ns.n }}{{ messages[0]|tojson }}", Options{})
	require.NoError(t, err)
	vars := conversation(20, 3)
	want, err := tmpl.Render(context.Background(), nil, vars)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				got, err := tmpl.Render(context.Background(), nil, vars)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v %q", err, got)
				}
			}
		})
	}
	wg.Wait()
}
