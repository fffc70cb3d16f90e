// Package ledger keeps what every request was let through for and what it used, so that
// the sums can be charged and add up.
package ledger
