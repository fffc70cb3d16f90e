package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// maxRows bounds the rows of each table; JSON has all.
const maxRows = 20

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d decisions for %d requests in %s, %d outcomes\n",
		strings.Join(r.Files, ", "), r.Decisions, r.Requests, plural(r.Runs, "run"), r.Outcomes)
	fmt.Fprintf(w, "  policy      %s%s\n", r.Policy, r.sameness())
	fmt.Fprintf(w, "  predictor   %s\n", r.Predictor)
	if r.Decisions == 0 {
		fmt.Fprintln(w, "\nThere is nothing to replay.")
		return nil
	}
	fmt.Fprintf(w, "\n  routes changed   %d (%.1f%%)%s\n", r.Changed, r.ChangedPct, r.also())
	fmt.Fprintf(w, "  rejected         %d before, %d now (%d newly, %d no longer)\n",
		r.RejectedBefore, r.RejectedNow, r.NewlyRejected, r.NewlyAdmitted)
	if r.TTFT != nil {
		fmt.Fprintf(w, "  predicted TTFT   %s; others wait %+.1f ms a request\n", r.TTFT, r.OthersMS)
	}
	if r.ChangedTTFT != nil {
		fmt.Fprintf(w, "    where changed  %s\n", r.ChangedTTFT)
	}
	if c := r.Cost; c != nil {
		fmt.Fprintf(w, "  cost             %.4f USD before, %.4f now (%+.4f) over %s\n",
			c.BeforeUSD, c.NowUSD, c.DeltaUSD, plural(c.Requests, "request"))
	}
	if p := r.Prediction; p != nil {
		fmt.Fprintf(w, "  TTFT error       median %.1f%% as recorded, %.1f%% now, of %s that were measured\n",
			p.BeforeError, p.NowError, plural(p.Requests, "request"))
	}
	for _, table := range []func(io.Writer) error{r.printRules, r.printMoves, r.printTenants} {
		if err := table(w); err != nil {
			return err
		}
	}
	r.printTop(w)
	r.printCaveats(w)
	return nil
}

// sameness says whether the policy is the one that decided.
func (r *Report) sameness() string {
	if r.Version == "" {
		return ""
	}
	same := "not the version recorded"
	if r.Recorded[r.Version] == r.Decisions {
		same = "as recorded"
	} else if n := r.Recorded[r.Version]; n > 0 {
		same = "the same for " + plural(n, "decision")
	}
	return fmt.Sprintf(" (version %s, %s)", r.Version, same)
}

func (r *Report) also() string {
	var parts []string
	if r.Models > 0 {
		parts = append(parts, fmt.Sprintf("%d to another model", r.Models))
	}
	if r.Prefill > 0 {
		parts = append(parts, fmt.Sprintf("%d with the prompt computed elsewhere", r.Prefill))
	}
	if r.Waits > 0 {
		parts = append(parts, fmt.Sprintf("%d would wait", r.Waits))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// String tells a distribution in a line.
func (d *Delta) String() string {
	return fmt.Sprintf("mean %+.1f ms, p50 %+.1f, p90 %+.1f", d.MeanMS, d.P50MS, d.P90MS)
}

const columns = "decisions\tchanged\trejected\tmean ms\tp50\tp90\tUSD\t"

// cells are those of columns but for the first.
func (c *Changes) cells() string {
	times := "-\t-\t-"
	if d := c.TTFT; d != nil {
		times = fmt.Sprintf("%+.1f\t%+.1f\t%+.1f", d.MeanMS, d.P50MS, d.P90MS)
	}
	cost := "-"
	if c.Cost != nil {
		cost = fmt.Sprintf("%+.4f", c.Cost.DeltaUSD)
	}
	return fmt.Sprintf("%d\t%d > %d\t%s\t%s\t", c.Changed, c.RejectedBefore, c.RejectedNow, times, cost)
}

func grid(w io.Writer, title string) *tabwriter.Writer {
	fmt.Fprintf(w, "\n  %s\n", title)
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// rest says how many rows are left out.
func rest(w io.Writer, n int) {
	if n > maxRows {
		fmt.Fprintf(w, "  and %d more; -json has all\n", n-maxRows)
	}
}

func (r *Report) printRules(w io.Writer) error {
	t := grid(w, "by rule, changes of the decisions that it was recorded for:")
	fmt.Fprintln(t, "before\tnow\tchanged\trejected\tmean ms\tp50\tp90\tUSD\t  rule")
	for _, row := range r.Rules[:min(len(r.Rules), maxRows)] {
		fmt.Fprintf(t, "%d\t%d\t%s  %s\n", row.Before, row.Now, row.cells(), ruleName(rule{row.Policy, row.Rule}))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	rest(w, len(r.Rules))
	return nil
}

func (r *Report) printMoves(w io.Writer) error {
	if len(r.Moves) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\n  decided by another rule:")
	for _, m := range r.Moves[:min(len(r.Moves), maxRows)] {
		fmt.Fprintf(w, "  %8d  %s -> %s\n", m.Decisions, m.From, m.To)
	}
	rest(w, len(r.Moves))
	return nil
}

func (r *Report) printTenants(w io.Writer) error {
	if len(r.Tenants) == 1 && r.Tenants[0].Tenant == "" {
		return nil
	}
	t := grid(w, "by tenant:")
	fmt.Fprintln(t, columns+"  tenant")
	for _, row := range r.Tenants[:min(len(r.Tenants), maxRows)] {
		name := fmt.Sprintf("%q", clip(row.Tenant))
		if row.Tenant == "" {
			name = "none"
		}
		fmt.Fprintf(t, "%d\t%s  %s\n", row.Decisions, row.cells(), name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	rest(w, len(r.Tenants))
	return nil
}

func (r *Report) printTop(w io.Writer) {
	if len(r.Top) == 0 {
		return
	}
	fmt.Fprintln(w, "\n  the most different decisions:")
	for _, d := range r.Top {
		name := fmt.Sprintf("decision %d", d.Decision)
		if d.Decision == 0 {
			name = "a rejection"
		}
		change := ""
		if d.DeltaMS != 0 {
			change = fmt.Sprintf(" %+.1f ms", d.DeltaMS)
		}
		fmt.Fprintf(w, "\n  %s (%s:%d)%s\n    %s\n", name, d.File, d.Line, change, strings.ReplaceAll(d.Words, "\n", "\n    "))
	}
}

func (r *Report) printCaveats(w io.Writer) {
	if len(r.Caveats) == 0 {
		return
	}
	fmt.Fprintln(w, "\n  what a replay can't know:")
	for _, c := range r.Caveats {
		fmt.Fprintf(w, "  %8d  %s\n", c.Count, c.Text)
	}
}
