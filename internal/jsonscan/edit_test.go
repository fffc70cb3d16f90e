package jsonscan

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	type edit = func(*Edit)
	model := func(e *Edit) { e.SetString("model", "new\"name") }
	usage := func(e *Edit) { e.SetIn("stream_options", "include_usage", []byte("true")) }
	for name, c := range map[string]struct {
		in   string
		edit edit
		want string
	}{
		"replace, the rest untouched": {
			"{ \"z\": 9007199254740993,\t\"model\" : \"old\" ,\r\n\"f\":1.0,\"u\":{\"b\":1,\"a\":[ ]},\"f\":1e0 }\n", model,
			"{ \"z\": 9007199254740993,\t\"model\" : \"new\\\"name\" ,\r\n\"f\":1.0,\"u\":{\"b\":1,\"a\":[ ]},\"f\":1e0 }\n",
		},
		"replace every duplicate":    {`{"model":"a","x":{"model":"in"},"mod\u0065l":1,"model":null}`, model, `{"model":"new\"name","x":{"model":"in"},"mod\u0065l":"new\"name","model":"new\"name"}`},
		"same meaning stays spelled": {`{"model":"new\u0022name","model":"a"}`, model, `{"model":"new\u0022name","model":"new\"name"}`},
		"same meaning, no copy":      {`{ "model":"new\u0022name" }`, model, `{ "model":"new\u0022name" }`},
		"add":                        {`{"a":1 }`, model, `{"a":1,"model":"new\"name" }`},
		"add to empty":               {` { } `, model, ` {"model":"new\"name" } `},
		"add two":                    {`{}`, func(e *Edit) { e.Set("a", []byte(" [1] ")); e.SetString("b\n", "\x01") }, `{"a":[1],"b\n":"\u0001"}`},
		"the last change of a key counts": {`{"a":1}`, func(e *Edit) {
			e.Set("a", []byte("2"))
			e.Set("b", []byte("2"))
			e.Set("a", []byte("3"))
			e.Delete("b")
		}, `{"a":3}`},
		"delete first":   {`{ "a":1 , "b":2}`, func(e *Edit) { e.Delete("a") }, `{ "b":2}`},
		"delete middle":  {`{"a":1, "b":2 ,  "c":3}`, func(e *Edit) { e.Delete("b") }, `{"a":1 ,  "c":3}`},
		"delete last":    {`{"a":1 , "b":2 }`, func(e *Edit) { e.Delete("b") }, `{"a":1 }`},
		"delete only":    {`{ "a":1 }`, func(e *Edit) { e.Delete("a") }, `{  }`},
		"delete doubles": {`{"a":1,"b":2,"a":3}`, func(e *Edit) { e.Delete("a") }, `{"b":2}`},
		"delete and add": {`{"a":1}`, func(e *Edit) { e.Delete("a"); e.Set("b", []byte("2")) }, `{"b":2}`},
		"delete absent":  {`{"a":1}`, func(e *Edit) { e.Delete("b") }, `{"a":1}`},

		"inner, absent":       {`{"stream":true}`, usage, `{"stream":true,"stream_options":{"include_usage":true}}`},
		"inner, null":         {`{"stream_options": null}`, usage, `{"stream_options": {"include_usage":true}}`},
		"inner, empty":        {`{"stream_options":{ }}`, usage, `{"stream_options":{"include_usage":true }}`},
		"inner, without":      {`{"stream_options":{"a" :1.0 }}`, usage, `{"stream_options":{"a" :1.0,"include_usage":true }}`},
		"inner, false":        {`{"stream_options":{"include_usage" : false,"a":1}}`, usage, `{"stream_options":{"include_usage" : true,"a":1}}`},
		"inner, there":        {`{"stream_options":{"include_usage": true }}`, usage, `{"stream_options":{"include_usage": true }}`},
		"inner, duplicates":   {`{"stream_options":{"include_usage":false,"include_usage":null},"stream_options":null}`, usage, `{"stream_options":{"include_usage":true,"include_usage":true},"stream_options":{"include_usage":true}}`},
		"inner, two":          {`{"s":{"a":1,"x":0}}`, func(e *Edit) { e.SetIn("s", "a", []byte("2")); e.SetIn("s", "b", []byte("3")) }, `{"s":{"a":2,"x":0,"b":3}}`},
		"inner, two to none":  {`{}`, func(e *Edit) { e.SetIn("s", "a", []byte("2")); e.SetIn("s", "b", []byte("3")) }, `{"s":{"a":2,"b":3}}`},
		"inner, set again":    {`{}`, func(e *Edit) { e.SetIn("s", "a", []byte("2")); e.SetIn("s", "a", []byte("3")) }, `{"s":{"a":3}}`},
		"inner, then deleted": {`{"s":{"a":1},"b":0}`, func(e *Edit) { e.SetIn("s", "a", []byte("2")); e.Delete("s") }, `{"b":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := Parse([]byte(c.in), 0)
			require.NoError(t, err)
			var e Edit
			c.edit(&e)
			got, err := e.Apply(o)
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
			if c.want == c.in {
				assert.Same(t, &o.Bytes()[0], &got[0], "nothing changed, nothing copied")
			}
		})
	}
}

func TestEditRefuses(t *testing.T) {
	t.Parallel()
	o, err := Parse([]byte(`{"stream_options": [1]}`), 0)
	require.NoError(t, err)
	var e Edit
	e.SetIn("stream_options", "include_usage", []byte("true"))
	_, err = e.Apply(o)
	var je *Error
	require.ErrorAs(t, err, &je)
	assert.Equal(t, Error{Offset: 19, Reason: reasonNotObject}, *je)
	for _, raw := range []string{"", "{", "1 2", "x"} {
		var bad Edit
		bad.Set("a", []byte(raw))
		_, err = bad.Apply(o)
		require.ErrorAs(t, err, &je)
	}
}

type pair struct{ key, raw string }

// pairs is the reference reading of an object's top level.
func pairs(t *testing.T, in []byte) []pair {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(in))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%v: %q", err, in)
	}
	var ps []pair
	for d.More() {
		k, err := d.Token()
		if err != nil {
			t.Fatalf("%v: %q", err, in)
		}
		var raw json.RawMessage
		if err = d.Decode(&raw); err != nil {
			t.Fatalf("%v: %q", err, in)
		}
		name, ok := k.(string)
		if !ok {
			t.Fatal("a key that is no string")
		}
		ps = append(ps, pair{name, string(raw)})
	}
	return ps
}

// FuzzRewrite compares edits with edits of a decoded model, and undoes a
// replacement to get the very bytes back.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(`{"model":"a","n":9007199254740993, "x":1.0,"model":"b","stream_options":null}`), "model", "new", "x", uint8(0))
	f.Add([]byte(` { } `), "a", "\"\\\x00\xff", "", uint8(1))
	f.Add([]byte(`{"a":1 ,"stream_options":{"include_usage":false , "b":[1]} }`), "b", "x", "a", uint8(2))
	f.Add([]byte(`{"\u0061":{"a":{}},"a":2}`), "a", "a", "a", uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, key, text, gone string, mode uint8) {
		o, err := Parse(in, 0)
		if err != nil {
			return
		}
		// Keys that are not UTF-8 can't be written; the model replaces like us.
		key, gone = string(bytes.ToValidUTF8([]byte(key), []byte("?"))), string(bytes.ToValidUTF8([]byte(gone), []byte("?")))
		before := pairs(t, in)
		var e Edit
		raw := string(AppendString(nil, text))
		var want []pair
		replaced := false
		for _, p := range before {
			switch {
			case p.key == key && mode%2 == 0:
				p.raw, replaced = raw, true
			case p.key == key:
				p.raw, replaced = `[1]`, true
			case p.key == gone && mode&2 != 0:
				continue
			}
			want = append(want, p)
		}
		if mode%2 == 0 {
			e.SetString(key, text)
		} else {
			raw = `[1]`
			e.Set(key, []byte(raw))
		}
		if mode&2 != 0 && gone != key {
			e.Delete(gone)
		}
		if !replaced {
			want = append(want, pair{key, raw})
		}
		out, err := e.Apply(o)
		if err != nil {
			t.Fatal(err)
		}
		got := pairs(t, out)
		if len(got) != len(want) {
			t.Fatalf("%d fields, want %d: %q", len(got), len(want), out)
		}
		for i := range got {
			if got[i].key != want[i].key || got[i].raw != want[i].raw && !sameString(got[i].raw, want[i].raw) {
				t.Fatalf("field %d: %q, want %q", i, got[i], want[i])
			}
		}
		again, err := Parse(out, 0)
		if err != nil {
			t.Fatalf("result does not parse: %v", err)
		}
		rewriteBack(t, in, o, key)
		rewriteInner(t, again, key, text)
	})
}

func sameString(a, b string) bool {
	var x, y string
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x == y
}

// rewriteBack replaces a field that occurs once and then restores it.
func rewriteBack(t *testing.T, in []byte, o Object, key string) {
	t.Helper()
	v, ok := o.Get(key)
	if !ok || o.Count(key) != 1 {
		return
	}
	var there, back Edit
	there.Set(key, []byte(`{"x":[1]}`))
	out, err := there.Apply(o)
	if err != nil {
		t.Fatal(err)
	}
	o2, err := Parse(out, 0)
	if err != nil {
		t.Fatal(err)
	}
	back.Set(key, v.Raw())
	if out, err = back.Apply(o2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out, in) {
		t.Fatalf("not restored: %q, want %q", out, in)
	}
}

// rewriteInner sets a member of the last field and compares with a map.
func rewriteInner(t *testing.T, o Object, outer, inner string) {
	t.Helper()
	inner = string(bytes.ToValidUTF8([]byte(inner), []byte("?")))
	var e Edit
	e.SetIn(outer, inner, []byte(`[2]`))
	out, err := e.Apply(o)
	for i := range o.Len() {
		if k, v := o.Field(i); string(k) == outer && v.Kind() != KindObject && v.Kind() != KindNull {
			if err == nil {
				t.Fatal("set a member of no object")
			}
			return
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]map[string]json.RawMessage
	if json.Unmarshal(o.Bytes(), &before) != nil {
		return // other fields are no objects; the model covers them above
	}
	if err = json.Unmarshal(out, &after); err != nil {
		t.Fatal(err)
	}
	if string(after[outer][inner]) != `[2]` {
		t.Fatalf("not set: %q", out)
	}
	for k, v := range before[outer] {
		if k != inner && string(after[outer][k]) != string(v) {
			t.Fatalf("another member changed: %q", out)
		}
	}
}
