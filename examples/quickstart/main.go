// Command quickstart shows what KVSteer does, with nothing installed but Go: two
// workloads go through three fake engines, first round-robin, then by KVSteer,
// from the same seed. The engines are a simulation of vLLM on an L40S, sped up;
// the router, its HTTP transport and the KV events are the real code.
//
//	go run ./examples/quickstart [-json] [-seed 1] [-speed 30]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// The rules that are compared.
const (
	baseline  = "round-robin"
	candidate = "kvsteer"
)

func main() { os.Exit(program()) }

const (
	exitUsage       = 2
	exitInterrupted = 130 // what a shell reports of a program that SIGINT ended
)

func program() int {
	asJSON := flag.Bool("json", false, "print one JSON object instead of tables")
	seed := flag.Uint64("seed", 1, "what the workloads are made from")
	speed := flag.Float64("speed", 30, "how many times faster than the modelled hardware to run")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./examples/quickstart [-json] [-seed 1] [-speed 30]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unexpected argument %q\n", flag.Arg(0))
		flag.Usage()
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *asJSON, *seed, *speed, os.Stdout, progress{w: os.Stderr, live: isTerminal(os.Stderr)})
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "quickstart: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return 1
	default:
		return 0
	}
}

func run(ctx context.Context, asJSON bool, seed uint64, speed float64, out io.Writer, p progress) error {
	if math.IsNaN(speed) || speed <= 0 || math.IsInf(speed, 1) {
		return fmt.Errorf("-speed %v: want a positive number", speed)
	}
	fmt.Fprintf(p.w, "SIMULATION: %d fake engines (a 27B model on an L40S each, %gx sped up); "+
		"times are modelled seconds.\n", engines, speed)
	rep := report{Simulation: true, Seed: seed, Speed: speed}
	var telling []*kvsteer.Decision
	for _, w := range []workload{sharedPrefix(seed), multiTurn(seed)} {
		fmt.Fprintf(p.w, "\n%s: %s\n", w.Name, w.Description)
		wr := workloadReport{Name: w.Name}
		for _, name := range []string{baseline, candidate} {
			res, err := one(ctx, name, w, speed, seed, p)
			if err != nil {
				return err
			}
			wr.Rows = append(wr.Rows, res.row())
			if name == candidate && telling == nil {
				telling = tellingDecisions(res.decisions, w.WarmUp)
			}
		}
		rep.Workloads = append(rep.Workloads, wr)
	}
	fmt.Fprintln(p.w)
	if asJSON {
		return printJSON(out, rep)
	}
	if err := printTable(out, rep); err != nil {
		return err
	}
	fmt.Fprintln(out, "\n"+verdict(rep))
	fmt.Fprintln(out, "\nThree of KVSteer's decisions on shared-prefix (predictions in modelled seconds, as in the table):")
	for _, d := range telling {
		fmt.Fprintln(out, "\n"+modelled(d, speed).String())
	}
	return nil
}

// one runs a workload through a fresh fleet with one rule.
func one(ctx context.Context, name string, w workload, speed float64, seed uint64, p progress) (*result, error) {
	var rule policy.Policy = policy.Default{}
	if name == baseline {
		rule = new(policy.RoundRobin)
	}
	r, err := newRig(ctx, name, rule, speed, seed)
	if err != nil {
		return nil, err
	}
	defer r.close()
	bar := p.phase(name, w.requests())
	res, err := r.play(ctx, w, bar.step)
	bar.end()
	if err == nil && res.failed > 0 {
		err = fmt.Errorf("%s, %s: %d requests failed, the first with: %w", w.Name, name, res.failed, res.firstErr)
	}
	return res, err
}
