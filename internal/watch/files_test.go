package watch_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/internal/watch"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	errWrong   = errors.New("wrong")
	errLarge   = errors.New("large")
	errRegular = errors.New("not regular")
)

// events records what Files call.
type events struct{ list []string }

func (e *events) options(path string) watch.Options {
	return watch.Options{
		Paths: []string{path}, Interval: time.Second, MaxFileBytes: 64, Now: time.Now,
		Errors: watch.Errors{TooLarge: errLarge, NotRegular: errRegular, Advice: "shorten it"},
		Load: func(files []watch.File) error {
			text := ""
			for _, f := range files {
				text += string(f.Data)
			}
			if text == "wrong" {
				return errWrong
			}
			e.list = append(e.list, "load "+text)
			return nil
		},
		Failed:   func(err error) { e.list = append(e.list, "failed "+err.Error()) },
		Restored: func() { e.list = append(e.list, "restored") },
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		var e events
		f, err := watch.Open(e.options(path))
		require.NoError(t, err)
		defer f.Close()
		step := func(text string) {
			write(t, path, text)
			time.Sleep(3*time.Second + time.Millisecond)
			synctest.Wait()
		}
		step("two")
		step("wrong")
		step("two")
		require.NoError(t, os.Remove(path))
		require.ErrorIs(t, f.Reload(), os.ErrNotExist)
		require.ErrorIs(t, f.Reload(), os.ErrNotExist, "as often as it is asked for")
		write(t, path, "three")
		require.NoError(t, f.Reload())
		require.Equal(t, []string{
			"load one", "load two", "failed wrong", "restored", "failed stat " + path + ": no such file or directory", "load three",
		}, e.list)
	})
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	var e events
	path := filepath.Join(dir, "a.yaml")
	_, err := watch.Open(e.options(path))
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, path, string(make([]byte, 65)))
	_, err = watch.Open(e.options(path))
	require.ErrorIs(t, err, errLarge)
	require.ErrorContains(t, err, "longer than 64 bytes; shorten it")
	write(t, path, "wrong")
	_, err = watch.Open(e.options(path))
	require.ErrorIs(t, err, errWrong)
	_, err = watch.Read(dir, 64, e.options(path).Errors)
	require.ErrorIs(t, err, errRegular)
	require.Empty(t, e.list)
}

func TestUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "one")
	now := time.Now()
	old := now.Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	f, err := watch.Read(path, 64, watch.Errors{})
	require.NoError(t, err)
	require.Equal(t, "one", string(f.Data))
	require.True(t, f.Unchanged(now, now))
	require.False(t, f.Unchanged(old, now), "it was young when it was read")
	require.False(t, f.Unchanged(now, now.Add(-time.Second)), "the clock was set back")
	write(t, path, "two")
	require.False(t, f.Unchanged(now, now))
	g, err := watch.Read(path, 64, watch.Errors{})
	require.NoError(t, err)
	require.False(t, f.Same(&g))
}

// What Load refuses for a reason outside of the files is taken when that is gone, and told once.
func TestRetries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		var e events
		o := e.options(path)
		load := o.Load
		o.Retry = true
		var reason atomic.Pointer[error] // why it is refused
		o.Load = func(files []watch.File) error {
			if err := reason.Load(); err != nil {
				return *err
			}
			return load(files)
		}
		f, err := watch.Open(o)
		require.NoError(t, err)
		defer f.Close()
		reason.Store(&errWrong)
		write(t, path, "two")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		reason.Store(&errLarge)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, f.Reload(), errLarge)
		reason.Store(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"load one", "failed wrong", "failed large", "load two"}, e.list)
	})
}
