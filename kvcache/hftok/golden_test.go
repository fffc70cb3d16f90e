//go:build cgo

package hftok_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/hftok"
)

// kinds are the tokenizers of testdata.
var kinds = []string{"bpe", "wordpiece", "unigram"}

// load loads a tokenizer of testdata and closes it with the test.
func load(t testing.TB, kind string) *hftok.Tokenizer {
	t.Helper()
	tok, err := hftok.LoadFile(filepath.Join("testdata", kind+".json"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tok.Close()) })
	return tok
}

type goldenCase struct {
	Tokenizer, Text string
	Special         bool
	IDs             []uint32
}

func goldens(t testing.TB) []goldenCase {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var all []goldenCase
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// The ids are those that the same code gives in an engine, which calls it from
// Python, without the truncation and padding that bpe.json asks for.
func TestGolden(t *testing.T) {
	toks := map[string]*hftok.Tokenizer{}
	seen := map[string]int{}
	for _, kind := range kinds {
		toks[kind] = load(t, kind)
	}
	for _, c := range goldens(t) {
		before := []uint32{7}
		got, err := toks[c.Tokenizer].Encode(before, c.Text, c.Special)
		require.NoError(t, err)
		assert.Equal(t, append([]uint32{7}, c.IDs...), got, "%s, special %v: %q", c.Tokenizer, c.Special, c.Text)
		seen[c.Tokenizer]++
	}
	for _, kind := range kinds {
		assert.GreaterOrEqual(t, seen[kind], 40, kind)
	}
}

func TestSize(t *testing.T) {
	for i, want := range []int{567, 300, 140} {
		assert.Equal(t, want, load(t, kinds[i]).Size(), kinds[i])
	}
}

// Tokens are spelled as the library itself would.
func TestToken(t *testing.T) {
	for kind, want := range map[string]string{"bpe": "\u0120router", "wordpiece": "[CLS]", "unigram": "</s>"} {
		tok := load(t, kind)
		spelled := map[string]bool{}
		for id := range tok.Size() {
			token, ok := tok.Token(uint32(id))
			assert.True(t, ok, "%s %d", kind, id)
			spelled[token] = true
		}
		assert.True(t, spelled[want], "%s %s", kind, want)
		_, ok := tok.Token(1 << 30)
		assert.False(t, ok)
	}
}

func TestRefusesText(t *testing.T) {
	tok := load(t, "bpe")
	for _, text := range []string{"secret\x00rest", "secret\xff"} {
		dst := []uint32{1, 2}
		got, err := tok.Encode(dst, text, true)
		var te *hftok.TextError
		require.ErrorAs(t, err, &te)
		assert.Equal(t, 6, te.Offset)
		assert.Equal(t, dst, got)
		assert.NotContains(t, err.Error(), "secret")
	}
	_, err := tok.Encode(nil, "the rest still works", true)
	require.NoError(t, err)
}

// A file that the library can't read is an error that says why, not a crash.
func TestLoadErrors(t *testing.T) {
	good, err := os.ReadFile("testdata/bpe.json")
	require.NoError(t, err)
	for name, file := range map[string]string{
		"no model":           `{"version":"1.0"}`,
		"unknown model":      `{"version":"1.0","model":{"type":"Telepathy"}}`,
		"not an object":      `7`,
		"merge of nothing":   strings.Replace(string(good), `"merges":[`, `"merges":[["zzzz","qqqq"],`, 1),
		"strange component":  strings.Replace(string(good), `"type":"NFC"`, `"type":"Telepathy"`, 1),
		"NUL in a complaint": strings.Replace(string(good), `"merges":[`, `"merges":[["zz\u0000","qqqq"],`, 1),
		"bad table":          strings.Replace(string(good), `{"type":"NFC"}`, `{"type":"Precompiled","precompiled_charsmap":"AAAA"}`, 1),
		"deep":               `{"model":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`,
		"lone surrogate":     strings.Replace(string(good), `"<s>"`, `"\ud800"`, 1),
	} {
		tok, err := hftok.Load([]byte(file))
		require.NotEqual(t, string(good), file, name)
		var le *hftok.LoadError
		require.ErrorAs(t, err, &le, name)
		assert.NotEmpty(t, le.Reason, name)
		assert.Nil(t, tok, name)
	}
	_, err = hftok.LoadFile("testdata/absent.json")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// sorted are the keys in an order that is the same each time.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
