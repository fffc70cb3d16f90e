package file_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
)

// follower runs a Discoverer as a Fleet does, with a pause of a second after an
// error, and records what it is told.
type follower struct {
	mu    sync.Mutex
	lists [][]string
	errs  []error
}

func startFollower(t *testing.T, d *file.Discoverer) *follower {
	t.Helper()
	f := &follower{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			err := d.Discover(ctx, func(ws []fleet.Worker) error {
				if err := fleet.Validate(ws); err != nil {
					return err
				}
				names := []string{}
				for i := range ws {
					names = append(names, ws[i].Name)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				f.lists = append(f.lists, names)
				return nil
			})
			if err != nil {
				f.mu.Lock()
				f.errs = append(f.errs, err)
				f.mu.Unlock()
				time.Sleep(time.Second)
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	synctest.Wait()
	return f
}

func (f *follower) last() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lists) == 0 {
		return nil
	}
	return f.lists[len(f.lists)-1]
}

func (f *follower) count() (lists, errs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lists), len(f.errs)
}

func list(names ...string) string {
	out := "workers: ["
	for _, n := range names {
		out += "{name: " + n + ", url: 'http://h:1'},"
	}
	return out + "]\n"
}

func put(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, put(path, text))
}

// tick lets the Discoverer look again.
func tick() {
	time.Sleep(2100 * time.Millisecond)
	synctest.Wait()
}

func TestReload(t *testing.T) {
	replace := map[string]func(t *testing.T, path string, text string){
		"in place": write,
		"atomic rename": func(t *testing.T, path, text string) {
			t.Helper()
			write(t, path+".new", text)
			require.NoError(t, os.Rename(path+".new", path))
		},
		"atomic rename, same size, same old time stamp": func(t *testing.T, path, text string) {
			t.Helper()
			old := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
			require.NoError(t, os.Chtimes(path, old, old))
			tick() // from here on the file counts as settled
			write(t, path+".new", text)
			require.NoError(t, os.Chtimes(path+".new", old, old))
			require.NoError(t, os.Rename(path+".new", path))
		},
		"with an old time stamp": func(t *testing.T, path, text string) {
			t.Helper()
			write(t, path, text)
			past := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
			require.NoError(t, os.Chtimes(path, past, past))
		},
		"same size, same time stamp, within its coarseness": func(t *testing.T, path, text string) {
			t.Helper()
			info, err := os.Stat(path)
			require.NoError(t, err)
			write(t, path, text)
			require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
	}
	for name, change := range replace {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "workers.yaml")
			synctest.Test(t, func(t *testing.T) {
				write(t, path, list("a"))
				f := startFollower(t, &file.Discoverer{Path: path})
				require.Equal(t, []string{"a"}, f.last(), "at once")
				tick()
				lists, _ := f.count()
				assert.Equal(t, 1, lists, "unchanged is not set again")
				change(t, path, list("b"))
				tick()
				assert.Equal(t, []string{"b"}, f.last())
				_, errs := f.count()
				assert.Zero(t, errs)
			})
		})
	}
}

// TestConfigMap replaces the file as Kubernetes does: the path is a link into a
// directory that is itself a link, and only that one changes.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "workers.yaml"), text)
		tmp := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(name, tmp); err != nil {
			t.Skip("no symbolic links here:", err)
		}
		require.NoError(t, os.Rename(tmp, filepath.Join(dir, "..data")))
	}
	path := filepath.Join(dir, "workers.yaml")
	version("..1", list("a"))
	require.NoError(t, os.Symlink(filepath.Join("..data", "workers.yaml"), path))
	synctest.Test(t, func(t *testing.T) {
		f := startFollower(t, &file.Discoverer{Path: path})
		require.Equal(t, []string{"a"}, f.last())
		version("..2", list("b"))
		tick()
		assert.Equal(t, []string{"b"}, f.last())
	})
}

