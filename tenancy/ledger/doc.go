// Package ledger keeps what every request was let through for and what it used, so that
// the sums can be charged and add up.
//
// A [Ledger] takes [Record]s from requests and hands them to a [Sink] in batches, again
// and again until the sink has them: [OpenJSONL] writes files, package sqlledger (a module
// of its own) SQLite and PostgreSQL, a [SinkFunc] is yours.
//
// A record is acknowledged when the sink has returned without an error: then it is told
// to Options.OnDurable, and a Flush that began after its Append returns. What was
// acknowledged is on disk, and a crash of the process does not take it away. Append's own
// nil means only that the record was taken: until it is acknowledged it is in memory, or
// in the file that Options.Spool names.
//
// A record may be written more than once, after a crash or an error of which nobody knows
// how much it left undone. ID, Attempt and State identify it: tables have a unique index
// over them, readers of files drop doubles ([Seen], package usage).
//
// What may not live here: how much somebody may use (package quota).
package ledger
