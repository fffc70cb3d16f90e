package local_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// What a failed download leaves behind is named for what it is.
func TestStandIns(t *testing.T) {
	t.Parallel()
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 11422654\n"
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"a pointer":             {"tokenizer.json", pointer, "tokenizer.json is a pointer of Git LFS"},
		"a pointer to config":   {"config.json", pointer, "config.json is a pointer of Git LFS"},
		"a pointer to template": {"chat_template.jinja", pointer, "chat_template.jinja is a pointer of Git LFS"},
		"a page":                {"tokenizer_config.json", "\n<!DOCTYPE html><html><body>Sign in</body></html>", "tokenizer_config.json is a web page"},
		"a bare page":           {"tokenizer.json", "<HTML><head></head></HTML>", "tokenizer.json is a web page"},
		"a page for a template": {"chat_template.jinja", "<!doctype html>", "chat_template.jinja is a web page"},
	} {
		dir := copyModel(t, "qwen", t.TempDir())
		write(t, dir, c.file, c.text)
		_, err := load(dir)
		require.ErrorIs(t, err, local.ErrStandIn, name)
		var asset *local.AssetError
		require.ErrorAs(t, err, &asset, name)
		assert.Equal(t, dir, asset.Dir, name)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, strconv.Quote(dir), name)
	}
	// A template may begin with a tag, or say what a pointer says later on.
	dir := copyModel(t, "qwen", t.TempDir())
	write(t, dir, "chat_template.jinja", "<|html|>{{ messages }} "+pointer)
	s, err := load(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// Every error names the model and where its files should be.
func TestErrorsNameTheDirectory(t *testing.T) {
	t.Parallel()
	for _, without := range []string{"tokenizer.json", "tokenizer_config.json", "config.json"} {
		dir := copyModel(t, "qwen", t.TempDir())
		require.NoError(t, os.Remove(filepath.Join(dir, without)))
		_, err := load(dir)
		require.ErrorContains(t, err, `model "m" in `+strconv.Quote(dir)+": local: no ")
		require.ErrorContains(t, err, without)
	}
}

// A revision of what has none is a mistake, not something to pass over.
func TestRevisionOfAPlainDirectory(t *testing.T) {
	t.Parallel()
	_, err := local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/qwen", Revision: "main"}}})
	require.ErrorIs(t, err, local.ErrRevision)
	require.ErrorContains(t, err, "leave Revision empty")
	_, err = local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/nothing", Revision: "main"}}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, local.ErrRevision)
}
