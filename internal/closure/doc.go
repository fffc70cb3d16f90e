// Package closure holds the tests that watch what an importer of this module
// gets along with it: the packages that the root package links, the modules
// that any package of the root module needs, and that none of them needs cgo.
//
// A change of what is recorded in testdata is a decision, to be seen in review.
// After it is taken, record it with
//
//	go test ./internal/closure -update
package closure
