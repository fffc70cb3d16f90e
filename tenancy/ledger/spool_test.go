package ledger_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

func spoolPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "spool.jsonl")
}

func appendAll(t *testing.T, l *ledger.Ledger, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, l.Append(record(i)))
	}
}

func spooled(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Stats().Spooled >= n }, soon, time.Millisecond, "%+v", l.Stats())
}

// What is too much for the memory goes through the file, in order, and nothing is lost.
func TestTheSpoolTakesWhatTheSinkIsTooSlowFor(t *testing.T) {
	path := spoolPath(t)
	sink := &memory{gate: make(chan struct{})}
	l := open(t, ledger.Options{Sink: sink, Buffer: 64, Batch: 10, Spool: path, Patience: soon})
	appendAll(t, l, 0, 1000)
	spooled(t, l, 900)
	balanced(t, l, 0, 0)
	close(sink.gate)
	flush(t, l)
	require.Equal(t, wantIDs(0, 1000), sink.ids())
	appendAll(t, l, 1000, 1100)
	require.NoError(t, l.Close())
	require.Equal(t, wantIDs(0, 1100), sink.ids())
	require.Equal(t, ledger.Stats{Appended: 1100, Durable: 1100}, l.Stats())
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, left)
}

// What Close can't write the next Ledger does, before what is new.
func TestTheSpoolOutlastsTheLedger(t *testing.T) {
	path := spoolPath(t)
	sink := &memory{err: errDisk}
	lost := func(r *ledger.Record, err error) { t.Errorf("%s is lost: %v", r.ID, err) }
	l := open(t, ledger.Options{Sink: sink, Buffer: 64, Batch: 10, Spool: path, CloseTimeout: 50 * time.Millisecond, OnLost: lost, Patience: soon})
	appendAll(t, l, 0, 100)
	require.NoError(t, l.Close(), "nothing is lost")
	require.Equal(t, 100, l.Stats().Spooled)
	balanced(t, l, 0, 0)
	require.ErrorIs(t, l.Flush(t.Context()), ledger.ErrClosed, "they are not with the sink")
	require.Empty(t, sink.ids())

	sink.err = nil
	l = open(t, ledger.Options{Sink: sink, Batch: 7, Spool: path, OnLost: lost})
	appendAll(t, l, 100, 110)
	flush(t, l)
	require.Equal(t, uint64(100), l.Stats().Replayed)
	require.Equal(t, uint64(10), l.Stats().Durable)
	require.NoError(t, l.Close())
	// The first batch was with the sink when the spool began, so it went there last.
	require.ElementsMatch(t, wantIDs(0, 110), sink.ids())
	require.Equal(t, wantIDs(100, 110), sink.ids()[100:])
}

