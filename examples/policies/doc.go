// Package policies holds ten routing policies to start from, one a file.
//
// Behind each policy stand lines that begin with #> and say what it does: a request,
// candidates, and what must come of them. The tests of this package read them, here and
// in docs/policy.md, which explains how they are written. What the policies say to them
// in words is in testdata.
package policies
