package sqlledger_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/sqlite"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

func TestSQLite(t *testing.T) { suite(t, openSQLite) }

// suite is what both databases must do.
func suite(t *testing.T, open func(*testing.T) *sqlledger.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *sqlledger.Store){
		"keeps everything": keepsEverything, "is idempotent": isIdempotent, "takes any number": takesAnyNumber,
		"is all or nothing": isAllOrNothing, "is read as files are": isReadAsFilesAre, "is written by many": isWrittenByMany,
		"holds what a ledger lets in": holdsWhatALedgerLetsIn,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func keepsEverything(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	want := ledger.Record{
		ID: "'; DROP TABLE kvsteer_usage; --", Attempt: ledger.MaxAttempt, State: ledger.Settled, At: noon, Org: "ö", Team: "t", Tenant: "\x01\n",
		Key: "k", Class: "c", Model: "m", Served: "s", Worker: "w", Provider: "p", Uncached: ledger.MaxAmount, Cached: 2, CachedKnown: true,
		CacheWrite: 3, Output: 4, Reasoning: 5, Cost: ledger.MaxAmount, Source: ledger.Stream,
	}
	require.NoError(t, s.Write(t.Context(), []ledger.Record{want}))
	require.NoError(t, s.Write(t.Context(), nil))
	require.Equal(t, []ledger.Record{want}, read(t, s, usage.Query{}))
}

func isIdempotent(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	first, other := record(1), record(1)
	other.Cost = 99
	require.NoError(t, s.Write(t.Context(), []ledger.Record{first, first, settled(1)}))
	require.NoError(t, s.Write(t.Context(), []ledger.Record{other, first, settled(1)}))
	require.ElementsMatch(t, []ledger.Record{first, settled(1)}, read(t, s, usage.Query{}), "the first stays")
}

func takesAnyNumber(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	n := 0
	for _, size := range []int{1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 341, 1000} {
		batch := make([]ledger.Record, size)
		for i := range batch {
			batch[i] = record(n)
			n++
		}
		require.NoError(t, s.Write(t.Context(), batch))
	}
	seen := map[string]bool{}
	for _, r := range read(t, s, usage.Query{}) {
		seen[r.ID] = true
	}
	require.Len(t, seen, n)
}

// A batch that fails in the middle leaves nothing, and the Store goes on.
func isAllOrNothing(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.Write(ctx, []ledger.Record{record(1)}))
	if !strings.Contains(t.Name(), "SQLite") { // which takes any number for an attempt
		bad := record(2)
		bad.Attempt = 1 << 40
		require.Error(t, s.Write(t.Context(), append(make300(), bad)))
	}
	require.Empty(t, read(t, s, usage.Query{}))
	require.NoError(t, s.Write(t.Context(), []ledger.Record{record(3)}))
	require.Len(t, read(t, s, usage.Query{}), 1)
}

func make300() (out []ledger.Record) {
	for i := range 300 {
		out = append(out, record(i))
	}
	return out
}

// Whatever a query asks, the database tells what adding up all records does.
func isReadAsFilesAre(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var all []ledger.Record
	states := []ledger.State{ledger.Reserved, ledger.Settled, ledger.Voided}
	for range 600 {
		r := record(rng.IntN(300))
		r.State = states[rng.IntN(3)]
		r.At = noon.Add(time.Duration(rng.IntN(100)) * time.Hour)
		r.Tenant = []string{"a", "b", "c"}[rng.IntN(3)]
		r.Model = []string{"x", "y"}[rng.IntN(2)]
		all = append(all, r)
	}
	for batch := range slices.Chunk(all, 7) {
		require.NoError(t, s.Write(t.Context(), batch))
	}
	for _, q := range []usage.Query{
		{},
		{From: noon.Add(24 * time.Hour)},
		{To: noon.Add(24 * time.Hour)},
		{From: noon.Add(24 * time.Hour), To: noon.Add(48 * time.Hour), Tenants: []string{"a", "c"}, Models: []string{"x"}},
		{Tenants: []string{"nobody", "'"}},
	} {
		want, err := usage.New(q)
		require.NoError(t, err)
		got, err := usage.New(q)
		require.NoError(t, err)
		for i := range all {
			want.Add(&all[i])
		}
		rows := read(t, s, q)
		for i := range rows {
			got.Add(&rows[i])
		}
		a, b := want.Report(), got.Report()
		a.Doubles, a.Contradictions, b.Contradictions = 0, 0, 0 // these are of what is added, selected or not
		require.Equal(t, a, b)
	}
	mine := errors.New("mine")
	require.ErrorIs(t, s.Read(t.Context(), usage.Query{}, func(*ledger.Record) error { return mine }), mine)
}

