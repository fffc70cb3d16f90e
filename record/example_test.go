package record_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/record"
)

// A router whose decisions are recorded, and what is in the log then.
func Example() {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "decisions.jsonl")

	engine, err := fleettest.Start(fleettest.Config{Name: "gpu-0", Model: "m"})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(engine.Worker())})
	if err != nil {
		panic(err)
	}
	defer workers.Close()

	recorder, err := record.Open(path, record.Options{MaxBytes: 100 << 20, CloseTimeout: time.Minute})
	if err != nil {
		panic(err)
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(recorder))
	if err != nil {
		panic(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for workers.Snapshot().Routable() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	selection, err := router.Select(ctx, &kvsteer.Request{
		API: kvsteer.Completions, Model: "m", TokenIDs: make([]uint32, 1000), Tenant: "acme",
	})
	if err != nil {
		panic(err)
	}
	selection.Done(kvsteer.Usage{Uncached: 1000, Output: 20, Known: true})
	if err := router.Close(); err != nil {
		panic(err)
	}
	if err := recorder.Close(); err != nil { // after the router
		panic(err)
	}

	log, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	err = record.Read(log, func(e *record.Entry) error {
		switch {
		case e.Header != nil:
			fmt.Println("a log of version", e.Header.Version)
		case e.Decision != nil:
			fmt.Println(e.Decision.Request.Tenant, "->", e.Decision.Winner().Name)
		case e.Outcome != nil:
			fmt.Println("decision", e.Outcome.Decision, "gave", e.Outcome.Usage.Output, "tokens")
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// a log of version 1
	// acme -> gpu-0
	// decision 1 gave 20 tokens
}
