package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
)

// The grid of the documentation.
var (
	gridWorkers = [...]int{4, 8, 16}
	gridCaches  = [...]int{400_000, 1_000_000, 4_000_000}
	gridSpeeds  = [...]float64{0.5, 1, 1.5}
)

// runGrid compares rules in every cell of the grid: ours with the best of the
// others, which is another one for the mean and for the tail.
func (o *simulation) runGrid(ctx context.Context, stdout, stderr io.Writer) error {
	if o.json || o.plot != "" || o.fleetFile != "" || o.concurrency != "" {
		return errors.New("-grid prints a table of its own: it takes no -json, -plot, -fleet and -concurrency")
	}
	headed := false
	for _, workers := range gridWorkers {
		for _, cache := range gridCaches {
			for _, speed := range gridSpeeds {
				cell := *o
				cell.workers, cell.cacheTokens, cell.speed = workers, cache, speed
				points, err := cell.measure(ctx, stderr)
				if err != nil {
					return fmt.Errorf("%d workers, %d tokens, x%g: %w", workers, cache, speed, err)
				}
				if !headed {
					headed = true
					gridHead(stdout, points[0].results)
				}
				const million = 1e6
				fmt.Fprintf(stdout, "| %d | %gM | x%g ", workers, float64(cache)/million, speed)
				gridRow(stdout, points[0].results)
			}
		}
	}
	return nil
}

// ours are the rules that are compared with the best of the others.
func ours(name string) bool { return strings.HasPrefix(name, "kvsteer") }

// bench are those that no other system has: they aren't among the others.
func bench(name string) bool { return strings.HasPrefix(name, "bound") || name == "lowest-ttft" }

func gridHead(w io.Writer, results []*simulate.Result) {
	fmt.Fprint(w, "| workers | cache | load | least mean of others | least p99 of others |")
	columns := 5
	for _, r := range results {
		switch {
		case ours(r.Router):
			fmt.Fprintf(w, " %s mean | of it | p99 | of it |", r.Router)
			columns += 4
		case bench(r.Router):
			fmt.Fprintf(w, " %s mean |", r.Router)
			columns++
		default:
		}
	}
	fmt.Fprintf(w, "\n|%s\n", strings.Repeat("---|", columns))
}

func gridRow(w io.Writer, results []*simulate.Result) {
	var mean, tail *simulate.Result
	for _, r := range results {
		if ours(r.Router) || bench(r.Router) {
			continue
		}
		if mean == nil || r.Mean < mean.Mean {
			mean = r
		}
		if tail == nil || r.P99 < tail.P99 {
			tail = r
		}
	}
	if mean == nil {
		mean, tail = new(simulate.Result), new(simulate.Result)
	}
	fmt.Fprintf(w, "| %s %s | %s %s |", mean.Router, figure(mean.Mean), tail.Router, figure(tail.P99))
	for _, r := range results {
		switch {
		case ours(r.Router):
			fmt.Fprintf(w, " %s | %.2f | %s | %.2f |", figure(r.Mean), r.Mean/mean.Mean, figure(r.P99), r.P99/tail.P99)
		case bench(r.Router):
			fmt.Fprintf(w, " %s |", figure(r.Mean))
		default:
		}
	}
	fmt.Fprintln(w)
}

// figure prints seconds with as many digits as matter.
func figure(seconds float64) string {
	const many = 100
	if seconds >= many {
		return fmt.Sprintf("%.0f", seconds)
	}
	return fmt.Sprintf("%.2f", seconds)
}
