// Package policy decides, from plain data, in which order candidates should be
// tried for a request. It knows no services, clocks or sockets: the root package
// writes what it measured into [Candidate] values, a [Policy] orders them.
package policy
