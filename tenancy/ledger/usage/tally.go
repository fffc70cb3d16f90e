package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/internal/attempt"
)

// Tally adds up records. It remembers some 50 bytes for each attempt that was settled, and
// some 500 for each of the others. It is not safe for concurrent use.
type Tally struct {
	query Query
	// parts are the attempts of which something may come yet that counts, settled those
	// that are added up.
	parts   map[attempt.Key]*parts
	settled map[attempt.Key]twice
	rows    map[string]*row
	doubles,
	contradictions int64
}

// parts are what is known of an attempt.
type parts struct{ reserved, settled, voided *ledger.Record }

// twice says whether a settled attempt is known to be voided as well.
type twice bool

type row struct {
	values []string
	sums   Sums
}

// New returns an empty Tally. The error is of a Query that makes no sense.
func New(q Query) (*Tally, error) {
	if err := q.fill(); err != nil {
		return nil, err
	}
	return &Tally{query: q, parts: map[attempt.Key]*parts{}, settled: map[attempt.Key]twice{}, rows: map[string]*row{}}, nil
}

// Add adds a record, which must be valid: see [ledger.Record.Check]. Of records with one
// ID, Attempt and State the first counts. An attempt that was both settled and voided is
// settled.
func (t *Tally) Add(r *ledger.Record) {
	key := attempt.Of(r.ID, r.Attempt)
	if voided, ok := t.settled[key]; ok {
		if r.State == ledger.Voided && !bool(voided) {
			t.settled[key] = true
			t.contradictions++
		} else {
			t.doubles++
		}
		return
	}
	p := t.parts[key]
	if p == nil {
		p = new(parts)
		t.parts[key] = p
	}
	of := &p.reserved
	switch r.State {
	case ledger.Reserved:
	case ledger.Settled:
		of = &p.settled
	default:
		of = &p.voided
	}
	if *of != nil {
		t.doubles++
		return
	}
	kept := *r
	*of = &kept
	if p.reserved == nil || p.settled == nil {
		return
	}
	delete(t.parts, key)
	t.settled[key] = p.voided != nil
	if p.voided != nil {
		t.contradictions++
	}
	t.count(t.rows, p)
}

// base is what says when an attempt was, and whose.
func (p *parts) base() *ledger.Record { return cmp.Or(p.reserved, p.settled, p.voided) }

func (p *parts) sums() (s Sums) {
	if p.reserved != nil {
		s.Reserved = sumOf(p.reserved)
	} else {
		s.Unreserved = 1
	}
	switch {
	case p.settled != nil:
		s.ReservedSettled = s.Reserved
		s.Used = sumOf(p.settled)
		if p.settled.Source == ledger.Estimate {
			s.Estimated = s.Used
		}
		if !p.settled.CachedKnown {
			s.Unknown = 1
		}
	case p.voided != nil:
		s.ReservedVoided = s.Reserved
	default:
		s.ReservedOpen = s.Reserved
	}
	return s
}

// count adds an attempt to its row.
func (t *Tally) count(rows map[string]*row, p *parts) {
	base := p.base()
	if !t.query.Selects(base) {
		return
	}
	values := make([]string, len(t.query.By))
	for i, f := range t.query.By {
		values[i] = f.of(base, cmp.Or(p.settled, p.voided, p.reserved), t.query.Zone)
	}
	name := strings.Join(values, "\x00") // which no name has
	r := rows[name]
	if r == nil {
		r = &row{values: values}
		rows[name] = r
	}
	s := p.sums()
	r.sums.add(&s)
}

// Report is what a Tally has come to.
type Report struct {
	By   []Field    `json:"by"`
	Zone string     `json:"zone"`
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Rows are in the order of their fields.
	Rows  []Row `json:"rows"`
	Total Sums  `json:"total"`
	// Open are the reservations of which no end is known, the oldest first.
	Open []ledger.Record `json:"open"`
	// Doubles are the records that were there before, of all that was added.
	// Contradictions are attempts that were settled and voided; they count as settled.
	Doubles        int64 `json:"doubles"`
	Contradictions int64 `json:"contradictions"`
	// Damaged lines and Unread files could not be read, files not to their end, so that
	// sums may be too small. A Tally knows of neither.
	Damaged int64 `json:"damaged"`
	Unread  int64 `json:"unread"`

	zone *time.Location
}

// Row is of the attempts that have these fields.
type Row struct {
	Of map[Field]string `json:"of"`
	Sums
}

// Report says what it has come to. More may be added after.
func (t *Tally) Report() *Report {
	rep := &Report{
		By: t.query.By, Zone: t.query.Zone.String(), Rows: []Row{}, Open: []ledger.Record{},
		Doubles: t.doubles, Contradictions: t.contradictions, zone: t.query.Zone,
	}
	if !t.query.From.IsZero() {
		rep.From = &t.query.From
	}
	if !t.query.To.IsZero() {
		rep.To = &t.query.To
	}
	rows := make(map[string]*row, len(t.rows))
	for name, r := range t.rows {
		kept := *r
		rows[name] = &kept
	}
	for _, p := range t.parts {
		t.count(rows, p)
		if p.settled != nil && p.voided != nil {
			rep.Contradictions++
		}
		if p.settled == nil && p.voided == nil && t.query.Selects(p.reserved) {
			rep.Open = append(rep.Open, *p.reserved)
		}
	}
	for _, r := range slices.SortedFunc(maps.Values(rows), func(a, b *row) int { return slices.Compare(a.values, b.values) }) {
		out := Row{Of: map[Field]string{}, Sums: r.sums}
		for i, f := range t.query.By {
			out.Of[f] = r.values[i]
		}
		rep.Rows = append(rep.Rows, out)
		rep.Total.add(&r.sums)
	}
	slices.SortFunc(rep.Open, func(a, b ledger.Record) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Attempt, b.Attempt))
	})
	return rep
}
