// Package promtext reads the Prometheus text format as engines print it, without
// allocating for each line and without a dependency.
//
// It is lenient: a line it can't read is counted and skipped, because one broken
// series must not hide an engine's queue depth.
package promtext
