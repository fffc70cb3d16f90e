package tokenizer

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tiny is a whole tokenizer of two letters, as a tree to be changed.
func tiny() map[string]any {
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "decoder": nil,
		"added_tokens":   []any{added("<s>", 3)},
		"normalizer":     nil,
		"pre_tokenizer":  nil,
		"post_processor": nil,
		"model": map[string]any{
			"type": "BPE", "vocab": map[string]any{"a": 0, "b": 1, "ab": 2}, "merges": []any{"a b"},
		},
	}
}

func added(content string, id int) map[string]any {
	return map[string]any{
		"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true,
	}
}

func file(t *testing.T, tree any) []byte {
	t.Helper()
	data, err := json.Marshal(tree)
	require.NoError(t, err)
	return data
}

func TestTiny(t *testing.T) {
	tok, err := Load(file(t, tiny()), Options{})
	require.NoError(t, err)
	ids, err := tok.Encode(nil, "abb<s>ba?", false)
	require.NoError(t, err)
	require.Equal(t, []uint32{2, 1, 3, 1, 0}, ids)
	require.Equal(t, 4, tok.Size())
	for token, id := range map[string]uint32{"ab": 2, "<s>": 3} {
		got, ok := tok.ID(token)
		require.True(t, ok)
		require.Equal(t, id, got)
		back, ok := tok.Token(id)
		require.True(t, ok)
		require.Equal(t, token, back)
	}
	_, ok := tok.ID("zz")
	require.False(t, ok)
	for _, id := range []uint32{4, 1 << 20, 1<<32 - 1} {
		_, ok = tok.Token(id)
		require.False(t, ok)
	}
}

// Each space is a token that takes the white space around it: what one has taken, the
// next can't.
func TestStrippedTokensDontOverlap(t *testing.T) {
	tree := tiny()
	space := added(" ", 3)
	space["lstrip"], space["rstrip"] = true, true
	eager := added("<s>", 4)
	eager["rstrip"] = true
	tree["added_tokens"] = []any{space, eager}
	tok, err := Load(file(t, tree), Options{})
	require.NoError(t, err)
	for text, want := range map[string][]uint32{
		"   ": {3}, "a  \n b": {0, 3, 1}, "<s>  a": {4, 0}, "  <s> <s>": {3, 4, 4}, "a\t b ": {0, 3, 1, 3},
	} {
		ids, err := tok.Encode(nil, text, false)
		require.NoError(t, err)
		require.Equal(t, want, ids, "%q", text)
	}
}

type change func(tree, model map[string]any)

func set(part string, value string) change {
	return func(tree, _ map[string]any) { tree[part] = json.RawMessage(value) }
}

func setModel(part string, value string) change {
	return func(_, model map[string]any) { model[part] = json.RawMessage(value) }
}

