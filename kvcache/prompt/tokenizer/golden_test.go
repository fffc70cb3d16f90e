package tokenizer

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/corpus"
)

// The goldens were made with
//
//	go run ./internal/e2e/tokenizer/compare -n 40 -long 0 -seed 11 \
//	    -variants kvcache/prompt/tokenizer/testdata -golden .../variants-golden.jsonl.gz
//	go run ./internal/e2e/tokenizer/compare -n 300 -long 0 -seed 12 -golden .../families-golden.jsonl.gz
//
// by the Rust tokenizers 0.23.2.

// checkGolden compares, cold and warm.
func checkGolden(t *testing.T, file []byte, goldens []corpus.Golden, options ...Options) {
	t.Helper()
	for _, o := range options {
		tok, err := Load(file, o)
		require.NoError(t, err)
		for range 2 {
			for _, g := range goldens {
				ids, err := tok.Encode([]uint32{7}, g.Text, g.Special)
				require.NoError(t, err)
				if !slices.Equal(ids[1:], g.IDs) || ids[0] != 7 {
					t.Fatalf("cache of %d: %+q, special %v\nwant %v\ngot  %v", o.CacheBytes, g.Text, g.Special, g.IDs, ids[1:])
				}
			}
		}
	}
}

func TestSmallTokenizersAgreeWithRust(t *testing.T) {
	variants, err := corpus.Variants("testdata")
	require.NoError(t, err)
	goldens := byTokenizer(t, "testdata/variants-golden.jsonl.gz")
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			require.NotEmpty(t, goldens[v.Name])
			checkGolden(t, v.File, goldens[v.Name], Options{}, Options{CacheBytes: -1}, Options{CacheBytes: 1 << 14})
		})
	}
}

func TestRealTokenizersAgreeWithRust(t *testing.T) {
	goldens := byTokenizer(t, "testdata/families-golden.jsonl.gz")
	for _, name := range families {
		t.Run(name, func(t *testing.T) {
			file := realFile(t, name)
			require.NotEmpty(t, goldens[name])
			checkGolden(t, file, goldens[name], Options{})
		})
	}
}

func byTokenizer(t *testing.T, path string) map[string][]corpus.Golden {
	t.Helper()
	all, err := corpus.ReadGoldens(path)
	require.NoError(t, err)
	out := map[string][]corpus.Golden{}
	for _, g := range all {
		out[g.Tokenizer] = append(out[g.Tokenizer], g)
	}
	return out
}
