// Package steer is the pure part of a choice: from what is known of each
// candidate to an order of candidates. The router runs it over a fleet, the
// simulator over a model of one, so that what is simulated is what routes.
//
// It reads no clock, takes no lock and keeps nothing between choices but memory.
// It stands above package policy and below the root package.
package steer
