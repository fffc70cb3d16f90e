package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// Store is a ledger in a database. Safe for concurrent use.
type Store struct {
	db      *sql.DB
	dialect Dialect
}

var _ ledger.Sink = (*Store)(nil)

// New makes the tables where they are not there, or of an older version, and returns the
// Store, to which db belongs from then on, also if there is an error. The user of db needs
// the right to create tables the first time; after that SELECT and INSERT on
// kvsteer_usage, and SELECT on kvsteer_usage_schema.
func New(ctx context.Context, db *sql.DB, d Dialect) (*Store, error) {
	s := &Store{db: db, dialect: d}
	err := fmt.Errorf("%v is none of SQLite and PostgreSQL", d)
	if d == SQLite || d == PostgreSQL {
		err = s.migrate(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlledger: %w", errors.Join(err, db.Close()))
	}
	return s, nil
}

// Write implements [ledger.Sink], in one transaction. Records that are there already are
// left as they are. It waits until the transaction is on disk, whatever the database's
// own default is: in SQLite by synchronous=FULL, in PostgreSQL by synchronous_commit,
// unless that is stronger.
func (s *Store) Write(ctx context.Context, records []ledger.Record) error {
	if err := s.write(ctx, records); err != nil {
		return fmt.Errorf("sqlledger: %w", err)
	}
	return nil
}

func (s *Store) write(ctx context.Context, records []ledger.Record) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	if s.dialect == SQLite {
		if _, err = conn.ExecContext(ctx, `PRAGMA synchronous = FULL`); err != nil {
			return err
		}
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a Commit there is nothing to do
	if s.dialect == PostgreSQL {
		if _, err = tx.ExecContext(ctx,
			`SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`); err != nil {
			return err
		}
	}
	for len(records) > 0 {
		n := rows(len(records))
		if _, err = tx.ExecContext(ctx, s.insert(n), s.values(records[:n])...); err != nil {
			return err
		}
		records = records[n:]
	}
	return tx.Commit()
}

// rows is how many of n go into one statement: one of a few numbers, so that databases
// meet few statements.
func rows(n int) int {
	const most, step = 256, 4
	for of := most; ; of /= step {
		if of <= n {
			return of
		}
	}
}

func (s *Store) insert(n int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO kvsteer_usage (" + columns + ") VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s.dialect.places(i*numColumns+1, numColumns))
	}
	b.WriteString(" ON CONFLICT (id, attempt, state) DO NOTHING")
	return b.String()
}

func (s *Store) values(records []ledger.Record) []any {
	out := make([]any, 0, len(records)*numColumns)
	for i := range records {
		r := &records[i]
		out = append(out, r.ID, r.Attempt, string(r.State), s.dialect.time(r.At), r.Org, r.Team, r.Tenant, r.Key, r.Class,
			r.Model, r.Served, r.Worker, r.Provider, r.Uncached, r.Cached, r.CachedKnown, r.CacheWrite,
			r.Output, r.Reasoning, r.Cost, string(r.Source))
	}
	return out
}

// Close closes the database. Close the Ledger first.
func (s *Store) Close() error { return s.db.Close() }
