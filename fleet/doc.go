// Package fleet knows the workers: which there are, whether they are healthy,
// what they serve, how loaded they are, and what we have in flight on each.
//
// A [Discoverer] says which workers exist. A [Fleet] probes and scrapes them in
// the background and publishes an immutable [Snapshot] that a request reads
// without a lock. What the fleet knows of one worker is a [Member].
//
// # Instances
//
// A worker is identified by instance (name and epoch), never by address: a
// restart, or another worker at a reused address, is a new Member that inherits
// nothing. Where the Discoverer gives no epoch the fleet mints one, and mints
// another when the URL, the number of data-parallel ranks or the event endpoints
// change (so these are the same for a Member's whole life), when the engine's process is seen to have restarted (its start time or its
// counters, or a refused connection followed by an answer), or when it suddenly
// serves other base models. A Member that left stays valid for those who hold
// it: requests booked on it can still end, and their count comes back to zero.
//
// # Load
//
// Two views of a worker's load are kept apart and combined by [Member.Pressure]:
// what we booked ourselves, which is exact and instant, and what the engine
// reported at its last scrape, which includes the work of others but is late.
// A report older than Options.StaleAfter counts for nothing.
//
// # Goroutines
//
// A Fleet runs one goroutine for each Discoverer, for each member and for each
// watcher. [Fleet.Close] ends them and waits for them.
package fleet