func TestBadFileChangesNothing(t *testing.T) {
	cases := map[string]struct {
		spoil func(path string) error
		want  error
	}{
		"bad YAML":       {func(path string) error { return put(path, "workers: [") }, file.ErrSyntax},
		"invalid worker": {func(path string) error { return put(path, "- {name: a, url: x}") }, fleet.ErrInvalidWorker},
		"emptied":        {func(path string) error { return put(path, "") }, file.ErrSyntax},
		"removed":        {os.Remove, os.ErrNotExist},
		"a directory":    {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, file.ErrNotRegular},
		"too large":      {func(path string) error { return put(path, "#"+string(make([]byte, 2000))) }, file.ErrTooLarge},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "workers.yaml")
			synctest.Test(t, func(t *testing.T) {
				write(t, path, list("a"))
				f := startFollower(t, &file.Discoverer{Path: path, MaxBytes: 1000})
				require.NoError(t, c.spoil(path))
				tick()
				_, errs := f.count()
				assert.Zero(t, errs, "one look may have met a file being written")
				tick()
				_, errs = f.count()
				require.Positive(t, errs)
				require.ErrorIs(t, f.errs[0], c.want)
				assert.Equal(t, []string{"a"}, f.last(), "the last good list stays")

				require.NoError(t, os.RemoveAll(path))
				write(t, path, list("a", "b"))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				assert.Equal(t, []string{"a", "b"}, f.last(), "and the corrected one is taken")
			})
		})
	}
}

// TestFleetKeepsLastList is the same through a Fleet: the error is in Err until
// the file is right again.
func TestFleetKeepsLastList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	synctest.Test(t, func(t *testing.T) {
		write(t, path, list("a", "b"))
		var reported []error
		f, err := fleet.New(fleet.Options{
			Discoverer: &file.Discoverer{Path: path},
			HTTPClient: refusing(),
			OnError:    func(err error) { reported = append(reported, err) },
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		synctest.Wait()
		require.Len(t, f.Snapshot().Members(), 2)

		write(t, path, "workers:\n- {nam: a}\n")
		time.Sleep(20 * time.Second)
		require.ErrorContains(t, f.Err(), `2:4: a worker has no key "nam"; did you mean "name"?`)
		assert.Len(t, f.Snapshot().Members(), 2)
		assert.Len(t, reported, 1, "the same error is news once")

		write(t, path, list("b"))
		time.Sleep(10 * time.Second)
		require.NoError(t, f.Err())
		assert.Len(t, f.Snapshot().Members(), 1)
	})
}

// TestProblemsAreToldOnce: an invalid worker is one line in the log however often
// the file is read, and its repair another.
func TestProblemsAreToldOnce(t *testing.T) {
	cases := map[string]struct{ first, then, want string }{
		"invalid from the start": {"- {name: a, url: x}\n", "", "there is no list of workers yet"},
		"invalid later":          {list("a"), "- {name: a, url: x}\n", "the last list stays in force"},
		"missing":                {"", "", "there is no list of workers yet"},
		"too many":               {list("a", "b", "c"), "", "there is no list of workers yet"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "workers.yaml")
			synctest.Test(t, func(t *testing.T) {
				if c.first != "" {
					write(t, path, c.first)
				}
				var log bytes.Buffer
				var reported []error
				f, err := fleet.New(fleet.Options{
					Discoverer: &file.Discoverer{Path: path}, HTTPClient: refusing(), MaxWorkers: 2,
					OnError: func(err error) { reported = append(reported, err) },
					Logger:  slog.New(slog.NewTextHandler(&log, nil)),
				})
				require.NoError(t, err)
				synctest.Wait()
				if c.then != "" {
					write(t, path, c.then)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, reported, 1)
				require.ErrorContains(t, reported[0], c.want)
				require.ErrorContains(t, f.Err(), c.want)
				write(t, path, list("b"))
				time.Sleep(10 * time.Second)
				require.NoError(t, f.Close())
				assert.Equal(t, 1, strings.Count(log.String(), "discovery failed\""), log.String())
				assert.Equal(t, 1, strings.Count(log.String(), "discovery works again"), log.String())
			})
		})
	}
}

func TestUnchangedFileIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	synctest.Test(t, func(t *testing.T) {
		write(t, path, list("a"))
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(path, old, old))
		f := startFollower(t, &file.Discoverer{Path: path})
		// Were it read, this would be noticed: it hides from identity, size and time.
		write(t, path, list("b"))
		require.NoError(t, os.Chtimes(path, old, old))
		tick()
		assert.Equal(t, []string{"a"}, f.last())
	})
}

func TestNewRefusesMisuse(t *testing.T) {
	for _, d := range []*file.Discoverer{{}, {Path: "x", Interval: -1}, {Path: "x", MaxBytes: -1}} {
		_, err := fleet.New(fleet.Options{Discoverer: d})
		assert.ErrorContains(t, err, "file: Discoverer.")
	}
}