// Several routers write to one database, some of them the same.
func isWrittenByMany(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 20 {
				var batch []ledger.Record
				for k := range 20 {
					batch = append(batch, record(i*20+k))
				}
				if g%2 == 1 { // the same in another order: the database may see a deadlock, and a Ledger tries again
					rand.Shuffle(len(batch), func(a, b int) { batch[a], batch[b] = batch[b], batch[a] })
				}
				for tries := 0; ; tries++ {
					err := s.Write(t.Context(), batch)
					if err == nil {
						break
					}
					if !assert.Less(t, tries, 100, "%v", err) {
						return
					}
				}
			}
		})
	}
	all.Wait()
	require.Len(t, read(t, s, usage.Query{}), 400)
}

// What a Ledger accepts the database can hold, whatever bytes are in it.
func holdsWhatALedgerLetsIn(t *testing.T, s *sqlledger.Store) {
	t.Helper()
	l, err := ledger.New(ledger.Options{Sink: s, WriteTimeout: soon, CloseTimeout: soon})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		r := record(i)
		b := make([]byte, rng.IntN(2000))
		for k := range b {
			b[k] = byte(rng.IntN(256) & rng.IntN(256))
		}
		r.Model, r.Tenant = string(b), string(b[:len(b)/2])
		require.NoError(t, l.Append(&r))
	}
	first := record(300)
	first.At = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	last := record(301)
	last.At = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	require.NoError(t, l.Append(&first))
	require.NoError(t, l.Append(&last))
	require.NoError(t, l.Close())
	require.Len(t, read(t, s, usage.Query{}), 302)
}

func TestSQLiteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), []ledger.Record{record(1)}))
	again, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err, "a report is made while records are written")
	require.Len(t, read(t, again, usage.Query{}), 1)
	require.NoError(t, again.Write(t.Context(), []ledger.Record{record(2)}))
	require.NoError(t, again.Close())
	require.Len(t, read(t, s, usage.Query{}), 2)
	require.NoError(t, s.Close())
	require.Error(t, s.Write(t.Context(), []ledger.Record{record(1)}))
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	_, err = sqlite.Open(t.Context(), filepath.Join(path, "no", "folder"))
	require.Error(t, err)
}

func TestSchemaVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO kvsteer_usage_schema (version) VALUES (1000)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = sqlite.Open(t.Context(), path)
	require.ErrorIs(t, err, sqlledger.ErrNewerSchema)
	require.ErrorContains(t, err, "1000")

	db, err = sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = sqlledger.New(t.Context(), db, 0)
	require.ErrorContains(t, err, "none of SQLite and PostgreSQL")
}

// Ten that start at a time make the tables once.
func TestSQLiteMigratesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	migratesOnce(t, func() (*sqlledger.Store, error) { return sqlite.Open(t.Context(), path) })
}

func migratesOnce(t *testing.T, open func() (*sqlledger.Store, error)) {
	t.Helper()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			s, err := open()
			if assert.NoError(t, err) {
				assert.NoError(t, s.Close())
			}
		})
	}
	all.Wait()
}
