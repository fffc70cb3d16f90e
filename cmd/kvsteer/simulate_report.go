package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
)

// mean gives the first run the mean of every figure.
func mean(runs []*simulate.Result) *simulate.Result {
	out := *runs[0]
	n := float64(len(runs))
	for _, field := range []func(*simulate.Result) *float64{
		func(r *simulate.Result) *float64 { return &r.Mean },
		func(r *simulate.Result) *float64 { return &r.P50 },
		func(r *simulate.Result) *float64 { return &r.P90 },
		func(r *simulate.Result) *float64 { return &r.P95 },
		func(r *simulate.Result) *float64 { return &r.P99 },
		func(r *simulate.Result) *float64 { return &r.ITL },
		func(r *simulate.Result) *float64 { return &r.E2E },
		func(r *simulate.Result) *float64 { return &r.HitRate },
		func(r *simulate.Result) *float64 { return &r.Goodput },
		func(r *simulate.Result) *float64 { return &r.PredictionError },
		func(r *simulate.Result) *float64 { return &r.Covered },
		func(r *simulate.Result) *float64 { return &r.Pauses },
		func(r *simulate.Result) *float64 { return &r.Relayed },
		func(r *simulate.Result) *float64 { return &r.Failed },
	} {
		sum := 0.0
		for _, r := range runs {
			sum += *field(r)
		}
		*field(&out) = sum / n
	}
	return &out
}

// print writes the figures as a table or as JSON.
func (o *simulation) print(w io.Writer, points []point) error {
	for _, p := range points {
		if o.json {
			rows := make([]simulate.Row, len(p.results))
			for i, r := range p.results {
				rows[i] = r.Row
			}
			out := struct {
				Workload string         `json:"workload"`
				Replicas int            `json:"replicas,omitempty"` // if there are several
				Exchange string         `json:"exchange,omitempty"` // on or off
				Rows     []simulate.Row `json:"rows"`
			}{Workload: p.name, Rows: rows}
			if o.replicas.count > 1 {
				out.Replicas, out.Exchange = o.replicas.count, o.replicas.exchange.String()
			}
			err := json.NewEncoder(w).Encode(out)
			if err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			continue
		}
		if err := o.table(w, p); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

func (o *simulation) table(w io.Writer, p point) error {
	const percent = 100
	fmt.Fprintf(w, "Simulation of %s, seed %d", p.name, o.seed)
	if o.repeat > 1 {
		fmt.Fprintf(w, " to %d (means)", o.seed+uint64(o.repeat)-1)
	}
	if n := o.replicas.count; n > 1 {
		fmt.Fprintf(w, ", %d routers, exchange %s", n, &o.replicas.exchange)
	}
	fmt.Fprintf(w, ": %d requests measured. lowest-ttft sees the engines' true state; bound is no router.\n\n", p.results[0].Requests)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight) //nolint:mnd // two spaces between columns
	relayed := slices.ContainsFunc(p.results, func(r *simulate.Result) bool { return r.Relayed > 0 })
	failed := slices.ContainsFunc(p.results, func(r *simulate.Result) bool { return r.Failed > 0 })
	fmt.Fprint(t, "router\tTTFT mean s\tp50\tp90\tp95\tp99\tITL p50 ms\tpauses p99 ms\tE2E p50 s\thit %\tgood/min\tMdAPE %\tp90 covers %\t")
	if relayed {
		fmt.Fprint(t, "two workers %\t")
	}
	if failed {
		fmt.Fprint(t, "failed %\t")
	}
	fmt.Fprintln(t)
	for _, r := range p.results {
		predicted, covered := "-", "-"
		if r.PredictionError > 0 {
			predicted, covered = fmt.Sprintf("%.1f", percent*r.PredictionError), fmt.Sprintf("%.1f", percent*r.Covered)
		}
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%.0f\t%.2f\t%.1f\t%.1f\t%s\t%s\t", r.Router,
			r.Mean, r.P50, r.P90, r.P95, r.P99, r.ITL, r.Pauses, r.E2E, percent*r.HitRate, r.Goodput, predicted, covered)
		if relayed {
			fmt.Fprintf(t, "%.1f\t", percent*r.Relayed)
		}
		if failed {
			fmt.Fprintf(t, "%.2f\t", percent*r.Failed)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t)
	return t.Flush()
}
