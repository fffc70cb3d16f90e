// Command soak looks for what grows. It runs a gateway as a user builds it (a Router and a
// Transport behind net/http, with events, tenants, limits, a ledger and metrics) in front of
// fake engines, sends it requests at a constant rate, and meanwhile replaces workers,
// restarts them, reuses their addresses, loses their events, brings up adapters and takes
// them away, and lets tenants and prefixes come and go.
//
// Requests come when they are due, whether or not the ones before have been answered; how
// late they came is printed. Every so many of them arrivals stop for a moment, until nothing
// is under way, and a sample is taken: at rest there should be no more than the last time.
// After the warm-up the samples are judged: neither the median of their last third above that
// of the first, nor their slope (Theil and Sen's), may be more than five in a hundred.
// Requests that fail must have been made to. The status is 1 if anything of this is not so.
//
//	make soak SOAK=30m RATE=1000
package main
