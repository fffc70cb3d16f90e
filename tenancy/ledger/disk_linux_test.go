package ledger_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// small is a disk of so many bytes.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a full disk can't be tried: mounting one takes root: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// A disk that is full, until somebody makes room: no line is torn, none lost, none twice.
func TestAFullDisk(t *testing.T) {
	dir := small(t, "256k")
	filler := filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 100<<10), 0o600))
	path := filepath.Join(dir, "usage.jsonl")
	j := jsonl(t, path, ledger.JSONLOptions{})
	l := open(t, ledger.Options{Sink: j, Batch: 100})
	appendAll(t, l, 0, 1000) // 210 kB
	require.Eventually(t, func() bool { return l.Stats().Failing }, soon, time.Millisecond)
	require.ErrorIs(t, l.Stats().LastError, syscall.ENOSPC)
	balanced(t, l, 0, 0)
	got, twice := readAll(t, path)
	require.Len(t, got, int(l.Stats().Durable), "what is there is whole")
	require.Zero(t, twice)
	require.NoError(t, os.Remove(filler))
	flush(t, l)
	require.NoError(t, l.Close())
	require.NoError(t, j.Close())
	got, twice = readAll(t, path)
	require.Equal(t, wantIDs(0, 1000), idsOf(got))
	require.Zero(t, twice)
}

// The sink hangs and the spool's disk is full, too: what Append took is written, what it
// refused was told.
func TestTheSpoolOnAFullDisk(t *testing.T) {
	dir := small(t, "64k")
	sink := &memory{gate: make(chan struct{})}
	l := open(t, ledger.Options{Sink: sink, Buffer: 100, Batch: 10, Spool: filepath.Join(dir, "spool.jsonl"), Patience: time.Millisecond})
	var taken []string
	for i := range 2000 {
		err := l.Append(record(i))
		if err == nil {
			taken = append(taken, record(i).ID)
			continue
		}
		require.ErrorIs(t, err, ledger.ErrFull)
	}
	require.Less(t, len(taken), 2000)
	require.ErrorIs(t, l.Stats().LastError, syscall.ENOSPC)
	close(sink.gate)
	flush(t, l)
	require.NoError(t, l.Close())
	require.Equal(t, taken, sink.ids())
}
