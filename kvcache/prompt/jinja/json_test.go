package jinja

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFromJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"b":1,"a":2,"b":3}`:                        `{"b": 3, "a": 2}`,
		`[1, 1.0, -0, -0.0, 1e3, 1E400]`:             `[1, 1.0, 0, -0.0, 1000.0, Infinity]`,
		`123456789012345678901234567890`:             `123456789012345678901234567890`,
		`[NaN, Infinity, -Infinity]`:                 `[NaN, Infinity, -Infinity]`,
		`"\u00e9\ud83d\ude00\/\"\\\b\f\n\r\t\u0001"`: "\"é😀/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\"",
		" \t\r\n{ \"a\" : [ ] , \"\" : { } } ":       `{"a": [], "": {}}`,
		`[0.1, 1e16, 123456789.123, 1e-7, 5e-324]`:   `[0.1, 1e+16, 123456789.123, 1e-07, 5e-324]`,
		`[true, false, null]`:                        `[true, false, null]`,
	} {
		v, err := FromJSON([]byte(text))
		require.NoError(t, err, text)
		out, err := AppendJSON([]byte("x"), v)
		require.NoError(t, err)
		require.Equal(t, "x"+want, string(out), text)
	}
	for _, text := range []string{
		"", " ", "{", "[", "[1,]", "{,}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, "01", "1.", ".5", "+1", "-", "1e", "tru", "nul", "'a'", `"a`, `"\x"`, `"\u12"`, `"\u12g4"`,
		"\"\n\"", "[1 2]", "1 2", "\xff", `"\ud800\u12"`, strings.Repeat("[", 100_000), "--1", "NaNs", strings.Repeat("1", 5000),
	} {
		_, err := FromJSON([]byte(text))
		require.ErrorIs(t, err, ErrRuntime, text)
	}
}

// Python keeps lone surrogates, and so do we, as the bytes UTF-8 would give them.
func TestSurrogates(t *testing.T) {
	v, err := FromJSON([]byte(`["\ud800", "\udc00x", "\ud800\ud800", "\ud83d", "\ude00"]`))
	require.NoError(t, err)
	l, ok := v.(*List)
	require.True(t, ok)
	require.Equal(t, String("\xed\xa0\x80"), l.At(0))
	require.Equal(t, String("\xed\xb0\x80x"), l.At(1))
	vars := NewDict(1)
	vars.Set("l", v)
	out, err := mustRender(t, "{{ l[1]|length }} {{ l[1][1] }} {{ l[2]|length }} {{ (l[3] ~ l[4])|length }} {{ l[0:1] }} {{ l[0]|tojson(true) }} {{ l[1][::-1]|length }}", Options{}, vars)
	require.NoError(t, err)
	require.Equal(t, `2 x 2 2 ['\ud800'] "\ud800" 2`, string(out))
}

func TestBigInt(t *testing.T) {
	b, _ := new(big.Int).SetString("99999999999999999999", 10)
	vars := NewDict(2)
	vars.Set("b", BigInt(b))
	vars.Set("s", BigInt(big.NewInt(7)))
	b.SetInt64(0) // the value was copied
	out, err := mustRender(t, "{{ b }} {{ b + 1 - b }} {{ s is integer }} {{ b // 10 ** 19 }} {{ -b % 7 }} {{ b / 3 }} {{ b == b * 1.0 }}", Options{}, vars)
	require.NoError(t, err)
	require.Equal(t, "99999999999999999999 1 True 9 6 3.333333333333333e+19 False", string(out))
}

func TestDict(t *testing.T) {
	d := NewDict(0)
	for i := range 100 {
		d.Set(strings.Repeat("k", i%37), Int(i))
	}
	require.Equal(t, 37, d.Len())
	v, ok := d.Get("kkk")
	require.True(t, ok)
	require.Equal(t, Int(77), v)
	_, ok = d.Get("x")
	require.False(t, ok)
	n := 0
	for k, v := range d.All() {
		require.Equal(t, String(strings.Repeat("k", n)), k)
		require.NotNil(t, v)
		n++
	}
	require.Equal(t, 37, n)
	for range d.All() {
		break
	}
	var zero Dict
	zero.Set("a", None{})
	require.Equal(t, 1, zero.Len())
	l := NewList(Int(1))
	l.Append(String("x"))
	require.Equal(t, 2, l.Len())
	tup := NewTuple(Int(1), l)
	require.Equal(t, l, tup.At(1))
	require.Equal(t, 2, tup.Len())
	_, err := AppendJSON(nil, &Undefined{})
	require.ErrorIs(t, err, ErrRuntime)
}
