// Package fleet knows the workers: which there are, whether they are healthy,
// what they serve, how loaded they are, and what we have in flight on each.
//
// A [Discoverer] says which workers exist. A [Fleet] probes and scrapes them in
// the background and publishes an immutable [Snapshot] that a request reads
// without a lock. A worker is identified by instance (name and epoch), never by
// address: a restart, or another worker at a reused address, starts clean.
package fleet
