package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseValue(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		in     string
		offset int // of the error; -1 for none
		reason string
	}{
		"object":             {`{"a":1,"b":[true,false,null,-0,1.5e-7,"x"]}`, -1, ""},
		"spaces":             {" \t\r\n{ \"a\" : [ ] , \"b\" : { } } \n", -1, ""},
		"scalar":             {`"x"`, -1, ""},
		"lone surrogate":     {`"\ud800"`, -1, ""},
		"delete is plain":    {"\"\x7f\"", -1, ""},
		"all escapes":        {`"\"\\\/\b\f\n\r\t\u00e9"`, -1, ""},
		"depth at the bound": {deep(DefaultDepth), -1, ""},
		"empty":              {``, 0, reasonEOF},
		"only spaces":        {`  `, 2, reasonEOF},
		"byte order mark":    {"\xef\xbb\xbf{}", 0, reasonChar},
		"depth beyond":       {deep(DefaultDepth + 1), DefaultDepth, reasonDepth},
		"trailing comma":     {`{"a":1,}`, 7, reasonChar},
		"no comma, object":   {`{"a":1 "b":2}`, 7, reasonChar},
		"no comma, nested":   {`[{"a":1 "b":2}]`, 8, reasonChar},
		"no colon, nested":   {`[{"a"}]`, 5, reasonChar},
		"trailing comma 2":   {`[1,]`, 3, reasonChar},
		"no comma":           {`[1 2]`, 3, reasonChar},
		"no colon":           {`{"a" 1}`, 5, reasonChar},
		"unquoted key":       {`{a:1}`, 1, reasonChar},
		"two values":         {`{} {}`, 3, reasonTrailing},
		"comment":            {`{/**/}`, 1, reasonChar},
		"NaN":                {`[NaN]`, 1, reasonChar},
		"leading zero":       {`[01]`, 2, reasonNumber},
		"leading plus":       {`[+1]`, 1, reasonChar},
		"bare minus":         {`[-]`, 2, reasonNumber},
		"bare point":         {`[1.]`, 3, reasonNumber},
		"bare exponent":      {`[1e+]`, 4, reasonNumber},
		"cut number":         {`-`, 1, reasonEOF},
		"cut word":           {`[tru`, 4, reasonEOF},
		"wrong word":         {`[trUe]`, 3, reasonChar},
		"cut string":         {`{"a`, 3, reasonEOF},
		"cut escape":         {`"\`, 2, reasonEOF},
		"cut object":         {`{"a":1`, 6, reasonEOF},
		"single quotes":      {`{'a':1}`, 1, reasonChar},
		"control character":  {"\"a\nb\"", 2, reasonControl},
		"NUL":                {"\"a\x00b\"", 2, reasonControl},
		"bad escape":         {`"\x41"`, 2, reasonEscape},
		"bad hex":            {`"\u00g0"`, 5, reasonEscape},
		"bad UTF-8":          {"\"ab\xffc\"", 3, reasonUTF8},
		"bad UTF-8, far in":  {"\"0123456789abcdef\xff0123456789\"", 17, reasonUTF8},
		"control, far in":    {"\"0123456789abcdef\x1f0123456789\"", 17, reasonControl},
		"cut UTF-8":          {"\"ab\xe4\xb8\"", 3, reasonUTF8},
		"surrogate in UTF-8": {"\"\xed\xa0\x80\"", 1, reasonUTF8},
		"overlong UTF-8":     {"\"\xc0\xaf\"", 1, reasonUTF8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := ParseValue([]byte(c.in), 0)
			if c.offset < 0 {
				require.NoError(t, err)
				assert.Equal(t, strings.TrimSpace(c.in), string(v.Raw()))
				return
			}
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, Error{Offset: c.offset, Reason: c.reason}, *e)
			_, err = Parse([]byte(c.in), 0)
			require.Error(t, err)
		})
	}
}

func TestParseWantsAnObject(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`[1]`, ` "x"`, `7`, `null`} {
		_, err := Parse([]byte(in), 0)
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, reasonNotObject, e.Reason, in)
	}
	_, err := Parse([]byte(`[1`), 0)
	assert.EqualError(t, err, "json: unexpected end at byte 2")
}

func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	many := func(n int) []byte { return []byte("{" + strings.Repeat(`"a":0,`, n-1) + `"b":{}}`) }
	o, err := Parse(many(MaxFields), 0)
	require.NoError(t, err)
	assert.Equal(t, MaxFields-1, o.Count("a"))
	_, err = Parse(many(MaxFields+1), 0)
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, Error{Offset: 1 + len(`"a":0,`)*MaxFields, Reason: reasonFields}, *e)
	// Further in there is no bound, and an edit finds them all.
	o, err = Parse([]byte(`{"s":`+string(many(2*MaxFields))+`}`), 0)
	require.NoError(t, err)
	var edit Edit
	edit.SetIn("s", "a", []byte("1"))
	out, err := edit.Apply(o)
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(string(o.Bytes()), `"a":0`, `"a":1`), string(out))
}

func TestErrorHoldsNoText(t *testing.T) {
	t.Parallel()
	const canary = "canary-in-a-prompt"
	for _, in := range []string{`{"a":"` + canary, `{"` + canary + `"}`, `{"a":"` + canary + "\x01\"}", canary} {
		_, err := Parse([]byte(in), 0)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "canary")
	}
}

func TestObjectFields(t *testing.T) {
	t.Parallel()
	o, err := Parse([]byte(` { "model" : "a", "n":9007199254740993,"x":1.0, "mod\u0065l":"b" ,"model":"c\n", "z":null, "":[] } `), 0)
	require.NoError(t, err)
	assert.Equal(t, 7, o.Len())
	assert.Equal(t, 3, o.Count("model"))
	v, ok := o.Get("model")
	require.True(t, ok)
	s, ok := v.Str()
	require.True(t, ok)
	assert.Equal(t, "c\n", s, "the last of duplicates counts")
	key, v := o.Field(3)
	assert.Equal(t, "model", string(key))
	assert.Equal(t, `"b"`, string(v.Raw()))
	n, ok := o.Value("n").Int()
	assert.True(t, ok)
	assert.Equal(t, int64(9007199254740993), n)
	v, ok = o.Get("z")
	assert.True(t, ok)
	assert.False(t, v.Exists())
	assert.Equal(t, KindNull, v.Kind())
	_, ok = o.Get("absent")
	assert.False(t, ok)
	assert.Equal(t, KindArray, o.Value("").Kind())
}

func TestValue(t *testing.T) {
	t.Parallel()
	ints := map[string]int64{"0": 0, "-7": -7, "7.0": 7, "70e-1": 7, "9223372036854775807": 1<<63 - 1, "1e3": 1000}
	for in, want := range ints {
		v, err := ParseValue([]byte(in), 0)
		require.NoError(t, err)
		got, ok := v.Int()
		assert.True(t, ok, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"1.5", "1e400", "9223372036854775808", "1e17", `"7"`, "null", "true", "[7]"} {
		v, err := ParseValue([]byte(in), 0)
		require.NoError(t, err)
		_, ok := v.Int()
		assert.False(t, ok, in)
	}
	for _, in := range []string{`""`, `[]`, `{ }`, `null`} {
		v, err := ParseValue([]byte(in), 0)
		require.NoError(t, err)
		assert.True(t, v.Empty(), in)
	}
	for _, in := range []string{`"a"`, `[0]`, `{"":0}`, `0`, `false`} {
		v, err := ParseValue([]byte(in), 0)
		require.NoError(t, err)
		assert.False(t, v.Empty(), in)
	}
	var none Value
	assert.True(t, none.Empty())
	assert.False(t, none.Exists())
	assert.False(t, none.Is(""))
	assert.Equal(t, KindNone, none.Get("a").Kind())
	assert.Zero(t, none.Len())
	f, ok := mustValue(t, "1.5").Float()
	assert.True(t, ok)
	assert.InDelta(t, 1.5, f, 0)
	b, ok := mustValue(t, "true").Bool()
	assert.True(t, b && ok)
	assert.True(t, mustValue(t, `"a\u0062"`).Is("ab"))
	assert.False(t, mustValue(t, `"a\\"`).Is(`a\\`))
	inner := mustValue(t, ` {"a":{"b":[1,{"c":"\"}"},"]"]},"a":{"b":2}}`)
	assert.Equal(t, "2", string(inner.Get("a").Get("b").Raw()))
	assert.Equal(t, 19, mustValue(t, ` {"a":[1],  "long":7 }`).Get("long").Offset())
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9\u4E2d"`: "é中",
		`"\ud83d\ude00"`: "😀", `"\ud83dx"`: "\ufffdx", `"\ud83d\u0041"`: "\ufffdA", `"\ude00\ud83d"`: "\ufffd\ufffd",
		`"\u0000"`: "\x00",
	} {
		got, ok := mustValue(t, in).AppendText([]byte("x"))
		assert.True(t, ok)
		assert.Equal(t, "x"+want, string(got), in)
		assert.True(t, mustValue(t, in).Is(want), in)
		assert.Equal(t, want, func() string { s, _ := mustValue(t, string(AppendString(nil, want))).Str(); return s }())
	}
	for _, in := range []string{`1`, `null`, `["a"]`} {
		got, ok := mustValue(t, in).AppendText([]byte("x"))
		assert.False(t, ok)
		assert.Equal(t, "x", string(got))
		_, ok = mustValue(t, in).Text()
		assert.False(t, ok)
		_, ok = mustValue(t, in).Bool()
		assert.False(t, ok)
	}
	assert.Equal(t, `"\"\\\n\r\t\u001f<é �"`, string(AppendString(nil, "\"\\\n\r\t\x1f<é\u2028\xff")))
	_, ok := mustValue(t, `"1"`).Float()
	assert.False(t, ok)
}

func TestUint32s(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]uint32{
		`[]`: {}, ` [ ]`: {}, `[1, 2 ,4294967295]`: {1, 2, 4294967295}, `[7.0]`: {7},
		`[-1]`: nil, `[4294967296]`: nil, `["1"]`: nil, `[1,null]`: nil, `[1.5]`: nil, `{}`: nil, `1`: nil,
	} {
		got, ok := mustValue(t, in).Uint32s()
		assert.Equal(t, want, got, in)
		assert.Equal(t, want != nil, ok, in)
	}
}

func TestField(t *testing.T) {
	t.Parallel()
	v, ok := mustValue(t, `{"a":null}`).Field("a")
	assert.True(t, ok)
	assert.False(t, v.Exists())
	_, ok = mustValue(t, `{"a":null}`).Field("b")
	assert.False(t, ok)
	_, ok = mustValue(t, `[1]`).Field("a")
	assert.False(t, ok)
}

func mustValue(t testing.TB, in string) Value {
	t.Helper()
	v, err := ParseValue([]byte(in), 0)
	require.NoError(t, err)
	return v
}

// FuzzParse compares with encoding/json: the same texts are accepted, but for
// invalid UTF-8, and every field and string reads the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"model":"a","messages":[{"role":"user","content":"h\u00e9\ud83d\ude00"}],"n":1e5}`,
		`{"":{"":[[],{}]},"\ud800":"\ud800x"}`, `[1,2`, "\xff", `{"a":1,"a":-0.0e-0}`, `"\u0000"`, "[\"\xe4\xb8\xad\"]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := ParseValue(in, 1<<20)
		if want := json.Valid(in) && utf8.Valid(in); want != (err == nil) {
			if len(in) > 10000 { // encoding/json has a nesting bound of its own
				return
			}
			t.Fatalf("accepted %v, want %v: %q", err == nil, want, in)
		}
		o, oerr := Parse(in, 1<<20)
		if (err == nil && v.Kind() == KindObject) != (oerr == nil) && v.Len() <= MaxFields {
			t.Fatalf("Parse and ParseValue differ: %v, %v", err, oerr)
		}
		if err != nil {
			return
		}
		same(t, in, v)
		for i := range o.Len() {
			_, fv := o.Field(i)
			if !bytes.Equal(in[fv.Offset():fv.Offset()+len(fv.Raw())], fv.Raw()) {
				t.Fatal("offset does not lead to the value")
			}
		}
	})
}

