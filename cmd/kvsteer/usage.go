package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // days of every zone, wherever it runs

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

const usageUsage = `usage: kvsteer usage [flags] FILE...

` + usage.Help + `FILE is one that ledger.OpenJSONL has written, a pattern such as 'usage*.jsonl', or "-" for
standard input; names that end in .gz are unpacked. Read all files of the time in
question: the end of an attempt may be in the next. A ledger in a database is read by
kvsteer-usage, of tenancy/ledger/sqlledger.

It exits with 1 if a file or a line can't be read; what could be is printed all the same,
unless a newer version has written one, of which sums would be wrong.

`

// maxNamed is how many damaged lines are named.
const maxNamed = 10

// usageReader reads files into a tally and says what is wrong with them.
type usageReader struct {
	tally   *usage.Tally
	stderr  io.Writer
	damaged int64
	unread  int64 // files, or not to their end
	any     bool  // something was read
}

// runUsage is the command.
func runUsage(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("usage", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usageUsage, "flags:\n")
		f.PrintDefaults()
	}
	var flags usage.Flags
	flags.Register(f)
	if code, ok := parse(f, args, stderr); !ok {
		return code
	}
	q, err := flags.Query()
	if err == nil && f.NArg() == 0 {
		err = errors.New(`name the files of a ledger, or "-"`)
	}
	var tally *usage.Tally
	if err == nil {
		tally, err = usage.New(q)
	}
	if err != nil {
		fmt.Fprintf(stderr, "kvsteer usage: %v\n", err)
		return exitUsage
	}
	r := usageReader{tally: tally, stderr: stderr}
	if !r.readAll(ctx, f.Args()) {
		return exitFailed
	}
	report := tally.Report()
	report.Damaged, report.Unread = r.damaged, r.unread
	out := bufio.NewWriter(stdout)
	if err := errors.Join(flags.Print(out, report), out.Flush()); err != nil {
		fmt.Fprintf(stderr, "kvsteer usage: %v\n", err)
		return exitFailed
	}
	if r.damaged > 0 {
		fmt.Fprintf(stderr, "kvsteer usage: %d lines can't be read; the sums may be too small\n", r.damaged)
	}
	if r.unread > 0 {
		fmt.Fprintf(stderr, "kvsteer usage: %d files can't be read, or not to the end; the sums may be too small\n", r.unread)
	}
	if r.damaged > 0 || r.unread > 0 {
		return exitFailed
	}
	return exitOK
}

// readAll reads what names and patterns stand for, says what can't be read, and reports
// whether there is something to print.
func (r *usageReader) readAll(ctx context.Context, args []string) bool {
	files, errs := filesOf(args)
	for _, err := range errs {
		fmt.Fprintf(r.stderr, "kvsteer usage: %v\n", err)
		r.unread++
	}
	for _, name := range files {
		err := r.read(ctx, name)
		if err == nil {
			r.any = true
			continue
		}
		fmt.Fprintf(r.stderr, "kvsteer usage: %v\n", err)
		r.unread++
		if errors.Is(err, ledger.ErrVersion) || ctx.Err() != nil {
			return false
		}
	}
	return r.any
}

// filesOf returns what names and patterns stand for, each file once, and an error for
// each that stands for nothing.
func filesOf(args []string) (files []string, errs []error) {
	for _, arg := range args {
		found := []string{arg}
		if strings.ContainsAny(arg, "*?[") {
			var err error
			if found, err = filepath.Glob(arg); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", arg, err))
			} else if len(found) == 0 {
				errs = append(errs, fmt.Errorf("%s: there is no such file", arg))
			}
		}
		for _, name := range found {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files, errs
}

func (r *usageReader) read(ctx context.Context, name string) error {
	return opened(name, func(in io.Reader) error {
		in = interruptible{ctx, in}
		if strings.HasSuffix(name, ".gz") {
			unpacked, err := gzip.NewReader(in)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			in = unpacked
		}
		err := ledger.Read(in, func(e *ledger.Entry) error {
			r.any = true
			switch {
			case e.Record != nil:
				r.tally.Add(e.Record)
			case e.Unfinished:
				fmt.Fprintf(r.stderr, "%s:%d: the last line is unfinished and does not count: it is being written, or a crash cut it off\n",
					name, e.Line)
			default:
				if r.damaged++; r.damaged <= maxNamed {
					fmt.Fprintf(r.stderr, "%s:%d: %s\n", name, e.Line, e.Damage)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}
