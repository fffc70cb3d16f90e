package ledger_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

func TestRecordsReachTheSinkInOrder(t *testing.T) {
	sink := &memory{}
	var durable []string
	l := open(t, ledger.Options{Sink: sink, Batch: 10, OnDurable: func(r []ledger.Record) { durable = append(durable, idsOf(r)...) }})
	for i := range 1000 {
		require.NoError(t, l.Append(record(i)))
	}
	flush(t, l)
	require.Equal(t, wantIDs(0, 1000), sink.ids())
	require.NoError(t, l.Close())
	require.Equal(t, wantIDs(0, 1000), durable)
	require.Equal(t, ledger.Stats{Appended: 1000, Durable: 1000}, l.Stats())
	require.ErrorIs(t, l.Append(record(1)), ledger.ErrClosed)
	require.NoError(t, l.Close(), "again")
	require.NoError(t, l.Flush(t.Context()))
}

// What comes while a batch is written makes the next: many share one write.
func TestGroupCommit(t *testing.T) {
	sink := &memory{gate: make(chan struct{})}
	l := open(t, ledger.Options{Sink: sink})
	var all sync.WaitGroup
	for i := range 100 {
		require.NoError(t, l.Append(record(i)))
		all.Go(func() { require.NoError(t, l.Flush(t.Context())) })
	}
	close(sink.gate)
	all.Wait()
	require.Len(t, sink.ids(), 100)
	require.LessOrEqual(t, sink.batches, 3)
}

// A sink that hangs holds a request for Patience and not longer; what does not fit is
// refused, counted and told.
func TestASlowSinkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{gate: make(chan struct{})}
		var lost []string
		var why error
		l, err := ledger.New(ledger.Options{
			Sink: sink, Buffer: 10, Batch: 4, WriteTimeout: time.Hour,
			OnLost: func(r *ledger.Record, err error) { lost, why = append(lost, r.ID), err },
		})
		require.NoError(t, err)
		begun := time.Now()
		for i := range 10 {
			require.NoError(t, l.Append(record(i)))
		}
		require.Zero(t, time.Since(begun))
		err = l.Append(record(10))
		require.ErrorIs(t, err, ledger.ErrFull)
		require.ErrorContains(t, err, "Options.Spool")
		require.Equal(t, 5*time.Millisecond, time.Since(begun))
		require.Equal(t, []string{"r10"}, lost)
		require.Equal(t, err, why)
		s := l.Stats()
		require.Equal(t, ledger.Stats{Appended: 10, Waiting: 10, Lost: 1}, s)

		// Room in time is taken.
		go func() {
			time.Sleep(3 * time.Millisecond)
			close(sink.gate)
		}()
		require.NoError(t, l.Append(record(11)))
		require.Equal(t, 8*time.Millisecond, time.Since(begun))
		require.NoError(t, l.Flush(t.Context()))
		require.NoError(t, l.Close())
		require.Equal(t, append(wantIDs(0, 10), "r11"), sink.ids())
	})
}

func TestNoPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{gate: make(chan struct{})}
		l, err := ledger.New(ledger.Options{Sink: sink, Buffer: 1, Patience: -1})
		require.NoError(t, err)
		begun := time.Now()
		require.NoError(t, l.Append(record(0)))
		require.ErrorIs(t, l.Append(record(1)), ledger.ErrFull)
		require.Zero(t, time.Since(begun))
		close(sink.gate)
		require.NoError(t, l.Close())
	})
}

