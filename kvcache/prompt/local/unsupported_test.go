package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer"
)

// oneID is a tokenizer from elsewhere: every text is one token.
type oneID struct{}

func (oneID) Encode(dst []uint32, _ string, _ bool) ([]uint32, error) { return append(dst, 7), nil }
func (oneID) Token(uint32) (string, bool)                             { return "seven", true }

// unigram is a copy of a model's directory with a kind of tokenizer that package
// tokenizer refuses.
func unigram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/models/fast")))
	path := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := strings.Replace(string(text), `"BPE"`, `"Unigram"`, 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	return dir
}

// Whatever package tokenizer does not support is made by Options.Unsupported, and
// nothing else is.
func TestTokenizerFromElsewhere(t *testing.T) {
	t.Parallel()
	asked, failure := 0, error(nil)
	options := func(dir string) local.Options {
		return local.Options{
			Models: map[string]local.Model{"m": {Dir: dir}}, Reload: -1,
			Unsupported: func(text []byte) (local.Tokenizer, error) {
				asked++
				assert.Contains(t, string(text), `"Unigram"`)
				return oneID{}, failure
			},
		}
	}
	dir := unigram(t)
	_, err := local.New(local.Options{Models: map[string]local.Model{"m": {Dir: dir}}})
	require.ErrorIs(t, err, tokenizer.ErrUnsupported)

	s, err := local.New(options(dir))
	require.NoError(t, err)
	enc, err := s.Encode(t.Context(), &prompt.Request{API: prompt.Completions, Model: "m", Body: []byte(`{"prompt":"a b c"}`)})
	require.NoError(t, err)
	assert.Equal(t, []uint32{7}, enc.Tokens)
	assert.Equal(t, 1, asked)
	require.NoError(t, s.Close())

	s, err = local.New(options("testdata/models/fast"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.Equal(t, 1, asked, "asked for a file that is supported")

	failure = errors.New("no library")
	_, err = local.New(options(dir))
	require.ErrorIs(t, err, failure)
	require.ErrorIs(t, err, tokenizer.ErrUnsupported)
}

// What users get wrong is told as what it is.
func TestErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	load := func(m local.Model) error {
		_, err := local.New(local.Options{Models: map[string]local.Model{"m": m}, Reload: -1})
		return err
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/models/qwen")))
	require.ErrorContains(t, load(local.Model{Dir: dir, ChatTemplate: "/models/chat.jinja"}), "give what is in it")
	require.NoError(t, os.Remove(filepath.Join(dir, "config.json")))
	require.ErrorContains(t, load(local.Model{Dir: dir}), "no config.json")

	// A vocabulary as Unigram has it, in which an added token must be found.
	path := filepath.Join(dir, "tokenizer.json")
	listed := `{"added_tokens":[],"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["<|im_end|>",-1],["a",-2]]}}`
	require.NoError(t, os.WriteFile(path, []byte(listed), 0o600))
	require.ErrorIs(t, load(local.Model{Dir: dir, AnyType: true}), tokenizer.ErrUnsupported)
}
