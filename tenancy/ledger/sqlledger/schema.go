package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrNewerSchema is wrapped where a newer version of kvsteer has changed the tables.
var ErrNewerSchema = errors.New("sqlledger: the tables are of a newer version of kvsteer; use that one")

// columns are those of kvsteer_usage, in the order of values.
const columns = "id, attempt, state, at, org, team, tenant, key_name, class, model, served, worker, provider, " +
	"uncached, cached, cached_known, cache_write, output, reasoning, cost, source"

const numColumns = 21

// A migration takes the tables from one version to the next. Those that were released are
// never changed.
type migration [2]string // of SQLite, of PostgreSQL

func migrations() []migration {
	const sqlite = `
CREATE TABLE kvsteer_usage (
	id TEXT NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL,
	org TEXT NOT NULL, team TEXT NOT NULL, tenant TEXT NOT NULL, key_name TEXT NOT NULL, class TEXT NOT NULL,
	model TEXT NOT NULL, served TEXT NOT NULL, worker TEXT NOT NULL, provider TEXT NOT NULL,
	uncached INTEGER NOT NULL, cached INTEGER NOT NULL, cached_known INTEGER NOT NULL, cache_write INTEGER NOT NULL,
	output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost INTEGER NOT NULL, source TEXT NOT NULL
);
CREATE UNIQUE INDEX kvsteer_usage_identity ON kvsteer_usage (id, attempt, state);
CREATE INDEX kvsteer_usage_at ON kvsteer_usage (at);
CREATE INDEX kvsteer_usage_tenant ON kvsteer_usage (tenant, at);`
	const postgres = `
CREATE TABLE kvsteer_usage (
	id text NOT NULL, attempt integer NOT NULL, state text NOT NULL, at timestamptz NOT NULL,
	org text NOT NULL, team text NOT NULL, tenant text NOT NULL, key_name text NOT NULL, class text NOT NULL,
	model text NOT NULL, served text NOT NULL, worker text NOT NULL, provider text NOT NULL,
	uncached bigint NOT NULL, cached bigint NOT NULL, cached_known boolean NOT NULL, cache_write bigint NOT NULL,
	output bigint NOT NULL, reasoning bigint NOT NULL, cost bigint NOT NULL, source text NOT NULL
);
CREATE UNIQUE INDEX kvsteer_usage_identity ON kvsteer_usage (id, attempt, state);
CREATE INDEX kvsteer_usage_at ON kvsteer_usage (at);
CREATE INDEX kvsteer_usage_tenant ON kvsteer_usage (tenant, at);`
	return []migration{{sqlite, postgres}}
}

// queryer is a *sql.DB, or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// version returns that of the tables, 0 if there are none.
func (s *Store) version(ctx context.Context, db queryer) (int, error) {
	there := `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'kvsteer_usage_schema'`
	if s.dialect == PostgreSQL {
		there = `SELECT count(to_regclass('kvsteer_usage_schema'))`
	}
	n := 0
	if err := db.QueryRowContext(ctx, there).Scan(&n); err != nil || n == 0 {
		return 0, err
	}
	err := db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM kvsteer_usage_schema`).Scan(&n)
	return n, err
}

// migrate brings the tables to the newest version. Where they are of it nothing needs the
// right to change them. Several may do it at a time.
func (s *Store) migrate(ctx context.Context) error {
	all := migrations()
	v, err := s.version(ctx, s.db)
	if err != nil {
		return err
	}
	if v < len(all) {
		err = s.upgrade(ctx, all)
		if err == nil {
			v, err = s.version(ctx, s.db)
		}
		if err != nil {
			return err
		}
	}
	if v > len(all) {
		return fmt.Errorf("%w: they have version %d, this one knows %d", ErrNewerSchema, v, len(all))
	}
	return nil
}

// schemaLock is a number of ours among PostgreSQL's advisory locks.
const schemaLock = 0x6b767374656572

func (s *Store) upgrade(ctx context.Context, all []migration) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a Commit there is nothing to do
	var steps []string
	if s.dialect == PostgreSQL {
		steps = append(steps, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, schemaLock))
	}
	steps = append(steps, `CREATE TABLE IF NOT EXISTS kvsteer_usage_schema (version integer PRIMARY KEY)`)
	for _, q := range steps {
		if _, err = tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	v, err := s.version(ctx, tx)
	if err != nil {
		return err
	}
	insert := `INSERT INTO kvsteer_usage_schema (version) VALUES (` + s.dialect.place(1) + `)` //nolint:gosec // of constants
	for i, m := range all {
		if i < v {
			continue
		}
		if _, err = tx.ExecContext(ctx, m[s.dialect-1]); err != nil {
			return fmt.Errorf("to version %d: %w", i+1, err)
		}
		if _, err = tx.ExecContext(ctx, insert, i+1); err != nil {
			return err
		}
	}
	return tx.Commit()
}