// Errors and panics are tried again, at intervals that grow to 5 s, for as long as it
// takes; then everything is there, once and in order.
func TestTheSinkFailsAndRecovers(t *testing.T) {
	for name, fail := range map[string]func(*memory){
		"error": func(m *memory) { m.err = errDisk },
		"panic": func(m *memory) { m.panics = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				sink := &memory{}
				fail(sink)
				l, err := ledger.New(ledger.Options{Sink: sink, Batch: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				require.NoError(t, err)
				for i := range 20 {
					require.NoError(t, l.Append(record(i)))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				err = l.Flush(ctx)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				s := l.Stats()
				require.True(t, s.Failing)
				require.ErrorContains(t, err, s.LastError.Error())
				require.InDelta(t, 3600/5, float64(s.Errors), 10)
				require.Equal(t, 1, strings.Count(log.String(), "\n"), "once, not each time:\n%s", &log)

				sink.set(func() { sink.err, sink.panics = nil, false })
				require.NoError(t, l.Flush(t.Context()))
				require.Equal(t, wantIDs(0, 20), sink.ids())
				require.False(t, l.Stats().Failing)
				require.Contains(t, log.String(), "takes records again")
				require.NoError(t, l.Close())
			})
		})
	}
}

func TestAWriteHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{gate: make(chan struct{})}
		l, err := ledger.New(ledger.Options{Sink: sink, WriteTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, l.Append(record(0)))
		time.Sleep(1010 * time.Millisecond)
		require.ErrorIs(t, l.Stats().LastError, context.DeadlineExceeded)
		close(sink.gate)
		require.NoError(t, l.Close())
		require.Equal(t, wantIDs(0, 1), sink.ids())
	})
}

// Close tries until its time is over, then names each record that is lost.
func TestCloseGivesUp(t *testing.T) {
	for name, sink := range map[string]*memory{
		"failing": {err: errDisk},
		"hanging": {gate: make(chan struct{})},
		"deaf":    {gate: make(chan struct{}), deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if sink.gate != nil {
					sink.gate = make(chan struct{}) // of this bubble
				}
				var lost []string
				l, err := ledger.New(ledger.Options{
					Sink: sink, Batch: 2, CloseTimeout: 3 * time.Second, WriteTimeout: time.Hour,
					OnLost: func(r *ledger.Record, err error) {
						require.ErrorIs(t, err, ledger.ErrClosed)
						lost = append(lost, r.ID)
					},
				})
				require.NoError(t, err)
				for i := range 5 {
					require.NoError(t, l.Append(record(i)))
				}
				waiting := make(chan error, 1)
				go func() { waiting <- l.Flush(t.Context()) }()
				synctest.Wait()
				begun := time.Now()
				err = l.Close()
				require.ErrorContains(t, err, "5 records are lost")
				require.LessOrEqual(t, time.Since(begun), 4*time.Second)
				require.GreaterOrEqual(t, time.Since(begun), 3*time.Second)
				require.Equal(t, wantIDs(0, 5), lost)
				require.ErrorIs(t, <-waiting, ledger.ErrClosed)
				require.Equal(t, uint64(5), l.Stats().Lost)
				if sink.gate != nil {
					close(sink.gate)
				}
			})
		})
	}
}

// A sink that comes back while Close waits gets everything.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{err: errDisk}
		l, err := ledger.New(ledger.Options{Sink: sink})
		require.NoError(t, err)
		require.NoError(t, l.Append(record(0)))
		go func() {
			time.Sleep(2 * time.Second)
			sink.set(func() { sink.err = nil })
		}()
		require.NoError(t, l.Close())
		require.Equal(t, wantIDs(0, 1), sink.ids())
	})
}

func TestCallbacksMayPanic(t *testing.T) {
	sink := &memory{}
	l := open(t, ledger.Options{
		Sink: sink, OnDurable: func([]ledger.Record) { panic("mine") }, OnLost: func(*ledger.Record, error) { panic("mine, too") },
	})
	require.NoError(t, l.Append(record(0)))
	flush(t, l)
	require.ErrorContains(t, l.Stats().LastError, "OnDurable panicked: mine")
	require.ErrorIs(t, l.Append(&ledger.Record{}), ledger.ErrInvalid)
	require.ErrorContains(t, l.Stats().LastError, "OnLost panicked: mine, too")
	require.ErrorIs(t, l.Append(nil), ledger.ErrInvalid)
	require.False(t, l.Stats().Failing)
}

