package usage

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// millionths is how many of them are one of the currency.
const millionths = 1_000_000

func money(n int64) string { return fmt.Sprintf("%d.%06d", n/millionths, n%millionths) }

func count(n int64) string { return strconv.FormatInt(n, 10) }

// JSON writes the report as JSON, costs in millionths of the currency.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// amounts are the names of Amounts and how to write them.
func amounts() []string {
	return []string{"uncached", "cached", "unsplit", "cache_write", "output", "reasoning", "cost"}
}

func (a *Amounts) texts() []string {
	return []string{
		count(a.Uncached), count(a.Cached), count(a.Unsplit), count(a.CacheWrite), count(a.Output), count(a.Reasoning), money(a.Cost),
	}
}

// CSV writes the rows with a header, costs in the currency with six decimals. Names that
// a spreadsheet would take for a formula have an apostrophe in front.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var head []string
	for _, f := range r.By {
		head = append(head, string(f))
	}
	head = append(head, "reserved_attempts", "settled_attempts", "voided_attempts", "open_attempts",
		"used_attempts", "estimated_attempts", "cached_unknown_attempts", "unreserved_attempts")
	for _, of := range []string{"used", "estimated", "reserved", "reserved_settled", "reserved_voided", "reserved_open"} {
		for _, a := range amounts() {
			head = append(head, of+"_"+a)
		}
	}
	_ = out.Write(head) // Error tells
	for i := range r.Rows {
		row := &r.Rows[i]
		var line []string
		for _, f := range r.By {
			line = append(line, harmless(row.Of[f]))
		}
		line = append(line, count(row.Reserved.Attempts), count(row.ReservedSettled.Attempts), count(row.ReservedVoided.Attempts),
			count(row.ReservedOpen.Attempts), count(row.Used.Attempts), count(row.Estimated.Attempts), count(row.Unknown), count(row.Unreserved))
		for _, s := range []*Sum{&row.Used, &row.Estimated, &row.Reserved, &row.ReservedSettled, &row.ReservedVoided, &row.ReservedOpen} {
			line = append(line, s.texts()...)
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// harmless keeps a spreadsheet from calculating what somebody has put into a name.
func harmless(s string) string {
	first := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && unicode.IsGraphic(r) })
	begins := s
	if first >= 0 {
		begins = s[first:]
	}
	// The wide forms are taken for the narrow ones in some languages.
	if strings.ContainsAny(s[:min(len(s), 1)], "\t\r\n") || strings.IndexAny(begins, "=+-@＝＋－＠|%'") == 0 {
		return "'" + s
	}
	return s
}

// shown is a name in a table, where an escape sequence would act.
func shown(s string) string {
	if s == "" {
		return "-"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// Table writes the report for people, with the oldest so many of what is open.
func (r *Report) Table(w io.Writer, open int) error {
	said := ""
	if r.From != nil {
		said += " from " + r.From.In(r.zone).Format(time.RFC3339)
	}
	if r.To != nil {
		said += " before " + r.To.In(r.zone).Format(time.RFC3339)
	}
	fmt.Fprintf(w, "Used%s, days in %s\n\n", said, r.Zone)
	r.table(w, []string{"attempts", "uncached", "cached", "unsplit", "cache write", "output", "reasoning", "cost"}, func(s *Sums) []string {
		out := append([]string{count(s.Used.Attempts)}, s.Used.texts()...)
		if s.Estimated.Attempts > 0 {
			out[len(out)-1] = "~" + out[len(out)-1]
		}
		return out
	})
	if n := r.Total.Estimated.Attempts; n > 0 {
		fmt.Fprintf(w, "\n~ attempts whose amounts are estimates: %d, with %s of the cost\n", n, money(r.Total.Estimated.Cost))
	}
	if n := r.Total.Unknown; n > 0 {
		fmt.Fprintf(w, "\nunsplit: prompt tokens of which nobody said how many were cached; attempts: %d\n", n)
	}
	fmt.Fprintf(w, "\nReserved = settled + voided + open, as it was expected; tokens are of prompts and answers\n\n")
	r.table(w, []string{
		"attempts", "settled", "voided", "open", "tokens", "settled", "voided", "open", "cost", "settled", "voided", "open",
	}, func(s *Sums) []string {
		parts := []*Sum{&s.Reserved, &s.ReservedSettled, &s.ReservedVoided, &s.ReservedOpen}
		var out []string
		for _, of := range []func(*Sum) string{
			func(s *Sum) string { return count(s.Attempts) },
			func(s *Sum) string { return count(s.Tokens()) },
			func(s *Sum) string { return money(s.Cost) },
		} {
			for _, p := range parts {
				out = append(out, of(p))
			}
		}
		return out
	})
	r.notes(w)
	return r.open(w, open)
}

func (r *Report) table(w io.Writer, columns []string, of func(*Sums) []string) {
	var lines [][]string
	head := make([]string, len(r.By))
	for i, f := range r.By {
		head[i] = string(f)
	}
	lines = append(lines, slices.Concat(head, columns))
	for i := range r.Rows {
		names := make([]string, len(r.By))
		for k, f := range r.By {
			names[k] = shown(r.Rows[i].Of[f])
		}
		lines = append(lines, slices.Concat(names, of(&r.Rows[i].Sums)))
	}
	total := make([]string, len(r.By))
	total[0] = "total"
	lines = append(lines, slices.Concat(total, of(&r.Total)))
	align(w, lines, len(r.By))
}

// align writes columns: the first so many to the left, the others to the right.
func align(w io.Writer, lines [][]string, left int) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i > 0 {
				b.WriteString("  ")
			}
			if i < left {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

func (r *Report) notes(w io.Writer) {
	for _, n := range []struct {
		n    int64
		text string
	}{
		{r.Total.Unreserved, "attempts that ended without a reservation in what was read (is a file missing?)"},
		{r.Contradictions, "attempts both settled and voided, which count as settled"},
		{r.Doubles, "records that were there before and don't count again"},
		{r.Damaged, "lines that can't be read, so that sums may be too small"},
		{r.Unread, "files that can't be read, or not to the end, so that sums may be too small"},
	} {
		if n.n > 0 {
			fmt.Fprintf(w, "\n%s: %d\n", n.text, n.n)
		}
	}
}

func (r *Report) open(w io.Writer, most int) error {
	if len(r.Open) == 0 || most == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nOpen reservations, the oldest first\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "at\tid\tattempt\ttenant\tmodel\ttokens\tcost")
	for i := range r.Open[:min(most, len(r.Open))] {
		o := &r.Open[i]
		a := amountsOf(o)
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n",
			o.At.In(r.zone).Format(time.RFC3339), shown(o.ID), o.Attempt, shown(o.Tenant), shown(o.Model), a.Tokens(), money(o.Cost))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(r.Open) - most; n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
	return nil
}
