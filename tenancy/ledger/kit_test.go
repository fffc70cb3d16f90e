package ledger_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		child(path)
	}
	leak.Main(m)
}

// soon is for what happens, however busy the machine is.
const soon = 2 * time.Minute

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func record(i int) *ledger.Record {
	return &ledger.Record{
		ID: "r" + strconv.Itoa(i), Attempt: 1, State: ledger.Reserved, At: noon.Add(time.Duration(i) * time.Millisecond),
		Tenant: "acme", Model: "m", Uncached: int64(i), Output: 7, Cost: 3,
	}
}

// memory is a sink that can be made slow, or to fail.
type memory struct {
	mu      sync.Mutex
	records []ledger.Record
	batches int
	err     error
	panics  bool
	// gate, if there is one, is waited for in each Write.
	gate chan struct{}
	deaf bool // to its context
}

var errDisk = errors.New("the disk is full")

func (m *memory) Write(ctx context.Context, records []ledger.Record) error {
	m.mu.Lock()
	gate, deaf := m.gate, m.deaf
	m.mu.Unlock()
	if gate != nil {
		done := ctx.Done()
		if deaf {
			done = nil
		}
		select {
		case <-gate:
		case <-done:
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches++
	if m.panics {
		panic("a bug")
	}
	if m.err != nil {
		return m.err
	}
	m.records = append(m.records, records...)
	return nil
}

func (m *memory) set(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

func (m *memory) ids() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return idsOf(m.records)
}

func idsOf(records []ledger.Record) []string {
	out := []string{}
	for i := range records {
		out = append(out, records[i].ID)
	}
	return out
}

func wantIDs(from, to int) []string {
	out := []string{}
	for i := from; i < to; i++ {
		out = append(out, "r"+strconv.Itoa(i))
	}
	return out
}

func open(t *testing.T, o ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func flush(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, l.Flush(ctx))
}

// balanced checks what Stats promises.
func balanced(t *testing.T, l *ledger.Ledger, old, gone int) {
	t.Helper()
	s := l.Stats()
	require.Equal(t, int64(s.Appended), int64(s.Durable)+int64(s.Waiting)+int64(s.Spooled-old)+int64(gone), "%+v", s)
}

// readAll reads files; twice says how many records are in them more than once.
func readAll(t *testing.T, paths ...string) (records []ledger.Record, twice int) {
	t.Helper()
	var seen ledger.Seen
	for _, path := range paths {
		f, err := os.Open(path)
		require.NoError(t, err)
		require.NoError(t, ledger.Read(f, func(e *ledger.Entry) error {
			require.Empty(t, e.Damage, "%s:%d", path, e.Line)
			if !seen.First(e.Record) {
				twice++
				return nil
			}
			records = append(records, *e.Record)
			return nil
		}))
		require.NoError(t, f.Close())
	}
	return records, twice
}
