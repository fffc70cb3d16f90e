package jinja

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the class dict yields for a subscript is a types.GenericAlias. The texts are
// what jinja2 prints under Python 3.11; what is refused differs between Pythons or
// would need one.
func TestAlias(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`{{ dict.k }}, {{ dict[1] }} {{ dict[none] }}`:              `dict['k'], dict[1] dict[None]`,
		`{{ dict.k == dict['k'] }} {{ dict.k != dict.k }}`:          `True False`,
		`{{ dict[1.0] == dict[1] }} {{ dict.k == 1 }}`:              `True False`,
		`{{ dict.k in [dict.k] }}`:                                  `True`,
		`{{ {dict.k: 1}[dict.k] }}`:                                 `1`,
		`{{ [dict.k, dict.k]|unique|list }}`:                        `[dict['k']]`,
		`{{ dict.k is sameas dict.k }} or {{ dict.k is sequence }}`: `False or False`,
		`{{ dict.k.x is defined }} {{ dict.k.__origin__ }}`:         `False `,
		`{{ dict.k(a=1) }}`:                                         `{'a': 1}`,
	} {
		out, err := renderText(source)
		require.NoError(t, err, source)
		require.Equal(t, want, out, source)
	}
	for _, source := range []string{
		`{{ [dict.k|list] }}`, `{{ dict.k is iterable }}`, `{{ 1 in dict.k }}`, `{{ dict.k|first }}`, `{{ dict.k|join }}`,
		`{% for x in dict.k %}{{ x }}{% endfor %}`, `{{ dict.k|map('upper')|list }}`, `{{ dict.k.keys }}`,
		`{{ dict.k.fromkeys('ab') }}`, `{{ dict.k|attr('keys') }}`, `{{ dict[(1, 2)] }}`, `{{ dict[[1]] }}`, `{{ dict[dict] }}`,
	} {
		_, err := renderText(source)
		var e *Error
		require.ErrorAs(t, err, &e, source)
		require.Equal(t, Unsupported, e.Kind, source)
	}
}

func renderText(source string) (string, error) {
	tmpl, err := Compile(source, Options{})
	if err != nil {
		return "", err
	}
	out, err := tmpl.Render(context.Background(), nil, &Dict{})
	return string(out), err
}
