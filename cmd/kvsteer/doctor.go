package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/doctor"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

const doctorUsage = `usage: kvsteer doctor [flags] FLEET.yaml
       kvsteer doctor [flags] URL...

Connects to each worker of a fleet file, or to the engines at the URLs, and says
check by check what works, what doesn't, and what to do about it. docs/doctor.md
explains each check.

It exits with 0 if there is no fault, with 1 if there is one, with 2 if it could
not look at all. Warnings are no faults, unless with -strict. Without -probe it costs the engines
nothing but a few questions.
`

// runDoctor examines a fleet.
func runDoctor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, doctorUsage, "\nflags:\n")
		flags.PrintDefaults()
	}
	o := doctor.Options{Files: map[string]local.Model{}}
	fleetFile := flags.String("fleet", "", "`FILE` that lists the workers, as of examples/nethttp")
	flags.Func("files", "`MODEL=DIR`: compare the prompts computed from a model's files with the engines' (repeatable)", func(v string) error {
		model, dir, ok := strings.Cut(v, "=")
		if !ok || model == "" || dir == "" {
			return errors.New("want MODEL=DIR")
		}
		o.Files[model] = local.Model{Dir: dir}
		return nil
	})
	flags.BoolVar(&o.Probe, "probe", false, "send each worker one short request, twice")
	flags.DurationVar(&o.Timeout, "timeout", doctor.DefaultTimeout, "time for everything together")
	keyFile := flags.String("key", "", "`FILE` with the engines' API key, sent as a bearer token")
	strict := flags.Bool("strict", false, "exit with 1 for warnings, too")
	asJSON := flags.Bool("json", false, "print JSON instead of text")
	if code, ok := parse(flags, args, stderr); !ok {
		return code
	}
	urls := flags.Args()
	if late := slices.IndexFunc(urls, func(arg string) bool { return strings.HasPrefix(arg, "-") }); late >= 0 {
		fmt.Fprintf(stderr, "kvsteer doctor: %s comes after what to examine: write flags before the fleet file or URLs\n", urls[late])
		return exitUsage
	}
	if *fleetFile == "" && len(urls) == 1 && isFleetFile(urls[0]) {
		*fleetFile, urls = urls[0], nil
	}
	if (*fleetFile == "") == (len(urls) == 0) || o.Timeout <= 0 {
		flags.Usage()
		return exitUsage
	}
	err := load(&o, *fleetFile, urls, *keyFile)
	var report *doctor.Report
	if err == nil {
		report, err = doctor.Run(ctx, o)
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err == nil {
		err = printReport(stdout, report, *asJSON)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "kvsteer doctor: %v\n", err)
		return exitUsage // it could not look
	case report.Status == doctor.Fault, *strict && report.Status == doctor.Warning:
		return exitFailed
	default:
		return exitOK
	}
}

// isFleetFile tells a file from a URL.
func isFleetFile(arg string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)) && !strings.Contains(arg, "://")
}

// load reads what the command line names.
func load(o *doctor.Options, fleetFile string, urls []string, keyFile string) (err error) {
	if keyFile != "" {
		var key []byte
		if key, err = os.ReadFile(keyFile); err != nil { //nolint:gosec // the user's own file, named on the command line
			return fmt.Errorf("-key: %w", err)
		}
		o.Key = string(bytes.TrimSpace(key))
	}
	if fleetFile != "" {
		if o.Workers, err = file.Load(fleetFile); err != nil {
			return fmt.Errorf("-fleet %s: %w", fleetFile, err)
		}
	} else {
		o.Workers, o.Discover = workersAt(urls), true
	}
	if len(o.Workers) == 0 {
		return fmt.Errorf("-fleet %s: it lists no workers", fleetFile)
	}
	return fleet.Validate(o.Workers)
}

// workersAt makes workers of addresses, named by them.
func workersAt(urls []string) []fleet.Worker {
	workers := make([]fleet.Worker, len(urls))
	for i, raw := range urls {
		if !strings.Contains(raw, "://") {
			raw = "http://" + raw
		}
		workers[i] = fleet.Worker{Name: fmt.Sprintf("worker-%d", i), URL: strings.TrimRight(raw, "/")}
		if u, err := url.Parse(raw); err == nil && u.Host != "" && u.User == nil {
			workers[i].Name = u.Host + strings.TrimRight(u.Path, "/") // one host may have several engines
		}
	}
	return workers
}

func printReport(w io.Writer, r *doctor.Report, asJSON bool) error {
	if !asJSON {
		return r.WriteText(w, isTerminal(w))
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// isTerminal reports whether colours make sense; see no-color.org for the variable.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
