// Command kvsteer-usage is `kvsteer usage` for ledgers in SQLite and PostgreSQL.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	_ "time/tzdata" // days of every zone, wherever it runs

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/postgres"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/sqlite"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

const help = `usage: kvsteer-usage -sqlite FILE [flags]
       kvsteer-usage -postgres ADDRESS [flags]

` + usage.Help

// Exit codes, as of kvsteer.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // it is a program
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("kvsteer-usage", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, help, "flags:\n")
		f.PrintDefaults()
	}
	file := f.String("sqlite", "", "the `file` of a ledger in SQLite")
	address := f.String("postgres", "",
		"the `address` of one in PostgreSQL, such as postgres://user@host/database; the password is better in PGPASSWORD")
	var flags usage.Flags
	flags.Register(f)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	q, err := flags.Query()
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; kvsteer usage reads files", f.Arg(0))
	case (*file == "") == (*address == ""):
		err = errors.New("name a ledger, with -sqlite or with -postgres")
	}
	if err != nil {
		fmt.Fprintf(stderr, "kvsteer-usage: %v\n", err)
		return exitUsage
	}
	if err := report(ctx, *file, *address, &flags, q, stdout); err != nil {
		fmt.Fprintf(stderr, "kvsteer-usage: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func report(ctx context.Context, file, address string, flags *usage.Flags, q usage.Query, stdout io.Writer) error {
	s, err := open(ctx, file, address)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it was only read
	t, err := usage.New(q)
	if err != nil {
		return err
	}
	if err := s.Read(ctx, q, func(r *ledger.Record) error {
		t.Add(r)
		return nil
	}); err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	return errors.Join(flags.Print(out, t.Report()), out.Flush())
}

func open(ctx context.Context, file, address string) (*sqlledger.Store, error) {
	if address != "" {
		return postgres.Open(ctx, address)
	}
	if _, err := os.Stat(file); err != nil { // a report makes no ledger
		return nil, err
	}
	return sqlite.Open(ctx, file)
}
