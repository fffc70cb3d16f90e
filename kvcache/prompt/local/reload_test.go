package local_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// Files that change are taken up; files that can't be used leave the former ones
// in force, and that is reported once.
func TestReload(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir := copyModel(t, "qwen", root)
		template := filepath.Join(dir, "chat_template.jinja")
		times := 0
		// Modification times must differ even if the clock of the bubble stands still.
		set := func(path, text string) {
			times++
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			stamp := time.Unix(int64(1_000_000+times), 0)
			require.NoError(t, os.Chtimes(path, stamp, stamp))
		}
		set(template, "first")
		var log bytes.Buffer
		s, err := local.New(local.Options{
			Models: map[string]local.Model{"m": {Dir: dir}}, Aliases: map[string]string{"alias": "m"},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		ids := func(body string) []uint32 {
			enc, encErr := encode(t, s, prompt.Chat, body)
			require.NoError(t, encErr)
			return enc.Tokens
		}
		wait := func() { time.Sleep(local.DefaultReload + time.Second); synctest.Wait() }
		first, before := ids(hello), s.Status()[0]
		wait()
		assert.Equal(t, before, s.Status()[0], "nothing changed")

		set(template, "second, longer")
		assert.Equal(t, first, ids(hello), "not yet looked at")
		wait()
		second := ids(hello)
		assert.NotEqual(t, first, second)
		assert.NotEqual(t, before.Assets, s.Status()[0].Assets)
		assert.Contains(t, log.String(), "model files reloaded")

		log.Reset()
		set(template, "{% broken")
		wait()
		assert.Equal(t, second, ids(hello), "the former template stays in force")
		require.Error(t, s.Status()[0].Err)
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("level=WARN")))
		wait()
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("level=WARN")), "said once")
		require.Error(t, s.Status()[0].Err)

		set(template, "second, longer")
		wait()
		require.NoError(t, s.Status()[0].Err)
		assert.Equal(t, second, ids(hello))

		require.NoError(t, os.Rename(dir, dir+"-gone"))
		wait()
		require.Error(t, s.Status()[0].Err)
		assert.Equal(t, second, ids(hello))
		require.NoError(t, os.Rename(dir+"-gone", dir))
		wait()
		require.NoError(t, s.Status()[0].Err)

		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "a second time")
		assert.Equal(t, second, ids(hello), "serves on")
	})
}

// A revision that moves on in a Hugging Face cache is followed.
func TestReloadFollowsARevision(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir := local.HubDir(root, "org/name")
		copyModel(t, "qwen", filepath.Join(dir, "snapshots", "abc"))
		copyModel(t, "fast", filepath.Join(dir, "snapshots", "def"))
		write(t, dir, "refs/main", "abc")
		s, err := local.New(local.Options{Models: map[string]local.Model{"m": {Dir: dir}}, Reload: time.Minute})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		assert.Equal(t, "Qwen2Tokenizer", s.Status()[0].Class)
		wait := func() { time.Sleep(time.Minute + time.Second); synctest.Wait() }
		write(t, dir, "refs/main", "def")
		wait()
		assert.Equal(t, "TokenizersBackend", s.Status()[0].Class)
		write(t, dir, "refs/main", "gone")
		wait()
		require.ErrorContains(t, s.Status()[0].Err, "no snapshot")
		assert.Equal(t, "TokenizersBackend", s.Status()[0].Class)
	})
}