func TestManyAppendAtOnce(t *testing.T) {
	sink := &memory{}
	l := open(t, ledger.Options{Sink: sink, Buffer: 64, Batch: 7, Patience: soon})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				require.NoError(t, l.Append(record(g*500+i)))
			}
			require.NoError(t, l.Flush(t.Context()))
		})
	}
	all.Wait()
	require.ElementsMatch(t, wantIDs(0, 4000), sink.ids())
	require.NoError(t, l.Close())
	balanced(t, l, 0, 0)
}

func TestRecordsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*ledger.Record){
		"no ID":              func(r *ledger.Record) { r.ID = "" },
		"257 bytes":          func(r *ledger.Record) { r.ID = strings.Repeat("x", 257) },
		"NUL":                func(r *ledger.Record) { r.ID = "a\x00b" },
		"valid UTF-8":        func(r *ledger.Record) { r.ID = "a\xff" },
		"Attempt is 0":       func(r *ledger.Record) { r.Attempt = 0 },
		"State \"paid\"":     func(r *ledger.Record) { r.State = "paid" },
		"Source \"rumour\"":  func(r *ledger.Record) { r.Source = "rumour" },
		"in the year 1":      func(r *ledger.Record) { r.At = time.Time{} },
		"Output is -1":       func(r *ledger.Record) { r.Output = -1 },
		"not from 0 to 2^53": func(r *ledger.Record) { r.Cost = ledger.MaxAmount + 1 },
	} {
		r := record(1)
		change(r)
		err := r.Check()
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

// Names come from clients: whatever they are, the record is kept.
func TestNamesAreMadeStorable(t *testing.T) {
	sink := &memory{}
	l := open(t, ledger.Options{Sink: sink})
	r := record(1)
	r.Model = strings.Repeat("é", 1<<20)
	r.Tenant = "a\x00b\xffc"
	r.Key = strings.Repeat("\xff", 1<<20)
	r.At = time.Date(2026, 1, 2, 3, 4, 5, 678901999, time.FixedZone("", 3600))
	require.NoError(t, l.Append(r))
	flush(t, l)
	got := sink.records[0]
	require.Equal(t, strings.Repeat("é", 256), got.Model)
	require.Equal(t, "a\uFFFDb\uFFFDc", got.Tenant)
	require.LessOrEqual(t, len(got.Key), ledger.MaxName)
	require.Equal(t, time.Date(2026, 1, 2, 2, 4, 5, 678901000, time.UTC), got.At)
	require.Len(t, r.Model, 2<<20, "the caller's is its own")
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := ledger.New(ledger.Options{})
	require.ErrorContains(t, err, "Sink is nil")
	_, err = ledger.New(ledger.Options{Sink: &memory{}, Batch: -1})
	require.ErrorContains(t, err, "Batch -1")
	_, err = ledger.New(ledger.Options{Sink: &memory{}, Buffer: 15, Spool: spoolPath(t)})
	require.ErrorContains(t, err, "at least 16")
}

// What a request pays.
func TestAppendAllocatesNothingToSpeakOf(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage counts")
	}
	l := open(t, ledger.Options{Sink: ledger.SinkFunc(func(context.Context, []ledger.Record) error { return nil })})
	r := record(1)
	n := testing.AllocsPerRun(10000, func() {
		if err := l.Append(r); err != nil {
			t.Error(err)
		}
	})
	require.LessOrEqual(t, n, 3.0) // those of the queue, and of the keeper at the same time
}

func BenchmarkAppend(b *testing.B) {
	l, err := ledger.New(ledger.Options{
		Sink:     ledger.SinkFunc(func(context.Context, []ledger.Record) error { return nil }),
		Patience: time.Minute,
	})
	require.NoError(b, err)
	r := record(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	require.NoError(b, l.Close())
}
