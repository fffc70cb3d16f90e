package tokenizer

import (
	"os"
	"path/filepath"
	"testing"
)

// families are the tokenizers that real files are expected of.
var families = []string{"qwen3", "llama3_1", "deepseek_v3", "gptoss", "gemma3", "llama2"}

// realFile returns the tokenizer.json of a family, or skips the test.
func realFile(tb testing.TB, name string) []byte {
	tb.Helper()
	if raceEnabled {
		tb.Skip("loading real files takes minutes under the race detector")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Skip(err)
	}
	data, err := os.ReadFile(filepath.Join(cache, "kvsteer", "tokenizers", name, "tokenizer.json"))
	if err != nil {
		tb.Skipf("no tokenizer file of %s: run scripts/tokenizer-files.sh", name)
	}
	return data
}

func realTokenizer(tb testing.TB, name string, o Options) *Tokenizer {
	tb.Helper()
	t, err := Load(realFile(tb, name), o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}
