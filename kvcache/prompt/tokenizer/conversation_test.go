package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/corpus"
)

// small returns one of the small tokenizers of testdata.
func small(tb testing.TB, name string, o Options) *Tokenizer {
	tb.Helper()
	variants, err := corpus.Variants("testdata")
	require.NoError(tb, err)
	for _, v := range variants {
		if v.Name == name {
			t, err := Load(v.File, o)
			require.NoError(tb, err)
			return t
		}
	}
	tb.Fatalf("no small tokenizer %q", name)
	return nil
}

// Conversations grow, are edited and forked; whatever the caches hold by then, the ids are
// those that a tokenizer without caches computes.
func TestCachesChangeNothing(t *testing.T) {
	for _, name := range []string{"gpt2", "re-cl100k", "added-NFKC", "chars", "metaspace-first-False", "affix", "shuffled"} {
		t.Run(name, func(t *testing.T) {
			plain := small(t, name, Options{CacheBytes: -1})
			require.Nil(t, plain.segments)
			for _, size := range []int64{0, 1 << 15} {
				cached := small(t, name, Options{CacheBytes: size})
				r := rand.New(rand.NewPCG(1, uint64(size)))
				src := corpus.New(uint64(size)+3, separators(plain), nil)
				var turns []string
				for range 300 {
					turns = mutateTurns(r, src, turns)
					text := strings.Join(turns, "")
					special := r.IntN(2) == 0
					want, err := plain.Encode(nil, text, special)
					require.NoError(t, err)
					got, err := cached.Encode(nil, text, special)
					require.NoError(t, err)
					if !slices.Equal(want, got) {
						t.Fatalf("%+q\nwant %v\ngot  %v", text, want, got)
					}
				}
			}
		})
	}
}

// separators returns the added tokens of a tokenizer.
func separators(t *Tokenizer) []string {
	out := make([]string, 0, len(t.added))
	for token := range t.added {
		out = append(out, token)
	}
	slices.Sort(out)
	if len(out) == 0 {
		return []string{"\n\n"}
	}
	return out
}

func mutateTurns(r *rand.Rand, src *corpus.Source, turns []string) []string {
	turn := func() string { return src.Text() + src.Text() }
	switch n := r.IntN(10); {
	case len(turns) < 3 || n < 5:
		return append(slices.Clone(turns), turn())
	case n < 7: // somebody edits an earlier turn
		turns = slices.Clone(turns)
		turns[r.IntN(len(turns))] = turn()
		return turns
	case n < 9: // or drops one
		i := r.IntN(len(turns))
		return slices.Delete(slices.Clone(turns), i, i+1)
	default: // or begins anew with the same system prompt
		return slices.Clone(turns[:1])
	}
}

func TestSegmentsAreBoundedAndShared(t *testing.T) {
	const limit = 1 << 20
	tok := small(t, "gpt2", Options{CacheBytes: limit})
	system := strings.Repeat("You are a careful assistant. ", 40)
	var ids []uint32
	var err error
	for i := range 2000 {
		text := "<|user|>" + system + "<|end|>" + fmt.Sprint(i) + strings.Repeat(fmt.Sprintf(" question %d", i), 30)
		ids, err = tok.Encode(ids[:0], text, false)
		require.NoError(t, err)
	}
	used, holdSystem := int64(0), 0
	for i := range tok.segments.shards {
		h := &tok.segments.shards[i]
		n := int64(0)
		for g := h.ring.next; g != &h.ring; g = g.next {
			n += g.size()
			if g.text == system {
				holdSystem++
			}
			require.Same(t, g, h.byKey[g.key])
		}
		require.Equal(t, n, h.used)
		require.LessOrEqual(t, h.used, h.limit)
		used += n
	}
	require.Greater(t, used, int64(limit)/2)
	require.LessOrEqual(t, used, int64(limit))
	require.Equal(t, 1, holdSystem, "the shared system prompt is stored once, and stays")
}

func TestSegmentNeedsTheSameContent(t *testing.T) {
	s := newSegments(1 << 20)
	_, key, hit := s.get(nil, "a", "one text", false)
	require.False(t, hit)
	s.put(key, "a", "one text", false, []uint32{1, 2})
	ids, _, hit := s.get([]uint32{9}, "a", "one text", false)
	require.True(t, hit)
	require.Equal(t, []uint32{9, 1, 2}, ids)
	_, _, hit = s.get(nil, "a", "one text", true)
	require.False(t, hit, "the beginning of a text is another matter")
	for _, scope := range []string{"", "b"} {
		_, other, hit := s.get(nil, scope, "one text", false)
		require.False(t, hit, "what others were sent is not found")
		require.NotEqual(t, key, other)
	}
	// Somebody finds a scope, or a text, with the same hash.
	s.shard(key).byKey[key].scope = "b"
	_, _, hit = s.get(nil, "a", "one text", false)
	require.False(t, hit)
	s.shard(key).byKey[key].scope = "a"
	s.shard(key).byKey[key].text = "another!"
	_, _, hit = s.get(nil, "a", "one text", false)
	require.False(t, hit)
}

func TestConcurrentUse(t *testing.T) {
	tok := small(t, "re-o200k", Options{CacheBytes: 1 << 16})
	plain := small(t, "re-o200k", Options{CacheBytes: -1})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			src := corpus.New(uint64(worker%2), nil, nil)
			for range 300 {
				text := src.Text()
				want, err1 := plain.Encode(nil, text, true)
				got, err2 := tok.Encode(nil, text, true)
				if err1 != nil || err2 != nil || !slices.Equal(want, got) {
					t.Errorf("%+q: want %v, got %v", text, want, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// conversation is a chat of about n bytes in the given tokens.
func conversation(begin, end string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		role := []string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, "%s%s\n%d. %s%s\n", begin, role, i, englishText, end)
	}
	return b.String()
}

// BenchmarkNewTurn encodes a conversation of some 60,000 tokens that grew by one turn.
func BenchmarkNewTurn(b *testing.B) {
	for _, f := range []struct{ name, begin, end string }{
		{"qwen3", "<|im_start|>", "<|im_end|>"},
		{"llama3_1", "<|start_header_id|>", "<|eot_id|>"},
		{"deepseek_v3", "<｜User｜>", "<｜end▁of▁sentence｜>"},
		{"gptoss", "<|start|>", "<|end|>"},
		{"gemma3", "<start_of_turn>", "<end_of_turn>"},
		{"llama2", "<s>", "</s>"},
	} {
		b.Run(f.name, func(b *testing.B) {
			tok := realTokenizer(b, f.name, Options{})
			text := conversation(f.begin, f.end, 245_000)
			ids, err := tok.Encode(nil, text, false)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ReportMetric(float64(len(ids)), "tokens")
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				grown := text + fmt.Sprintf("%suser\nWhat about point %d? %.400s%s\n", f.begin, i, englishText, f.end)
				b.StartTimer()
				if ids, err = tok.Encode(ids[:0], grown, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOneLetter encodes a megabyte of one letter.
func BenchmarkOneLetter(b *testing.B) {
	text := strings.Repeat("a", 1<<20)
	for _, name := range families {
		b.Run(name, func(b *testing.B) {
			tok := realTokenizer(b, name, Options{CacheBytes: -1})
			b.SetBytes(int64(len(text)))
			var ids []uint32
			var err error
			for b.Loop() {
				if ids, err = tok.Encode(ids[:0], text, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range families {
		b.Run(name, func(b *testing.B) {
			file := realFile(b, name)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(file, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
