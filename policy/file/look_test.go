package file_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy/file"
)

// A file whose size and stamp stay as they are, long after they were made, is not read
// again; one with a young stamp is.
func TestReadsWhatMayHaveChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	synctest.Test(t, func(t *testing.T) {
		stamp := func(at time.Time) { require.NoError(t, os.Chtimes(path, at, at)) }
		write(t, path, document("a", "one"))
		old := time.Now().Add(-time.Hour)
		stamp(old)
		s := open(t, path, file.Options{})
		write(t, path, document("a", "two"))
		stamp(old)
		looks(3)
		require.Equal(t, []string{"a:one"}, policies(s))

		stamp(time.Now())
		looks(2)
		require.Equal(t, []string{"a:two"}, policies(s))
		young := time.Now()
		write(t, path, document("a", "six"))
		stamp(young)
		looks(2)
		require.Equal(t, []string{"a:six"}, policies(s))
	})
}
