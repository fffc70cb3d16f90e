// Package simulate runs a fleet of model engines ([sim.Engine]) in virtual time
// behind one router, and measures what its requests would have seen.
//
// Every rule gets the same information: the cache index that KV events and the
// router's own bookings fill, what the router itself has in flight, and what the
// engines last reported. The rule named kvsteer is the product's own code: its
// cache index, its predictor, its policy.
//
// A run is a function of its [Config]: no clock, no goroutine, one seed.
package simulate
