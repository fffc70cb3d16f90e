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
	"os"
	"os/signal"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object instead of tables")
	seed := flag.Uint64("seed", 1, "what the workloads are made from")
	speed := flag.Float64("speed", 30, "how many times faster than the modelled hardware to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *asJSON, *seed, *speed, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, asJSON bool, seed uint64, speed float64, out, progress io.Writer) error {
	if speed <= 0 {
		return fmt.Errorf("-speed %v: want a positive number", speed)
	}
	fmt.Fprintf(progress, "SIMULATION: %d fake engines (a 27B model on an L40S each, %gx sped up); "+
		"times are modelled seconds.\n", engines, speed)
	rep := report{Simulation: true, Seed: seed, Speed: speed}
	var telling []*kvsteer.Decision
	for _, w := range []workload{sharedPrefix(seed), multiTurn(seed)} {
		fmt.Fprintf(progress, "\n%s: %s\n", w.Name, w.Description)
		wr := workloadReport{Name: w.Name}
		for _, name := range []string{"round-robin", "kvsteer"} {
			res, err := one(ctx, name, w, speed, seed, progress)
			if err != nil {
				return err
			}
			wr.Rows = append(wr.Rows, res.row())
			if name == "kvsteer" && telling == nil {
				telling = tellingDecisions(res.decisions)
			}
		}
		rep.Workloads = append(rep.Workloads, wr)
	}
	fmt.Fprintln(progress)
	if asJSON {
		return printJSON(out, rep)
	}
	if err := printTable(out, rep); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nThree of KVSteer's decisions (predictions are in wall-clock time of this sped-up simulation):")
	for _, d := range telling {
		fmt.Fprintln(out, "\n"+d.String())
	}
	return nil
}

// one runs a workload through a fresh fleet with one rule.
func one(ctx context.Context, name string, w workload, speed float64, seed uint64, progress io.Writer) (*result, error) {
	var rule policy.Policy = policy.Default{}
	if name == "round-robin" {
		rule = new(policy.RoundRobin)
	}
	r, err := newRig(ctx, name, rule, speed, seed)
	if err != nil {
		return nil, err
	}
	defer r.close()
	bar := &progressBar{w: progress, label: name, total: w.requests()}
	res, err := r.play(ctx, w, bar.step)
	bar.end()
	return res, err
}