// same compares everything that Value can say with encoding/json.
func same(t *testing.T, in []byte, v Value) {
	t.Helper()
	switch v.Kind() {
	case KindString:
		var want string
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		got, _ := v.Str()
		if got != want || !v.Is(want) {
			t.Fatalf("string %q, want %q", got, want)
		}
		if again, _ := mustValue(t, string(AppendString(nil, want))).Str(); again != want {
			t.Fatalf("AppendString: %q, want %q", again, want)
		}
	case KindArray:
		var want []json.RawMessage
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		i := 0
		for it := v.Iter(); it.Next(); i++ {
			if string(it.Value().Raw()) != string(want[i]) {
				t.Fatalf("element %d: %q, want %q", i, it.Value().Raw(), want[i])
			}
			same(t, in, it.Value())
		}
		if i != len(want) {
			t.Fatalf("%d elements, want %d", i, len(want))
		}
	case KindObject:
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		for k, raw := range want {
			if string(v.Get(k).Raw()) != string(raw) {
				t.Fatalf("member: %q, want %q", v.Get(k).Raw(), raw)
			}
		}
		for it := v.Iter(); it.Next(); {
			if _, ok := want[string(it.Key())]; !ok {
				t.Fatalf("extra member")
			}
			if !bytes.Equal(in[it.Value().Offset():][:len(it.Value().Raw())], it.Value().Raw()) {
				t.Fatal("offset does not lead to the value")
			}
			same(t, in, it.Value())
		}
	default:
	}
}
