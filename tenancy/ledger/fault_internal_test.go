package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func one(id string) []Record {
	return []Record{{ID: id, Attempt: 1, State: Reserved, At: time.Unix(1e9, 0).UTC(), Model: "m"}}
}

func idsIn(t *testing.T, paths ...string) (ids []string) {
	t.Helper()
	for _, path := range paths {
		f, err := os.Open(path)
		require.NoError(t, err)
		require.NoError(t, Read(f, func(e *Entry) error {
			require.Empty(t, e.Damage)
			ids = append(ids, e.Record.ID)
			return nil
		}))
		require.NoError(t, f.Close())
	}
	return ids
}

// After fsync has failed the system may hold for written what it has dropped: the file is
// set aside, and what was not acknowledged goes into a new one.
func TestAFileIsNotTrustedAfterFsyncFailed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "usage.jsonl")
	j, err := OpenJSONL(path, JSONLOptions{})
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, j.Write(t.Context(), one("a")))
	bad := errors.New("no disk")
	j.file.sync = func(*os.File) error { return bad }
	require.ErrorIs(t, j.Write(t.Context(), one("b")), bad)
	j.file.sync = (*os.File).Sync
	require.NoError(t, j.Write(t.Context(), one("b")))
	require.NoError(t, j.Write(t.Context(), one("c")))
	require.Equal(t, []string{"b", "c"}, idsIn(t, path))
	old, err := filepath.Glob(filepath.Join(dir, "usage-*.jsonl"))
	require.NoError(t, err)
	require.Len(t, old, 1)
	require.Equal(t, []string{"a", "b"}, idsIn(t, old...), "b twice: readers drop doubles")
}

// A write that stopped half way leaves no half line, though the file could not be cut at
// the time.
func TestHalfAWriteIsTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	l, err := openLines(path)
	require.NoError(t, err)
	require.NoError(t, l.add([]byte("one\n")))
	good := l.f
	l.f, err = os.Open(path) // writes and cuts fail
	require.NoError(t, err)
	require.Error(t, l.add([]byte("two\n")))
	require.NoError(t, l.f.Close())
	l.f = good
	_, err = good.WriteAt([]byte("tw and more than comes next"), l.size)
	require.NoError(t, err)
	require.NoError(t, l.add([]byte("three\n")))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\nthree\n", string(text))
	require.NoError(t, l.close())
	require.ErrorIs(t, l.add(nil), os.ErrClosed)
}

// If no other file can be begun the old one grows on; if the old one must not be written
// to, that is an error, until it works.
func TestRotationFails(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1e9, 0)
	path := filepath.Join(dir, "usage.jsonl")
	j, err := OpenJSONL(path, JSONLOptions{MaxAge: time.Hour, Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, j.Write(t.Context(), one("a")))
	now = now.Add(2 * time.Hour)
	// Every name that it could take is taken.
	for i := range 1000 {
		at := now.UTC().Add(time.Duration(i) * time.Microsecond).Format("20060102T150405.000000Z")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "usage-"+at+".jsonl"), nil, 0o600))
	}
	require.NoError(t, j.Write(t.Context(), one("b")))
	require.Equal(t, []string{"a", "b"}, idsIn(t, path))
	j.broken = true
	require.ErrorContains(t, j.Write(t.Context(), one("c")), "no free name")
	now = now.Add(time.Hour)
	require.NoError(t, j.Write(t.Context(), one("c")))
	require.Equal(t, []string{"c"}, idsIn(t, path))
}

// Whatever fails when a file of the spool is to be emptied: what is added goes on, all of
// it is read once, in order.
func TestASpoolThatCannotBeEmptied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.jsonl")
	s, err := openSpool(path, 4000)
	require.NoError(t, err)
	bad := errors.New("no disk")
	fail := false
	for i := range s.sides {
		s.sides[i].sync = func(f *os.File) error {
			if info, err := f.Stat(); err == nil && info.Size() == 0 && fail { // it was cut
				return bad
			}
			return f.Sync()
		}
	}
	var want, got []string
	failed := 0
	for i := range 600 {
		id := fmt.Sprintf("r%d", i)
		want = append(want, id)
		require.NoError(t, s.add(one(id)))
		if i < 9 {
			continue
		}
		part, err := s.next(1)
		require.NoError(t, err)
		got = append(got, part.records[0].ID)
		from := s.from
		uncut := from.f
		from.f, err = os.OpenFile(from.path, []int{os.O_RDWR, os.O_RDONLY}[i%2], 0)
		require.NoError(t, err)
		fail = i%3 == 0
		_, err = s.done(part)
		fail = false
		require.NoError(t, from.f.Close())
		from.f = uncut
		if err != nil {
			failed++
		}
		require.Equal(t, 9, s.count)
		require.Less(t, s.sides[0].left()+s.sides[1].left(), int64(4000))
	}
	require.GreaterOrEqual(t, failed, 3)
	for s.count > 0 {
		part, err := s.next(100)
		require.NoError(t, err)
		for i := range part.records {
			got = append(got, part.records[i].ID)
		}
		_, err = s.done(part)
		require.NoError(t, err)
	}
	require.Equal(t, want, got)
	require.Zero(t, s.from.size)
	require.NoError(t, s.close())
}
