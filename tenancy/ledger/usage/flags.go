package usage

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// Flags are those of the commands that report.
type Flags struct {
	tenants, models []string
	from, to        string
	zone, by        string
	json, csv       bool
	open            int
}

// Help explains what the flags and the figures mean.
const Help = `Adds up usage records (package ledger) and prints, for each day and tenant, what was
used and what was reserved. A record that is there more than once counts once. An attempt
counts on the day on which it was let through. Costs are in the currency of the prices.

  unsplit   prompt tokens of which nobody said how many were found in a cache; they are
            in neither of uncached and cached
  ~         some of it is an estimate, since neither who served nor the stream told
  open      let through, and no end is known: under way, or lost in a crash

`

// Register adds the flags to a set.
func (f *Flags) Register(set *flag.FlagSet) {
	set.Func("tenant", "only this `tenant`; give it several times for several", func(s string) error {
		f.tenants = append(f.tenants, s)
		return nil
	})
	set.Func("model", "only requests for this `model`; give it several times for several", func(s string) error {
		f.models = append(f.models, s)
		return nil
	})
	set.StringVar(&f.from, "from", "", "only what was let through from this `day` or time on: 2026-11-01, or 2026-11-01T08:00:00Z")
	set.StringVar(&f.to, "to", "", "only what was let through before this `day` or time began")
	set.StringVar(&f.zone, "zone", "UTC", "the time `zone` of days, such as Europe/Berlin")
	set.StringVar(&f.by, "by", "day,tenant",
		"what to group by, a `list` of day, org, team, tenant, key, class, model, served, worker, provider")
	set.BoolVar(&f.json, "json", false, "print JSON, with costs in millionths of the currency and all that is open")
	set.BoolVar(&f.csv, "csv", false, "print CSV, without what is open")
	set.IntVar(&f.open, "open", 20, "list so many open reservations")
}

// Query returns what the flags ask for.
func (f *Flags) Query() (Query, error) {
	q := Query{Tenants: f.tenants, Models: f.models}
	if f.json && f.csv {
		return q, errors.New("-json and -csv are two formats; choose one")
	}
	if f.open < 0 {
		return q, errors.New("-open is negative")
	}
	var err error
	if f.zone == "Local" {
		return q, errors.New("-zone: name the zone; Local is another on each machine")
	}
	if q.Zone, err = time.LoadLocation(f.zone); err != nil {
		return q, fmt.Errorf("-zone: %w", err)
	}
	for name := range strings.SplitSeq(f.by, ",") {
		q.By = append(q.By, Field(strings.TrimSpace(name)))
	}
	if q.From, err = moment(f.from, q.Zone); err != nil {
		return q, fmt.Errorf("-from: %w", err)
	}
	if q.To, err = moment(f.to, q.Zone); err != nil {
		return q, fmt.Errorf("-to: %w", err)
	}
	err = q.fill()
	return q, err
}

func moment(s string, zone *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, zone); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q is neither a day such as 2026-11-01 nor a time such as 2026-11-01T08:00:00Z", s)
	}
	return t, nil
}

// Print writes a report in the format that the flags ask for.
func (f *Flags) Print(w io.Writer, r *Report) error {
	switch {
	case f.json:
		return r.JSON(w)
	case f.csv:
		return r.CSV(w)
	default:
		return r.Table(w, f.open)
	}
}
