package jsontree

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValue(t *testing.T) {
	d := NewDecoder([]byte(` {"b" : [1, -2.5e+3, true, null, "x\n\u00e9\ud83d\ude00"], "a": {}, "c": false } `))
	v, err := d.Value()
	require.NoError(t, err)
	require.NoError(t, d.End())
	require.Equal(t, []string{"b", "a", "c"}, []string{v.Members[0].Key, v.Members[1].Key, v.Members[2].Key})
	list := v.Get("b").Items
	require.Equal(t, "1", list[0].Text)
	require.Equal(t, "-2.5e+3", list[1].Text)
	require.True(t, list[2].Bool)
	require.Equal(t, Null, list[3].Kind)
	require.Equal(t, "x\né😀", list[4].Text)
	require.Equal(t, Object, v.Get("a").Kind)
	require.Nil(t, v.Get("d"))
}

func TestMalformed(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `"a`, `"\x"`, `"\u12"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`,
		"\"\x01\"", "\"\xff\"", "\"\\n\xff\"", `01`, `1.`, `1e`, `.5`, `-`, `+1`, `nul`, `tru`, `1 2`, `{"a":1 "b":2}`, `[1 2]`,
		`{"a":1,"a":2}`, strings.Repeat("[", 1000), strings.Repeat(`{"a":`, 1000), `"\`, `"\u`,
	} {
		for name, read := range map[string]func(d *Decoder) error{
			"value": func(d *Decoder) error { _, err := d.Value(); return err },
			"skip":  func(d *Decoder) error { return d.Skip() },
		} {
			d := NewDecoder([]byte(text))
			err := read(d)
			if err == nil {
				err = d.End()
			}
			if name == "skip" && text == `{"a":1,"a":2}` {
				continue // nobody reads it
			}
			require.ErrorIs(t, err, ErrSyntax, "%s of %.30q", name, text)
		}
	}
}

func TestUint32(t *testing.T) {
	for text, want := range map[string]uint32{"0": 0, "4294967295": 1<<32 - 1, "12": 12} {
		got, err := NewDecoder([]byte(text)).Uint32()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"4294967296", "-1", "1.0", "1e3", "x", ""} {
		_, err := NewDecoder([]byte(text)).Uint32()
		require.ErrorIs(t, err, ErrSyntax, text)
	}
}

// FuzzDecoder: what we accept, encoding/json accepts, with the same content.
func FuzzDecoder(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x\u00e9"],"b":null}`, `"\ud83d\ude00"`, `[[],{}]`, `-0.5E-2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := NewDecoder(data)
		v, err := d.Value()
		if err == nil {
			err = d.End()
		}
		s := NewDecoder(data)
		if skipped := s.Skip(); err == nil && skipped != nil {
			t.Fatalf("read but not skipped: %v", skipped)
		}
		if err != nil {
			return
		}
		var want any
		std := json.NewDecoder(bytes.NewReader(data))
		std.UseNumber() // numbers stay texts here, too, however large
		if err := std.Decode(&want); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		if s, ok := want.(string); ok && s != v.Text {
			t.Fatalf("%q, want %q", v.Text, s)
		}
	})
}
