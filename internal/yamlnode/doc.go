// Package yamlnode reads configuration out of YAML nodes, so that whatever is wrong
// can be reported with its line and column: mappings with known keys, duplicate keys
// and merge keys (<<), aliases within a bound, scalars of the expected kind, and
// what was probably meant where a word is not known.
//
// A [Walker] is for one document and one goroutine; the functions have no state.
package yamlnode
