// Command soak looks for what grows. It runs a gateway as a user builds it (a Router and a
// Transport behind net/http, with events, tenants, limits, a ledger and metrics) in front of
// fake engines, sends it requests at a constant rate, and meanwhile replaces workers,
// restarts them, reuses their addresses, loses their events, brings up adapters and takes
// them away, and lets tenants and prefixes come and go.
//
// Requests come when they are due, whether or not the ones before have been answered; how
// late they came is printed. Every so many of them arrivals stop for a moment, until nothing
// is under way, and a sample is taken: at rest there should be no more than the last time.
//
// What happens to workers happens at even distances and to each kind of them in turn, so
// that what there is goes up and down with the same period, a generation of workers. The
// samples after the warm-up are judged by the means of whole generations: the line through
// them must, with 95% confidence, not rise by more than five in a hundred over the run. What
// can't be told for noise is a failure, too.
//
// Requests that fail must have been made to: a witness between the gateway and the workers
// sees each attempt, and each attempt of a failed request must have failed by an injection
// that is known by worker and time, or of which its engine itself said so. Caches must be
// known exactly, but for engines that announce nothing and those whose events were spoilt
// for good. The status is 1 if anything of this is not so.
//
//	make soak SOAK=30m RATE=1000
package main
