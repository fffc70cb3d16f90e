package ledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

// A request is let through and served; what it used is in a file, and adds up.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "usage.jsonl")

	sink, err := ledger.OpenJSONL(path, ledger.JSONLOptions{MaxAge: 24 * time.Hour})
	if err != nil {
		panic(err)
	}
	book, err := ledger.New(ledger.Options{Sink: sink, Spool: filepath.Join(dir, "spool.jsonl")})
	if err != nil {
		panic(err)
	}

	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := ledger.Record{ID: "req-1", Attempt: 1, State: ledger.Reserved, At: at, Tenant: "acme", Model: "m", Uncached: 1000, Output: 500, Cost: 2500}
	if err := book.Append(&r); err != nil {
		panic(err) // of this record nothing will be known: see Options.OnLost
	}
	r.State, r.At, r.Source, r.Worker = ledger.Settled, at.Add(2*time.Second), ledger.Provider, "gpu-0"
	r.Uncached, r.Cached, r.CachedKnown, r.Output, r.Cost = 100, 900, true, 200, 700
	if err := book.Append(&r); err != nil {
		panic(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := book.Flush(ctx); err != nil { // on disk from here on
		panic(err)
	}
	if err := book.Close(); err != nil {
		panic(err)
	}
	if err := sink.Close(); err != nil { // after the Ledger
		panic(err)
	}

	tally, err := usage.New(usage.Query{})
	if err != nil {
		panic(err)
	}
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if err := ledger.Read(file, func(e *ledger.Entry) error {
		if e.Record == nil {
			return fmt.Errorf("line %d: %s", e.Line, e.Damage)
		}
		tally.Add(e.Record)
		return nil
	}); err != nil {
		panic(err)
	}
	for _, row := range tally.Report().Rows {
		fmt.Println(row.Of[usage.Day], row.Of[usage.Tenant], "used", row.Used.Tokens(), "tokens of", row.Reserved.Tokens())
	}
	// Output: 2026-11-30 acme used 1200 tokens of 1500
}

// A sink of your own: nil acknowledges.
func ExampleSinkFunc() {
	book, err := ledger.New(ledger.Options{
		Sink: ledger.SinkFunc(func(_ context.Context, records []ledger.Record) error {
			for i := range records {
				fmt.Println(records[i].ID, records[i].State)
			}
			return nil
		}),
	})
	if err != nil {
		panic(err)
	}
	if err := book.Append(&ledger.Record{ID: "req-1", Attempt: 1, State: ledger.Voided, At: time.Unix(1e9, 0), Model: "m"}); err != nil {
		panic(err)
	}
	if err := book.Close(); err != nil {
		panic(err)
	}
	// Output: req-1 voided
}
