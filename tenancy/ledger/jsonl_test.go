package ledger_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

func jsonl(t *testing.T, path string, o ledger.JSONLOptions) *ledger.JSONL {
	t.Helper()
	j, err := ledger.OpenJSONL(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func put(t *testing.T, j *ledger.JSONL, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, j.Write(t.Context(), []ledger.Record{*record(i)}))
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "usage*.jsonl"))
	require.NoError(t, err)
	return paths
}

// What is written is read again, whatever is in the names.
func TestJSONLKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	j := jsonl(t, path, ledger.JSONLOptions{})
	want := []ledger.Record{*record(0), {
		ID: "1\n\u2028\"", Attempt: 3, State: ledger.Settled, At: noon, Org: "o", Team: "t<&>", Tenant: "\x1b[31m", Key: "k", Class: "c",
		Model: "m", Served: "s", Worker: "w", Provider: "p", Uncached: ledger.MaxAmount, Cached: 2, CachedKnown: true, CacheWrite: 3,
		Output: 4, Reasoning: 5, Cost: 6, Source: ledger.Stream,
	}}
	require.NoError(t, j.Write(t.Context(), want))
	require.NoError(t, j.Write(t.Context(), nil))
	got, twice := readAll(t, path)
	require.Equal(t, want, got)
	require.Zero(t, twice)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, j.Write(ended, want), context.Canceled)
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Write(t.Context(), want), ledger.ErrClosed)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

// Files that have grown or aged are set aside under names in their order, never deleted.
func TestJSONLRotates(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "usage.jsonl")
	now := noon
	o := ledger.JSONLOptions{MaxBytes: ledger.MaxLine, MaxAge: time.Hour, Now: func() time.Time { return now }}
	j := jsonl(t, path, o)
	put(t, j, 0, 1000) // of some 210 bytes, by a clock that stands
	require.Len(t, files(t, dir), 4)
	require.Equal(t, filepath.Join(dir, "usage-20261130T120000.000000Z.jsonl"), files(t, dir)[0])
	now = noon.Add(2 * time.Hour)
	put(t, j, 1000, 1001)
	require.Len(t, files(t, dir), 5)
	require.NoError(t, j.Close())

	now = noon.Add(4 * time.Hour) // the age is the first record's, not the process's
	j = jsonl(t, path, o)
	put(t, j, 1001, 1003)
	require.Len(t, files(t, dir), 6)
	got, twice := readAll(t, files(t, dir)...)
	require.Equal(t, wantIDs(0, 1003), idsOf(got))
	require.Zero(t, twice)
	for _, f := range files(t, dir) {
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(ledger.MaxLine))
	}
}

// A last line that was cut off is kept beside; one that lacks only its end gets that.
func TestJSONLMendsItsEnd(t *testing.T) {
	for name, of := range map[string]struct {
		cut  int // of the last line's bytes
		more string
		want int
		torn bool
	}{
		"half a line": {cut: 50, want: 2, torn: true},
		"no end":      {cut: 1, want: 3},
		"a byte":      {more: "{", want: 3, torn: true},
		"NULs":        {more: strings.Repeat("\x00", 100_000), want: 3, torn: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "usage.jsonl")
			j := jsonl(t, path, ledger.JSONLOptions{})
			put(t, j, 0, 3)
			require.NoError(t, j.Close())
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append(text[:len(text)-of.cut], of.more...), 0o600))

			j = jsonl(t, path, ledger.JSONLOptions{})
			put(t, j, 9, 10)
			got, _ := readAll(t, path)
			require.Equal(t, append(wantIDs(0, of.want), "r9"), idsOf(got))
			_, err = os.Stat(path + ".torn")
			require.Equal(t, of.torn, err == nil)
		})
	}
}

func TestJSONLBelongsToOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	j := jsonl(t, path, ledger.JSONLOptions{})
	_, err := ledger.OpenJSONL(path, ledger.JSONLOptions{})
	require.ErrorIs(t, err, ledger.ErrInUse)
	require.NoError(t, j.Close())
	jsonl(t, path, ledger.JSONLOptions{})
}

func TestJSONLIsChecked(t *testing.T) {
	dir := t.TempDir()
	_, err := ledger.OpenJSONL(filepath.Join(dir, "no", "usage.jsonl"), ledger.JSONLOptions{})
	require.Error(t, err)
	_, err = ledger.OpenJSONL(dir, ledger.JSONLOptions{})
	require.Error(t, err)
	_, err = ledger.OpenJSONL(filepath.Join(dir, "a"), ledger.JSONLOptions{MaxBytes: 10})
	require.ErrorContains(t, err, "65536")
	_, err = ledger.OpenJSONL(filepath.Join(dir, "a"), ledger.JSONLOptions{MaxAge: -1})
	require.ErrorContains(t, err, "MaxAge")
	newer := filepath.Join(dir, "newer.jsonl")
	require.NoError(t, os.WriteFile(newer, []byte(`{"kvsteer_usage":2}`+"\n"), 0o600))
	_, err = ledger.OpenJSONL(newer, ledger.JSONLOptions{})
	require.ErrorIs(t, err, ledger.ErrVersion)
}
