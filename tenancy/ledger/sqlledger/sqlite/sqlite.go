// Package sqlite opens a ledger in a file of SQLite, by modernc.org/sqlite: pure Go,
// nothing to install.
package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
)

// private is the mode of the file: it tells who used what.
const private = 0o600

// Open opens the file of that path, whose folder must be there, and makes it where it is
// not, readable for its owner only. The journal is a write-ahead log, so that reports can
// be made while records are written. Several processes on one machine may have the file
// open; on a network's file system SQLite is not safe.
func Open(ctx context.Context, path string) (*sqlledger.Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, private) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err = f.Close(); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // of Windows
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		// It is waited for other processes, and a transaction that writes says so at once,
		// so that two don't wait for one another.
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return sqlledger.New(ctx, db, sqlledger.SQLite)
}
