// Package postgres opens a ledger in PostgreSQL, by jackc/pgx.
package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
)

// errAddress is instead of pgx's own text, which quotes a password that it does not
// recognize as one.
var errAddress = errors.New("postgres: the address can't be read, or a file that it or the environment names, such as sslrootcert's; " +
	"write postgres://user:password@host:5432/database, with @, / and % of the password as %40, %2F and %25, " +
	"or host=... dbname=... password='...'; the password can also be in PGPASSWORD or ~/.pgpass")

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
	if ambiguous(address) {
		return nil, errAddress
	}
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errAddress
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

// ambiguous reports whether a part of the password may be taken for a host or a database,
// and so be named where it can't be found.
func ambiguous(address string) bool {
	_, rest, isURL := strings.Cut(address, "://")
	if !isURL || strings.Contains(address[:len(address)-len(rest)], "=") {
		return false
	}
	// Settings may hold anything. A password may hold a "?", but no "/".
	at, slash := strings.Index(rest, "@"), strings.Index(rest, "/")
	if i := strings.Index(rest, "?"); i >= 0 && (at < i || slash >= 0 && slash < i) {
		rest = rest[:i]
	} else if i := strings.Index(rest[at+1:], "?"); i >= 0 {
		rest = rest[:at+1+i]
	}
	at = strings.Index(rest, "@")
	return at != strings.LastIndex(rest, "@") || at >= 0 && slash >= 0 && slash < at
}
