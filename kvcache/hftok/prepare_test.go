package hftok

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrepare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, want  string
		unsupported bool
	}{
		"nothing to do":        {`{"model":{}}`, `{"model":{}}`, false},
		"nulls":                {`{"truncation":null, "padding":null}`, `{"truncation":null, "padding":null}`, false},
		"both":                 {`{"truncation":{"max_length":8},"model":{},"padding" : {"a":[1]}}`, `{"truncation":null,"model":{},"padding" : null}`, false},
		"spelled with escapes": {`{"\u0074runcation":{"max_length":8}}`, `{"\u0074runcation":null}`, false},
		"inside of something":  {`{"model":{"truncation":1}}`, `{"model":{"truncation":1}}`, false},
		"dropout of nothing":   {`{"model":{"dropout":0.0}}`, `{"model":{"dropout":0.0}}`, false},
		"dropout null":         {`{"model":{"dropout":null}}`, `{"model":{"dropout":null}}`, false},
		"dropout":              {`{"model":{"dropout":0.1}}`, "", true},
		"dropout of no kind":   {`{"model":{"dropout":"x"}}`, "", true},
		"twice":                {`{"model":{},"truncation":null,"m\u006fdel":{}}`, "", false},
		"NULs of tokens":       {`{"model":{"vocab":{"\u0000":0}},"added_tokens":["\u0000"]}`, `{"model":{"vocab":{"\u0000":0}},"added_tokens":["\u0000"]}`, false},
		"NUL in a version":     {`{"version":"\u0000"}`, "", true},
		"NUL in a merge":       {`{"model":{"vocab":{},"merges":[["a","\u0000"]]}}`, "", true},
		"empty":                {"", "", false},
		"cut short":            {`{"model":{}`, "", false},
		"a list":               {`[]`, "", false},
		"a byte order mark":    {"\ufeff{}", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := []byte(c.file)
			_, got, err := prepare(in)
			assert.Equal(t, c.file, string(in), "the caller's file is left alone")
			if c.want != "" {
				require.NoError(t, err)
				assert.Equal(t, c.want, string(got))
				return
			}
			var le *LoadError
			require.ErrorAs(t, err, &le)
			assert.Equal(t, c.unsupported, errors.Is(err, errors.ErrUnsupported))
			assert.Nil(t, got)
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*TextError{
		"":                        nil,
		"plain":                   nil,
		"\ufffd is a character":   nil,
		"中文 😀":                    nil,
		"a\x00b":                  {1, reasonNUL},
		"\x00":                    {0, reasonNUL},
		"é\xff":                   {2, reasonUTF8},
		"\ufffd\xed\xa0\x80":      {3, reasonUTF8}, // a surrogate
		"cut short \xe4\xb8":      {10, reasonUTF8},
		"too long \xc0\x80":       {9, reasonUTF8},
		"\xf4\x90\x80\x80 beyond": {0, reasonUTF8},
	} {
		err := check(text)
		if want == nil {
			require.NoError(t, err, "%q", text)
			continue
		}
		var te *TextError
		require.ErrorAs(t, err, &te, "%q", text)
		assert.Equal(t, want, te, "%q", text)
		assert.NotContains(t, err.Error(), "short", "no text in an error")
	}
}

func TestVocabulary(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]vocabulary{
		`{}`: {},
		`{"model":{"vocab":{"a":0,"\u0120b":7,"bad":-1,"worse":"x"}},"added_tokens":[{"id":7,"content":"<s>"},{"id":9},3]}`: {0: "a", 7: "<s>"},
		`{"model":{"vocab":[["a",-1.5],["b",0],7,["d",1]]}}`:                                                                {0: "a", 1: "b", 3: "d"},
		`{"model":{"vocab":7},"added_tokens":{}}`:                                                                           {},
	} {
		o, _, err := prepare([]byte(file))
		require.NoError(t, err)
		assert.Equal(t, want, readVocabulary(o), file)
	}
}