// A file that crashes and bad disks have been at: what can be read is written, the rest
// is kept beside and counted.
func TestADamagedSpool(t *testing.T) {
	path := spoolPath(t)
	var good bytes.Buffer
	sink, err := ledger.OpenJSONL(path, ledger.JSONLOptions{})
	require.NoError(t, err)
	require.NoError(t, sink.Write(t.Context(), []ledger.Record{*record(0), *record(1), *record(2)}))
	require.NoError(t, sink.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rows := bytes.SplitAfter(text, []byte("\n"))
	good.Write(rows[0])
	good.WriteString("rubbish\n\n")
	good.Write(bytes.Repeat([]byte("x"), 3*ledger.MaxLine))
	good.WriteString("\n")
	good.Write(rows[1])
	good.Write(rows[2][:20])
	require.NoError(t, os.WriteFile(path, good.Bytes(), 0o600))

	to := &memory{}
	l := open(t, ledger.Options{Sink: to, Spool: path, Batch: 2})
	appendAll(t, l, 10, 11)
	flush(t, l)
	require.Equal(t, []string{"r0", "r1", "r10"}, to.ids())
	require.NoError(t, l.Close())
	s := l.Stats()
	require.Equal(t, [4]uint64{1, 1, 2, 3}, [4]uint64{s.Appended, s.Durable, s.Replayed, s.Lost})
	torn, err := os.ReadFile(path + ".torn")
	require.NoError(t, err)
	require.Contains(t, string(torn), "rubbish\n")
	require.Contains(t, string(torn), string(rows[2][:20]))
}

// A spool that can't take more is no worse than none: Append says so, in time.
func TestAFullSpool(t *testing.T) {
	sink := &memory{gate: make(chan struct{})}
	var lost int
	l := open(t, ledger.Options{
		Sink: sink, Buffer: 64, Batch: 10, Spool: spoolPath(t), SpoolBytes: 20_000, Patience: time.Millisecond,
		OnLost: func(*ledger.Record, error) { lost++ },
	})
	taken := 0
	for i := range 1000 {
		if err := l.Append(record(i)); err == nil {
			taken++
		} else {
			require.ErrorIs(t, err, ledger.ErrFull)
		}
	}
	require.Equal(t, 1000, taken+lost)
	require.Positive(t, lost)
	require.ErrorContains(t, l.Stats().LastError, "SpoolBytes")
	close(sink.gate)
	flush(t, l)
	require.NoError(t, l.Close())
	require.Len(t, sink.ids(), taken)
	balanced(t, l, 0, 0)
}

// SpoolBytes bounds what waits, not what has ever passed through: a sink that is fast
// enough, but never so fast that nothing waits, loses nothing.
func TestASpoolThatIsNeverEmpty(t *testing.T) {
	const most = 60_000 // more than twice what ever waits: what is appended is many times that
	path := spoolPath(t)
	sink := &memory{gate: make(chan struct{})}
	l := open(t, ledger.Options{Sink: sink, Buffer: 64, Batch: 10, Spool: path, SpoolBytes: most, Patience: 30 * time.Second})
	n := 0
	for ; l.Stats().Spooled < 40; n++ {
		require.NoError(t, l.Append(record(n)))
	}
	for range 200 {
		before := l.Stats().Durable
		sink.gate <- struct{}{}
		require.Eventually(t, func() bool { return l.Stats().Durable > before }, soon, 100*time.Microsecond)
		took := int(l.Stats().Durable - before) // a batch need not be full
		appendAll(t, l, n, n+took)
		n += took
		require.Positive(t, l.Stats().Spooled)
		var size int64
		for _, name := range []string{path, path + ".2"} {
			info, err := os.Stat(name)
			require.NoError(t, err)
			size += info.Size()
		}
		require.LessOrEqual(t, size, int64(2*most))
	}
	close(sink.gate)
	flush(t, l)
	require.NoError(t, l.Close())
	require.Equal(t, wantIDs(0, n), sink.ids())
	require.Zero(t, l.Stats().Lost)
}

// What two files hold is written after a crash, the older one's first.
func TestBothFilesOfASpoolAreWritten(t *testing.T) {
	for _, newer := range []int{0, 1} {
		path := spoolPath(t)
		for i, name := range []string{path, path + ".2"} {
			var text bytes.Buffer
			require.NoError(t, ledger.Encode(&text, []ledger.Record{*record(10 * i), *record(10*i + 1)}))
			require.NoError(t, os.WriteFile(name, append(text.Bytes(), `{"id":"half`...), 0o600))
			at := noon
			if i == newer {
				at = at.Add(time.Second)
			}
			require.NoError(t, os.Chtimes(name, at, at))
		}
		sink := &memory{}
		l := open(t, ledger.Options{Sink: sink, Spool: path})
		appendAll(t, l, 20, 21)
		flush(t, l)
		want := []string{"r0", "r1", "r10", "r11", "r20"}
		if newer == 0 {
			want = []string{"r10", "r11", "r0", "r1", "r20"}
		}
		require.Equal(t, want, sink.ids())
		require.NoError(t, l.Close())
		torn, err := os.ReadFile(path + ".torn")
		require.NoError(t, err)
		require.Equal(t, 2, bytes.Count(torn, []byte("half")))
		for _, name := range []string{path, path + ".2"} {
			left, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Empty(t, left)
		}
	}
}

func TestOneLedgerOneSpool(t *testing.T) {
	path := spoolPath(t)
	l := open(t, ledger.Options{Sink: &memory{}, Spool: path})
	_, err := ledger.New(ledger.Options{Sink: &memory{}, Spool: path})
	require.ErrorIs(t, err, ledger.ErrInUse)
	require.ErrorContains(t, err, "file of its own")
	require.NoError(t, l.Close())
	open(t, ledger.Options{Sink: &memory{}, Spool: path})
	_, err = ledger.New(ledger.Options{Sink: &memory{}, Spool: filepath.Join(path, "no", "folder")})
	require.Error(t, err)
}

// The spool and a sink that keeps failing in the middle: all is there in the end.
func TestTheSpoolWithASinkThatComesAndGoes(t *testing.T) {
	calls := 0
	sink := &memory{}
	l := open(t, ledger.Options{
		Sink: ledger.SinkFunc(func(ctx context.Context, r []ledger.Record) error {
			if calls++; calls%3 == 1 {
				return errDisk
			}
			return sink.Write(ctx, r)
		}),
		Buffer: 100, Batch: 50, Spool: spoolPath(t), Patience: soon,
	})
	appendAll(t, l, 0, 1500)
	flush(t, l)
	require.Equal(t, wantIDs(0, 1500), sink.ids())
	require.NoError(t, l.Close())
}

// However large batches are, what the sink holds leaves room for others.
func TestTheSpoolWithASmallBuffer(t *testing.T) {
	for _, buffer := range []int{16, 17, 100} {
		sink := &memory{gate: make(chan struct{})}
		l := open(t, ledger.Options{Sink: sink, Buffer: buffer, Batch: 1000, Spool: spoolPath(t), Patience: soon})
		appendAll(t, l, 0, 300)
		close(sink.gate)
		require.NoError(t, l.Close())
		require.Equal(t, wantIDs(0, 300), sink.ids())
	}
}
