// Package sqlledger keeps a ledger in a database: SQLite or PostgreSQL.
//
// Packages sqlite and postgres below it bring the drivers and open a [Store]; [New] takes
// any *sql.DB of these two kinds. A Store is a [ledger.Sink]: when Write returns nil the
// transaction is committed and on the database's disk.
//
// The table kvsteer_usage has a row for each record, with a unique index over id, attempt
// and state: what is written twice is there once. Nothing is ever updated or deleted. In
// PostgreSQL times are timestamptz, in SQLite microseconds since 1970.
package sqlledger
