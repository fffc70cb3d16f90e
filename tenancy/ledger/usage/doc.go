// Package usage adds up a ledger: what each tenant was let through for on each day, and
// what became of it.
//
// A [Tally] takes records in any order and as often as they come; what stands in several
// files, or was written again after a crash, counts once. `kvsteer usage` is this package
// with files in front of it, the command of sqlledger with a database.
//
// An attempt counts on the day on which it was let through, also if it ended on the next:
// so a day's reservations are what its attempts settled, what they gave back, and what is
// open still.
package usage
