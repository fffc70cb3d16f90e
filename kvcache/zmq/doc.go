// Package zmq receives an engine's KV events with libzmq, through
// github.com/pebbe/zmq4. It is a module of its own, because it needs cgo and
// libzmq 4.3 or later (Debian and Ubuntu: libzmq3-dev).
//
// It does what package kvcache/zmtp does in pure Go, by the same contract and
// the same conformance suite. Take it where libzmq is the standard that
// everything else is held to; otherwise zmtp needs nothing installed.
//
// Without cgo the package compiles, and everything in it returns an error that
// wraps [errors.ErrUnsupported].
package zmq
