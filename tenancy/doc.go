// Package tenancy says whom a request comes from, for certain.
//
// A [Resolver] looks at what a request presents (its headers, its connection) and
// returns an [Identity], or nil if it finds nothing that it knows. Nothing is trusted by
// default: what nobody verified is [Anonymous].
//
// What may not live here: how much somebody may use (package quota), what was used
// (package ledger), and where requests go.
package tenancy
