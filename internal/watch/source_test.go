package watch_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/watch"
)

func source(path string, errs *[]error, loads *[]uint64, log *bytes.Buffer) watch.SourceOptions[string] {
	return watch.SourceOptions[string]{
		Package: "a/file", What: "a file with a", Paths: []string{path}, MaxFileBytes: 64,
		Errors: watch.Errors{TooLarge: errLarge, NotRegular: errRegular, Advice: "shorten it"},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		Load: func(files []watch.File) (string, error) {
			if text := string(files[0].Data); text != "wrong" {
				return text, nil
			}
			return "half of it", errWrong
		},
		Loaded:  func(s *watch.Status[string], _ *slog.Logger) { *loads = append(*loads, s.Loads) },
		OnError: func(err error) { *errs = append(*errs, err) },
		Stays:   "it stays", Again: "it is again",
		Attrs: func(now string) []any { return []any{"now", now} },
	}
}

func TestSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		var loads []uint64
		var log bytes.Buffer
		s, err := watch.OpenSource(source(path, &errs, &loads, &log))
		require.NoError(t, err)
		defer s.Close()
		step := func(text string) watch.Status[string] {
			write(t, path, text)
			time.Sleep(3*time.Second + time.Millisecond)
			synctest.Wait()
			return s.Status()
		}
		begin := time.Now()
		require.Equal(t, watch.Status[string]{Now: "one", Files: []string{path}, Loaded: begin, Loads: 1}, s.Status())
		two := step("two")
		require.Equal(t, []any{"two", uint64(2)}, []any{two.Now, two.Loads})
		require.True(t, two.Loaded.After(begin))
		bad := step("wrong")
		require.ErrorIs(t, bad.Err, errWrong)
		require.Equal(t, []any{"two", false}, []any{bad.Now, bad.Since.IsZero()}, "what is in force stays")
		step("wrong")
		require.Equal(t, two, step("two"), "as it was")
		require.NoError(t, os.Remove(path))
		require.ErrorIs(t, s.Reload(), os.ErrNotExist)
		require.Len(t, errs, 2)
		require.Equal(t, []uint64{1, 2}, loads)
		require.Equal(t, []int{2, 1}, []int{strings.Count(log.String(), "it stays"), strings.Count(log.String(), `msg="it is again" now=two`)})
	})
}

func TestSourceRefuses(t *testing.T) {
	var errs []error
	var loads []uint64
	o := source("", &errs, &loads, new(bytes.Buffer))
	_, err := watch.OpenSource(o)
	require.EqualError(t, err, "a/file: the path is empty; name a file with a")
	o.Paths, o.Interval = []string{"x"}, -1
	_, err = watch.OpenSource(o)
	require.EqualError(t, err, "a/file: Options.Interval is -1ns; give a positive duration, or 0 for 1s")
	o.Interval = 0
	_, err = watch.OpenSource(o)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Empty(t, errs, "it is returned")
}
