package sqlledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/sqlite"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

// A ledger in SQLite. For PostgreSQL only the line that opens it differs:
// postgres.Open(ctx, "postgres://kvsteer@db.internal/usage").
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	store, err := sqlite.Open(ctx, filepath.Join(dir, "usage.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close() // after the Ledger
	book, err := ledger.New(ledger.Options{Sink: store})
	if err != nil {
		panic(err)
	}
	r := ledger.Record{ID: "req-1", Attempt: 1, State: ledger.Settled, At: time.Unix(1e9, 0), Tenant: "acme", Model: "m", Output: 20}
	if err := book.Append(&r); err != nil {
		panic(err)
	}
	if err := book.Append(&r); err != nil { // once more, by mistake
		panic(err)
	}
	if err := book.Close(); err != nil {
		panic(err)
	}

	query := usage.Query{Tenants: []string{"acme"}}
	tally, err := usage.New(query)
	if err != nil {
		panic(err)
	}
	if err := store.Read(ctx, query, func(r *ledger.Record) error {
		tally.Add(r)
		return nil
	}); err != nil {
		panic(err)
	}
	fmt.Println(tally.Report().Total.Used.Output, "tokens")
	// Output: 20 tokens
}
