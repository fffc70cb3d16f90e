// Package kvcachetest holds conformance suites for implementers: of event
// transports ([TestTransport]) and of block indexes. They need nothing but the
// standard testing package, and each of their cases is itself proven to fail on
// an implementation that breaks the rule it stands for.
package kvcachetest
