// Package postgres opens a ledger in PostgreSQL, by jackc/pgx.
package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
)

const (
	// connections are enough: a Ledger writes one batch at a time.
	connections    = 4
	connectTimeout = 10 * time.Second
	idleTimeout    = 5 * time.Minute
)

// Open connects to a database: "postgres://user:password@host:5432/database", or
// "host=... dbname=...". What the address leaves out comes from where psql takes it, such
// as PGPASSWORD and ~/.pgpass. Behind a pooler that gives out connections by transaction
// add default_query_exec_mode=exec to it.
func Open(ctx context.Context, address string) (*sqlledger.Store, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // its text has no password
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "kvsteer"
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(connections)
	db.SetConnMaxIdleTime(idleTimeout)
	return sqlledger.New(ctx, db, sqlledger.PostgreSQL)
}
