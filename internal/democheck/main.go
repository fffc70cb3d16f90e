// Command democheck reads what `quickstart -json` prints from standard input
// and fails unless the demo shows what it claims: on the shared-prefix
// workload, a median time to first token at least -ratio times lower with
// kvsteer than with round-robin.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// The names in the demo's report that the claim is about.
const (
	workload  = "shared-prefix"
	baseline  = "round-robin"
	candidate = "kvsteer"

	defaultRatio = 5
)

// report is the demo's output as far as the check needs it.
type report struct {
	Workloads []struct {
		Name string `json:"name"`
		Rows []row  `json:"rows"`
	} `json:"workloads"`
}

type row struct {
	Router  string  `json:"router"`
	TTFTp50 float64 `json:"ttft_p50_s"`
	TTFTp95 float64 `json:"ttft_p95_s"`
	E2Ep50  float64 `json:"e2e_p50_s"`
	HitRate float64 `json:"hit_rate"`
}

func main() {
	ratio := flag.Float64("ratio", defaultRatio, "least ratio of the median times to first token")
	flag.Parse()
	if err := check(os.Stdin, os.Stdout, *ratio); err != nil {
		fmt.Fprintln(os.Stderr, "democheck:", err)
		os.Exit(1)
	}
}

func check(in io.Reader, out io.Writer, least float64) error {
	var rep report
	dec := json.NewDecoder(in)
	if err := dec.Decode(&rep); err != nil {
		return fmt.Errorf("the demo printed no report: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the demo printed more than one JSON object")
	}
	seen := false
	for _, w := range rep.Workloads {
		rows := make(map[string]row, len(w.Rows))
		for _, r := range w.Rows {
			if err := plausible(r); err != nil {
				return fmt.Errorf("workload %q, router %q: %w", w.Name, r.Router, err)
			}
			rows[r.Router] = r
		}
		base, haveBase := rows[baseline]
		cand, haveCand := rows[candidate]
		if !haveBase || !haveCand {
			return fmt.Errorf("workload %q: rows for %s and %s wanted", w.Name, baseline, candidate)
		}
		ratio := base.TTFTp50 / cand.TTFTp50
		if _, err := fmt.Fprintf(out, "%s: TTFT p50 %.4g s -> %.4g s, %.1f times lower; hit rate %.0f%% -> %.0f%%\n",
			w.Name, base.TTFTp50, cand.TTFTp50, ratio, 100*base.HitRate, 100*cand.HitRate); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
		if w.Name != workload {
			continue
		}
		seen = true
		if ratio < least {
			return fmt.Errorf("workload %q: TTFT p50 is %.2f times lower, at least %g is claimed", w.Name, ratio, least)
		}
	}
	if !seen {
		return fmt.Errorf("the report has no workload %q", workload)
	}
	return nil
}

// plausible refuses figures that no run can have, so that a broken report
// doesn't pass as a good one.
func plausible(r row) error {
	switch {
	case !(r.TTFTp50 > 0):
		return fmt.Errorf("ttft_p50_s is %g", r.TTFTp50)
	case r.TTFTp95 < r.TTFTp50:
		return fmt.Errorf("ttft_p95_s %g is below ttft_p50_s %g", r.TTFTp95, r.TTFTp50)
	case r.E2Ep50 < r.TTFTp50:
		return fmt.Errorf("e2e_p50_s %g is below ttft_p50_s %g", r.E2Ep50, r.TTFTp50)
	case !(r.HitRate >= 0 && r.HitRate <= 1):
		return fmt.Errorf("hit_rate %g is not between 0 and 1", r.HitRate)
	}
	return nil
}
