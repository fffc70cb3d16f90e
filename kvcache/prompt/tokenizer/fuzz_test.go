package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/corpus"
)

// FuzzLoad checks that any file is loaded or refused with a *LoadError, and that what is
// loaded encodes the same with caches and without.
func FuzzLoad(f *testing.F) {
	variants, err := corpus.Variants("testdata")
	require.NoError(f, err)
	for _, v := range variants {
		f.Add(shrink(f, v.File), "the router's  cache\n<|end|>12345 é中")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Load(data, Options{CacheBytes: 1 << 16})
		if err != nil {
			var refused *LoadError
			if !errors.As(err, &refused) || !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrMalformed) || tok != nil {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		plain, err := Load(data, Options{CacheBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		text += text
		for range 3 {
			for _, special := range []bool{false, true} {
				got, err1 := tok.Encode(nil, text, special)
				want, err2 := plain.Encode(nil, text, special)
				if !errors.Is(err1, err2) || !slices.Equal(got, want) {
					t.Fatalf("with caches %v %v, without %v %v", got, err1, want, err2)
				}
			}
		}
	})
}

// shrink leaves some merges of a file, so that the fuzzer has small seeds.
func shrink(tb testing.TB, file []byte) []byte {
	tb.Helper()
	var t map[string]any
	require.NoError(tb, json.Unmarshal(file, &t))
	model := t["model"].(map[string]any)
	const n = 12
	merges := model["merges"].([]any)
	merges = merges[:min(n, len(merges))]
	vocab := model["vocab"].(map[string]any)
	keep := map[string]any{}
	for token, id := range vocab {
		if utf8.RuneCountInString(token) == 1 && id.(float64) < 100 {
			keep[token] = id
		}
	}
	for _, m := range merges {
		parts, ok := m.([]any)
		if !ok {
			a, b, _ := strings.Cut(m.(string), " ")
			parts = []any{a, b}
		}
		a, b := parts[0].(string), parts[1].(string)
		for _, token := range []string{a, b, a + strings.TrimPrefix(b, "##")} {
			keep[token] = vocab[token]
		}
	}
	if unk, ok := model["unk_token"].(string); ok {
		keep[unk] = vocab[unk]
	}
	model["merges"], model["vocab"] = merges, keep
	out, err := json.Marshal(t)
	require.NoError(tb, err)
	return out
}

// reference is a byte-level tokenizer with GPT-2's pattern, written as plainly as can be.
type reference struct {
	ranks   map[string]int // "left right"
	vocab   map[string]uint32
	special map[string]uint32
	letter  runes
	number  runes
	space   runes
	spell   map[byte]string
}

func newReference(tb testing.TB) *reference {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "bytes.json"))
	require.NoError(tb, err)
	var file struct {
		Added []struct {
			ID      uint32
			Content string
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]uint32
			Merges []string
		}
	}
	require.NoError(tb, json.Unmarshal(raw, &file))
	r := &reference{
		ranks: map[string]int{}, vocab: file.Model.Vocab, special: map[string]uint32{}, spell: map[byte]string{},
		letter: runeSet("L"), number: runeSet("N"), space: runeSet("White_Space"),
	}
	for i, m := range file.Model.Merges {
		r.ranks[m] = i
	}
	for _, a := range file.Added {
		r.special[a.Content] = a.ID
	}
	next := rune(256)
	for b := range 256 {
		c := rune(b)
		if b < '!' || b > '~' && b < 0xA1 || b == 0xAD {
			c = next
			next++
		}
		r.spell[byte(b)] = string(c)
	}
	return r
}

func (r *reference) encode(text string) (ids []uint32) {
	begin := 0
	for i := 0; i < len(text); {
		best := ""
		for s := range r.special {
			if strings.HasPrefix(text[i:], s) && len(s) > len(best) {
				best = s
			}
		}
		if best == "" {
			i++
			continue
		}
		ids = append(r.words(ids, text[begin:i]), r.special[best])
		i += len(best)
		begin = i
	}
	return r.words(ids, text[begin:])
}

func (r *reference) words(ids []uint32, text string) []uint32 {
	for text != "" {
		n := r.match(text)
		ids = r.word(ids, text[:n])
		text = text[n:]
	}
	return ids
}

// match returns the length of the first word.
func (r *reference) match(text string) int {
	for _, s := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(text, s) {
			return len(s)
		}
	}
	for _, class := range []func(rune) bool{
		r.letter.has, r.number.has,
		func(c rune) bool { return !r.letter.has(c) && !r.number.has(c) && !r.space.has(c) },
	} {
		body := strings.TrimPrefix(text, " ")
		if n := len(body) - len(strings.TrimLeftFunc(body, class)); n > 0 {
			return len(text) - len(body) + n
		}
	}
	rest := strings.TrimLeftFunc(text, r.space.has)
	n := len(text) - len(rest)
	if _, last := utf8.DecodeLastRuneInString(text[:n]); rest != "" && n > last {
		return n - last // the last one goes with the word after it
	}
	return n
}

func (r *reference) word(ids []uint32, word string) []uint32 {
	var parts []string
	for i := range len(word) {
		parts = append(parts, r.spell[word[i]])
	}
	for {
		best, at := len(r.ranks), -1
		for i := range len(parts) - 1 {
			if rank, ok := r.ranks[parts[i]+" "+parts[i+1]]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	for _, p := range parts {
		ids = append(ids, r.vocab[p])
	}
	return ids
}

// FuzzEncode compares with the reference.
func FuzzEncode(f *testing.F) {
	ref := newReference(f)
	tok := small(f, "gpt2", Options{CacheBytes: 1 << 16})
	src := corpus.New(99, []string{"<|end|>", "<|user|>"}, nil)
	for range 100 {
		f.Add(src.Text())
	}
	f.Add("")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for range 2 {
			ids, err := tok.Encode(nil, text, false)
			if !utf8.ValidString(text) {
				require.ErrorIs(t, err, ErrInvalidUTF8)
				return
			}
			require.NoError(t, err)
			if want := ref.encode(text); !slices.Equal(want, ids) {
				t.Fatalf("%+q\nwant %v\ngot  %v", text, want, ids)
			}
		}
	})
}
