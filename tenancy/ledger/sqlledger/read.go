package sqlledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

// Read calls fn with the records of the attempts that a query selects, in no order, as
// they were at one moment: what a [usage.Tally] needs. An attempt is selected by its
// reservation, and brings its end along, whenever that was. Read stops at fn's first error. fn may
// keep the record.
func (s *Store) Read(ctx context.Context, q usage.Query, fn func(*ledger.Record) error) (err error) {
	text, args := s.selection(&q)
	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return fmt.Errorf("sqlledger: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		r, err := s.scan(rows)
		if err != nil {
			return fmt.Errorf("sqlledger: %w", err)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("sqlledger: %w", err)
	}
	return nil
}

// selection has three parts: reservations, the ends of these, and ends that have none.
func (s *Store) selection(q *usage.Query) (text string, args []any) {
	where := func(of string) string {
		var conditions []string
		arg := func(a any) string {
			args = append(args, a)
			return s.dialect.place(len(args))
		}
		if !q.From.IsZero() {
			conditions = append(conditions, of+".at >= "+arg(s.dialect.time(q.From)))
		}
		if !q.To.IsZero() {
			conditions = append(conditions, of+".at < "+arg(s.dialect.time(q.To)))
		}
		in := func(column string, names []string) {
			if len(names) == 0 {
				return
			}
			var places []string
			for _, n := range names {
				places = append(places, arg(n))
			}
			conditions = append(conditions, of+"."+column+" IN ("+strings.Join(places, ", ")+")")
		}
		in("tenant", q.Tenants)
		in("model", q.Models)
		if len(conditions) == 0 {
			return ""
		}
		return " AND " + strings.Join(conditions, " AND ")
	}
	of := func(table string) string { return table + "." + strings.ReplaceAll(columns, ", ", ", "+table+".") }
	text = "SELECT " + of("r") + " FROM kvsteer_usage r WHERE r.state = 'reserved'" + where("r") +
		" UNION ALL SELECT " + of("e") + " FROM kvsteer_usage r JOIN kvsteer_usage e ON e.id = r.id AND e.attempt = r.attempt" +
		" AND e.state <> 'reserved' WHERE r.state = 'reserved'" + where("r") +
		" UNION ALL SELECT " + of("e") + " FROM kvsteer_usage e WHERE e.state <> 'reserved'" + where("e") +
		" AND NOT EXISTS (SELECT 1 FROM kvsteer_usage r WHERE r.id = e.id AND r.attempt = e.attempt" +
		" AND (r.state = 'reserved' OR e.state = 'voided' AND r.state = 'settled'))"
	return text, args
}

func (s *Store) scan(rows *sql.Rows) (*ledger.Record, error) {
	var (
		r      ledger.Record
		micros int64
		at     any = &micros
	)
	if s.dialect == PostgreSQL {
		at = &r.At
	}
	err := rows.Scan(&r.ID, &r.Attempt, &r.State, at, &r.Org, &r.Team, &r.Tenant, &r.Key, &r.Class,
		&r.Model, &r.Served, &r.Worker, &r.Provider, &r.Uncached, &r.Cached, &r.CachedKnown, &r.CacheWrite,
		&r.Output, &r.Reasoning, &r.Cost, &r.Source)
	if s.dialect == SQLite {
		r.At = time.UnixMicro(micros)
	}
	r.At = r.At.UTC()
	return &r, err
}
