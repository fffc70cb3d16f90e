package jinja

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrors(t *testing.T) {
	for source, want := range map[string]struct {
		sentinel error
		line     int
	}{
		"a\n{{ x.y }}":                     {ErrRuntime, 2},
		"{{ 1 + 'a' }}":                    {ErrRuntime, 1},
		"\n\n{% for a in 5 %}{% endfor %}": {ErrRuntime, 3},
		"{{ f() }}":                        {ErrRuntime, 1},
		"{{ {}.update({}) }}":              {ErrRuntime, 1},
		"{{ [].append(1) }}":               {ErrRuntime, 1},
		"{{ ''.__class__.__mro__ }}":       {ErrRuntime, 1},
		"{{ 1 / 0 }}":                      {ErrRuntime, 1},
		"{{ range(100001) }}":              {ErrRuntime, 1},
		"{{ raise_exception('no') }}":      {ErrRaised, 1},
		"\n{% if true %}\n{{ raise_exception(1) }}{% endif %}": {ErrRaised, 3},
		"{% include 'x' %}":                        {ErrUnsupported, 1},
		"\n{% extends 'x' %}":                      {ErrUnsupported, 2},
		"{% import 'x' as y %}":                    {ErrUnsupported, 1},
		"{% from 'x' import y %}":                  {ErrUnsupported, 1},
		"{% autoescape true %}{% endautoescape %}": {ErrUnsupported, 1},
		"\n{{ x|pprint }}":                         {ErrUnsupported, 2},
		"{{ [1]|map('string') }}":                  {ErrUnsupported, 1},
		"{{ lipsum() }}":                           {ErrUnsupported, 1},
		"{{ self.x() }}":                           {ErrUnsupported, 0},
		"{% do x %}":                               {ErrSyntax, 1},
		"{{ x|nosuch }}":                           {ErrSyntax, 1},
		"{{ x is nosuch }}":                        {ErrSyntax, 1},
		"{% if x|nosuch %}{% endif %}":             {ErrRuntime, 1},
		"{% for x in y %}":                         {ErrSyntax, 1},
		"{% endif %}":                              {ErrSyntax, 1},
		"{{ 'a }}":                                 {ErrSyntax, 1},
		"{{ (1] }}":                                {ErrSyntax, 1},
		"{# x":                                     {ErrSyntax, 1},
		"{% raw %}":                                {ErrSyntax, 1},
		"\n{% break %}":                            {ErrSyntax, 2},
		"{% set 1 = 2 %}":                          {ErrSyntax, 1},
		"{% block a %}{% endblock %}\n{% block a %}{% endblock %}": {ErrSyntax, 2},
		"{{ f(a=1, a=2) }}":                 {ErrSyntax, 1},
		"{% macro f(a, a) %}{% endmacro %}": {ErrSyntax, 1},
		"\xff":                              {ErrSyntax, 0},
	} {
		t.Run(source, func(t *testing.T) {
			_, err := mustRender(t, source, Options{}, &Dict{})
			require.ErrorIs(t, err, want.sentinel)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, want.line, e.Line, err)
			require.NotEmpty(t, err.Error())
			for _, other := range []error{ErrSyntax, ErrUnsupported, ErrRuntime, ErrRaised, ErrLimit} {
				require.Equal(t, errors.Is(other, want.sentinel), errors.Is(err, other))
			}
		})
	}
}

// What variables hold does not get into an error's text: it may be a prompt.
func TestErrorsSaySilent(t *testing.T) {
	const canary = "CANARY"
	vars := NewDict(3)
	vars.Set("s", String(canary))
	vars.Set("d", func() *Dict { d := NewDict(1); d.Set(canary, String(canary)); return d }())
	vars.Set("l", NewList(String(canary)))
	for _, source := range []string{
		"{{ raise_exception(s) }}", "{{ raise_exception('no: ' ~ s) }}", "{{ d[s ~ 1].x }}", "{{ s.index('x') }}", "{{ s + 1 }}", "{{ 1 < s }}", "{{ s|int('x') + 1 }}",
		"{{ '%d' % s }}", "{{ '{:d}'.format(s) }}", "{{ s|map(s)|list }}", "{{ l|select(s)|list }}", "{{ '{' ~ s ~ '}' }}{{ ('{' ~ s ~ '}').format() }}", "{{ ('%(' ~ s ~ ')s') % d.x }}",
		"{{ f(**d) }}", "{% macro f() %}{% endmacro %}{{ f(**d) }}", "{{ dict(s) }}", "{{ 'x'.split(**d) }}", "{{ d|dictsort(by=s) }}",
		"{{ range(s) }}", "{{ [][s].x }}", "{{ (d|attr(s)).x }}", "{{ strftime_now('%' ~ s ~ '%E') }}", "{{ l|join(attribute=s).x }}", "{{ d|xmlattr(s) }}{{ {s ~ ' ': 1}|xmlattr }}",
		"{{ cycler(**d) }}", "{{ s|round(method=s) }}", "{{ s|tojson(separators=s) }}", "{{ namespace(s) }}", "{{ s.center(8, s) }}", "{{ s() }}",
	} {
		_, err := mustRender(t, source, Options{}, vars)
		require.Error(t, err, source)
		require.NotContains(t, err.Error(), canary, source)
		var e *Error
		require.ErrorAs(t, err, &e)
		if e.Kind != Raised {
			require.NotContains(t, e.Message, canary, source)
		}
	}
	_, err := FromJSON([]byte(`{"a": CANARY}`))
	require.ErrorIs(t, err, ErrRuntime)
	require.NotContains(t, err.Error(), canary)
}

func TestRaisedMessage(t *testing.T) {
	_, err := mustRender(t, "{{ raise_exception('roles must alternate') }}", Options{}, &Dict{})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "roles must alternate", e.Message)
}
