package sqlledger_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/sqlite"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(childOf); address != "" {
		child(address)
	}
	leak.Main(m)
}

// soon is for what happens, however busy the machine is.
const soon = 2 * time.Minute

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)

func record(i int) ledger.Record {
	return ledger.Record{
		ID: "r" + strconv.Itoa(i), Attempt: 1, State: ledger.Reserved, At: noon.Add(time.Duration(i) * time.Millisecond),
		Tenant: "acme", Model: "m", Uncached: int64(i), Output: 7, Cost: 3,
	}
}

func settled(i int) ledger.Record {
	r := record(i)
	r.State, r.At, r.Source, r.Worker = ledger.Settled, r.At.Add(time.Second), ledger.Provider, "gpu-0"
	r.CachedKnown, r.Cached, r.Uncached = true, 1, 2
	return r
}

func openSQLite(t *testing.T) *sqlledger.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir()+"/a file #%25&.db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func read(t *testing.T, s *sqlledger.Store, q usage.Query) (out []ledger.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, s.Read(ctx, q, func(r *ledger.Record) error {
		out = append(out, *r)
		return nil
	}))
	return out
}
