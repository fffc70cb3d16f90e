package file_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy/file"
)

// What changed is taken however old its time stamps are: a file of yesterday moved
// into place, a file or all of them deleted.
func TestOldStampsHideNothing(t *testing.T) {
	t.Parallel()
	old := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		loads  uint64
		err    error
	}{
		"an old file moved into place": {func(t *testing.T, dir string) {
			t.Helper()
			other := filepath.Join(t.TempDir(), "other.yaml")
			write(t, other, document("b", "third"))
			require.NoError(t, os.Chtimes(other, old, old))
			require.NoError(t, os.Rename(other, filepath.Join(dir, "b.yaml")))
		}, 2, nil},
		"one of two deleted": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "b.yaml")))
		}, 2, nil},
		"all deleted": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "a.yaml")))
			require.NoError(t, os.Remove(filepath.Join(dir, "b.yaml")))
		}, 1, file.ErrNoPolicy},
		"nothing": {func(*testing.T, string) {}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, f := range []string{"a", "b"} {
				path := filepath.Join(dir, f+".yaml")
				write(t, path, document(f, "first"))
				require.NoError(t, os.Chtimes(path, old, old))
			}
			s, err := file.Open(dir, file.Options{Interval: time.Millisecond})
			require.NoError(t, err)
			defer s.Close()
			c.change(t, dir)
			require.Eventually(t, func() bool {
				st := s.Status()
				return st.Loads == c.loads && (st.Err != nil) == (c.err != nil)
			}, 30*time.Second, time.Millisecond)
			require.ErrorIs(t, s.Status().Err, c.err)
			write(t, filepath.Join(dir, "a.yaml"), document("a", "last"))
			require.Eventually(t, func() bool { return s.Status().Loads == c.loads+1 }, 30*time.Second, time.Millisecond)
			require.NoError(t, s.Status().Err)
		})
	}
}