func TestRefusedOrMalformed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change change
		err    error
		path   string
		kind   string
	}{
		{"Unigram", setModel("type", `"Unigram"`), ErrUnsupported, "model", "Unigram"},
		{"WordPiece", setModel("type", `"WordPiece"`), ErrUnsupported, "model", "WordPiece"},
		{"vocabulary of a Unigram model", setModel("vocab", `[["a",0.5]]`), ErrUnsupported, "model", "BPE"},
		{"no merges", func(_, m map[string]any) { delete(m, "merges") }, ErrUnsupported, "model", "BPE"},
		{"no model", func(t, _ map[string]any) { delete(t, "model") }, ErrMalformed, "model", ""},
		{"model isn't an object", set("model", `[]`), ErrMalformed, "model", ""},
		{"dropout", setModel("dropout", `0.1`), ErrUnsupported, "model", "BPE"},
		{"unknown field of the model", setModel("shiny", `true`), ErrUnsupported, "model", "BPE"},
		{"unknown token out of vocabulary", setModel("unk_token", `"<unk>"`), ErrUnsupported, "model", ""},
		{"empty unknown token", setModel("unk_token", `""`), ErrUnsupported, "model", "BPE"},
		{"flag is no flag", setModel("fuse_unk", `1`), ErrMalformed, "model", "BPE"},
		{"two tokens with one id", setModel("vocab", `{"a":0,"b":0}`), ErrMalformed, "model.vocab", ""},
		{"one token twice", setModel("vocab", `{"a":0,"a":1,"b":2,"ab":3}`), ErrMalformed, "", ""},
		{"id too large", setModel("vocab", `{"a":0,"b":1,"ab":4294967295}`), ErrMalformed, "model.vocab", ""},
		{"id far too large", setModel("vocab", `{"a":1e99}`), ErrMalformed, "", ""},
		{"id negative", setModel("vocab", `{"a":-1}`), ErrMalformed, "", ""},
		{"merge out of vocabulary", setModel("merges", `["a c"]`), ErrMalformed, "model.merges", ""},
		{"merge that makes no token", setModel("merges", `["b a"]`), ErrMalformed, "model.merges", ""},
		{"merge of three", setModel("merges", `["a b a"]`), ErrMalformed, "model.merges", ""},
		{"merge of three in a list", setModel("merges", `[["a","b","a"]]`), ErrMalformed, "model.merges", ""},
		{"merge of one", setModel("merges", `["ab"]`), ErrMalformed, "model.merges", ""},
		{"merges of both kinds", setModel("merges", `["a b",["a","b"]]`), ErrMalformed, "model.merges", ""},
		{"merges aren't a list", setModel("merges", `{}`), ErrMalformed, "model.merges", ""},
		{"merge without the prefix", setModel("continuing_subword_prefix", `"##"`), ErrUnsupported, "model.merges", ""},
		{"version", set("version", `"2.0"`), ErrUnsupported, "version", ""},
		{"unknown part", set("shiny", `{}`), ErrUnsupported, "shiny", ""},
		{"Precompiled", set("normalizer", `{"type":"Precompiled","precompiled_charsmap":"AA=="}`), ErrUnsupported, "normalizer", "Precompiled"},
		{"nothing to prepend", set("normalizer", `{"type":"Prepend","prepend":""}`), ErrUnsupported, "normalizer", "Prepend"},
		{"BertNormalizer in a sequence", set("normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"BertNormalizer"}]}`), ErrUnsupported, "normalizer.normalizers[1]", "BertNormalizer"},
		{"normalizer without a type", set("normalizer", `{"prepend":"x"}`), ErrUnsupported, "normalizer", ""},
		{"normalizer with an unknown field", set("normalizer", `{"type":"NFC","x":1}`), ErrUnsupported, "normalizer", "NFC"},
		{"Replace of nothing", set("normalizer", `{"type":"Replace","pattern":{"Regex":"x*"},"content":"y"}`), ErrUnsupported, "normalizer", "Replace"},
		{"Replace of an empty string", set("normalizer", `{"type":"Replace","pattern":{"String":""},"content":"y"}`), ErrUnsupported, "normalizer", "Replace"},
		{"UnicodeScripts", set("pre_tokenizer", `{"type":"UnicodeScripts"}`), ErrUnsupported, "pre_tokenizer", "UnicodeScripts"},
		{"pattern with lookbehind", set("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(?<=ab)c"},"behavior":"Isolated","invert":false}`), ErrUnsupported, "pre_tokenizer", "Split"},
		{"unknown behavior", set("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"a"},"behavior":"Shuffled","invert":false}`), ErrUnsupported, "pre_tokenizer", "Split"},
		{"pattern is neither", set("pre_tokenizer", `{"type":"Split","pattern":{"Glob":"a"},"behavior":"Isolated","invert":false}`), ErrUnsupported, "pre_tokenizer", "Split"},
		{"Split without behavior", set("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"a"},"invert":false}`), ErrMalformed, "pre_tokenizer", "Split"},
		{"FixedLength of 0", set("pre_tokenizer", `{"type":"FixedLength","length":0}`), ErrUnsupported, "pre_tokenizer", "FixedLength"},
		{"two ByteLevels", set("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true}]}`), ErrUnsupported, "pre_tokenizer.pretokenizers[1]", "ByteLevel"},
		{"Metaspace of no byte, after ByteLevel", set("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false}]}`), ErrUnsupported, "pre_tokenizer.pretokenizers[1]", "Metaspace"},
		{"Metaspace that depends on where, after a rewrite", func(t, _ map[string]any) {
			t["normalizer"] = json.RawMessage(`{"type":"NFD"}`)
			t["pre_tokenizer"] = json.RawMessage(`{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true}`)
		}, ErrUnsupported, "pre_tokenizer", "Metaspace"},
		{"Metaspace that contradicts itself", set("pre_tokenizer", `{"type":"Metaspace","replacement":"_","add_prefix_space":false}`), ErrUnsupported, "pre_tokenizer", "Metaspace"},
		{"too many components", set("normalizer", `{"type":"Sequence","normalizers":[`+strings.Repeat(`{"type":"Nmt"},`, maxComponents)+`{"type":"Nmt"}]}`), ErrUnsupported, "normalizer.normalizers[199]", ""},
		{"unknown post-processor", set("post_processor", `{"type":"Fancy"}`), ErrUnsupported, "post_processor", "Fancy"},
		{"template without the text", set("post_processor", `{"type":"TemplateProcessing","single":[],"pair":[],"special_tokens":{}}`), ErrUnsupported, "post_processor", "TemplateProcessing"},
		{"template with an unknown token", set("post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],"pair":[],"special_tokens":{}}`), ErrMalformed, "post_processor", "TemplateProcessing"},
		{"template of the second text", set("post_processor", `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B","type_id":0}}],"pair":[],"special_tokens":{}}`), ErrUnsupported, "post_processor", "TemplateProcessing"},
		{"two templates", set("post_processor", `{"type":"Sequence","processors":[{"type":"BertProcessing","sep":["a",0],"cls":["b",1]},{"type":"BertProcessing","sep":["a",0],"cls":["b",1]}]}`), ErrUnsupported, "post_processor.processors[1]", "BertProcessing"},
		{"added token without a flag", set("added_tokens", `[{"id":3,"content":"<s>"}]`), ErrMalformed, "added_tokens", ""},
		{"added tokens aren't a list", set("added_tokens", `{}`), ErrMalformed, "added_tokens", ""},
		{"added token that gets a taken id", func(_, m map[string]any) {
			m["vocab"] = json.RawMessage(`{"a":0,"b":1,"ab":3}`)
		}, ErrUnsupported, "added_tokens", ""},
		{"added token that is too long", func(t, _ map[string]any) {
			t["added_tokens"] = []any{added(strings.Repeat("x", maxAdded+1), 3)}
		}, ErrUnsupported, "added_tokens", ""},
		{"added tokens that are one once normalized", func(t, _ map[string]any) {
			a, b := added("X", 3), added("x", 4)
			a["normalized"], b["normalized"] = true, true
			t["added_tokens"] = []any{a, b}
			t["normalizer"] = json.RawMessage(`{"type":"Lowercase"}`)
		}, ErrUnsupported, "added_tokens", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := tiny()
			c.change(tree, tree["model"].(map[string]any))
			tok, err := Load(file(t, tree), Options{})
			require.Nil(t, tok)
			require.ErrorIs(t, err, c.err)
			var e *LoadError
			require.ErrorAs(t, err, &e)
			if c.path != "" {
				require.Equal(t, c.path, e.Path)
			}
			require.Equal(t, c.kind, e.Type)
			require.NotEmpty(t, e.Error())
			require.Equal(t, errors.Is(c.err, ErrUnsupported), errors.Is(err, errors.ErrUnsupported))
		})
	}
}

func TestMalformedJSON(t *testing.T) {
	whole := file(t, tiny())
	_, err := Load(append(whole, whole...), Options{})
	require.ErrorIs(t, err, ErrMalformed)
	for i := range whole {
		_, err := Load(whole[:i], Options{})
		require.ErrorIs(t, err, ErrMalformed, "cut at %d", i)
	}
	for _, data := range []string{
		`null`, `[]`, `{"version":"1.0","version":"1.0"}`, strings.Repeat(`{"model":`, 10000), strings.Repeat("[", 1<<20),
		`{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 1000),
		`{"model":{"type":"BPE","vocab":{"a":0},"vocab":{"a":0},"merges":[]}}`,
	} {
		_, err := Load([]byte(data), Options{})
		require.ErrorIs(t, err, ErrMalformed, "%.60s", data)
	}
}

// Ids may be sparse without the memory that a list up to the highest would take.
func TestSparseIDs(t *testing.T) {
	tree := tiny()
	tree["added_tokens"] = nil
	tree["model"].(map[string]any)["vocab"] = map[string]uint32{"a": 0, "b": 1_000_000_000, "ab": 4_000_000_000}
	tok, err := Load(file(t, tree), Options{})
	require.NoError(t, err)
	ids, err := tok.Encode(nil, "abb", false)
	require.NoError(t, err)
	require.Equal(t, []uint32{4_000_000_000, 1_000_000_000}, ids)
	s, ok := tok.Token(4_000_000_000)
	require.True(t, ok)
	require.Equal(t, "ab", s)
	_, ok = tok.Token(5)
	require.False(t, ok)
}

func TestLegacyMerges(t *testing.T) {
	tree := tiny()
	model := tree["model"].(map[string]any)
	delete(model, "type")
	model["merges"] = []any{"#version: 0.2", "a b"}
	tok, err := Load(file(t, tree), Options{})
	require.NoError(t, err)
	ids, err := tok.Encode(nil, "ab", false)
	require.NoError(t, err)
	require.Equal(t, []uint32{2}, ids)
}

func TestRefusedTexts(t *testing.T) {
	tok := small(t, "re-cl100k", Options{})
	dst := []uint32{7}
	for _, text := range []string{"\xff", "some words\xc3", "a<|end|>\xed\xa0\x80", strings.Repeat("long enough to be cached ", 4) + "\xfe"} {
		ids, err := tok.Encode(dst, text, true)
		require.ErrorIs(t, err, ErrInvalidUTF8)
		require.Equal(t, dst, ids)
	}
	ids, err := tok.Encode(dst, "", true)
	require.NoError(t, err)
	require.Equal(t, dst, ids)
	ids, err = tok.Encode(nil, "\x00", false)
	require.NoError(t, err)
	require.NotEmpty(t, ids)
}

func TestTooComplexText(t *testing.T) {
	tree := tiny()
	tree["pre_tokenizer"] = json.RawMessage(`{"type":"Split","pattern":{"Regex":"(?:a+)+b"},"behavior":"Isolated","invert":false}`)
	tok, err := Load(file(t, tree), Options{})
	require.NoError(t, err)
	_, err = tok.Encode(nil, strings.Repeat("a", 5000), false)
	require.ErrorIs(t, err, ErrTooComplex)
	_, err = tok.Encode(nil, "aaab", false)
	require.NoError(t, err)
}

func TestEncodeAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, name := range []string{"gpt2", "re-o200k", "chars", "metaspace-first-True", "added-NFKC"} {
		for _, cache := range []int64{0, -1} {
			tok := small(t, name, Options{CacheBytes: cache})
			text := "It's the router's cache, 12345 tokens<|end|> of <|user|> prompts; nothing more than that, word for word."
			dst, err := tok.Encode(nil, text, true)
			require.NoError(t, err)
			for range 3 {
				dst, err = tok.Encode(dst[:0], text, true)
				require.NoError(t, err)
			}
			n := testing.AllocsPerRun(50, func() { dst, err = tok.Encode(dst[:0], text, true) })
			require.Zero(t, n, "%s, cache of %d", name, cache)
		}
	}
}
