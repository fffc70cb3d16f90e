//go:build cgo

package hftok_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/cputime"
	"github.com/kvsteer/kvsteer/kvcache/hftok"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer"
)

// families are the real tokenizers that the two are held against each other with.
var families = []string{"qwen3", "llama3_1", "deepseek_v3", "gptoss", "gemma3", "llama2"}

// pair is one file loaded by both.
type pair struct {
	rust *hftok.Tokenizer
	pure *tokenizer.Tokenizer
}

// loadFamily loads a family's file, or skips.
func loadFamily(t testing.TB, family string) pair {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	path := filepath.Join(cache, "kvsteer", "tokenizers", family, "tokenizer.json")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the tokenizer of %s is not here: scripts/tokenizer-files.sh fetches it", family)
	}
	return loadPair(t, path)
}

func loadPair(t testing.TB, path string) pair {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	rust, err := hftok.Load(data)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rust.Close()) })
	pure, err := tokenizer.Load(data, tokenizer.Options{})
	require.NoError(t, err)
	return pair{rust, pure}
}

// compare encodes a text by both.
func (p pair) compare(t testing.TB, text string, special bool) {
	t.Helper()
	want, err := p.rust.Encode(nil, text, special)
	require.NoError(t, err)
	got, err := p.pure.Encode(nil, text, special)
	require.NoError(t, err)
	if slices.Equal(want, got) {
		return
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	near := func(ids []uint32) string {
		s := ""
		for _, id := range ids[i:min(len(ids), i+4)] {
			token, _ := p.pure.Token(id)
			s += fmt.Sprintf(" %d %q", id, token)
		}
		return s
	}
	t.Errorf("special %v: %s\ndiffers at token %d:\nRust   %s\npure Go%s", special, strconv.QuoteToASCII(text), i, near(want), near(got))
}

// Both give the same ids for seeded texts and for long ones. SIDEBYSIDE is how
// many texts for each family; internal/e2e/tokenizer compares a million.
func TestSideBySide(t *testing.T) {
	texts := 300
	if s := os.Getenv("SIDEBYSIDE"); s != "" {
		var err error
		texts, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	run := func(name string, p pair, texts int) {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, p.pure.Size(), p.rust.Size())
			for id := range uint32(p.rust.Size()) {
				want, known := p.pure.Token(id)
				got, found := p.rust.Token(id)
				require.Equal(t, known, found, id)
				require.Equal(t, want, got, id)
			}
			g := newTexts(1)
			for i := range texts {
				p.compare(t, g.next(40), i%2 == 0)
				if t.Failed() {
					return
				}
			}
			for _, chinese := range []bool{false, true} {
				p.compare(t, g.prose(chinese, 100<<10), true)
			}
		})
	}
	run("testdata", loadPair(t, "testdata/bpe.json"), texts)
	for _, family := range families {
		t.Run(family, func(t *testing.T) { run(family, loadFamily(t, family), texts) })
	}
}

// BenchmarkSideBySide is both over the same texts, warm, in one run: what a
// tokenizer does with prompts whose words it knows. Each text is a new one, since
// package tokenizer remembers whole texts. cpu-MB/s is by the time that the thread
// computed, which other work on the machine does not change much.
func BenchmarkSideBySide(b *testing.B) {
	for _, family := range families {
		p := loadFamily(b, family)
		for _, language := range []string{"English", "Chinese"} {
			b.Run(family+"/"+language+"/rust", func(b *testing.B) { measure(b, p.rust.Encode, language == "Chinese", 7) })
			b.Run(family+"/"+language+"/pureGo", func(b *testing.B) { measure(b, p.pure.Encode, language == "Chinese", 7) })
		}
	}
}

// measure encodes new texts; those of a seed are the same each time.
func measure(b *testing.B, encode func([]uint32, string, bool) ([]uint32, error), chinese bool, seed uint64) {
	b.Helper()
	const (
		size = 256 << 10
		warm = 4
	)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := newTexts(seed)
	var ids []uint32
	for range warm {
		_, err := encode(nil, g.prose(chinese, size), false)
		require.NoError(b, err)
	}
	var spent time.Duration
	var read, tokens int
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		text := g.prose(chinese, size)
		b.StartTimer()
		before := cputime.Thread()
		var err error
		if ids, err = encode(ids[:0], text, false); err != nil {
			b.Fatal(err)
		}
		spent += cputime.Thread() - before
		read += len(text)
		tokens += len(ids)
	}
	if spent > 0 {
		b.ReportMetric(float64(read)/1e6/spent.Seconds(), "cpu-MB/s")
	}
	b.ReportMetric(float64(read)/float64(tokens), "bytes/token")
}
