// Package leak fails a test that leaves goroutines behind.
//
// A package that starts goroutines has one line in its tests,
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// and a test that must name the culprit by itself has another,
//
//	func TestClose(t *testing.T) {
//		leak.Check(t)
//		...
//	}
//
// Both wait for goroutines that are on their way out, and report those that stay
// with their full stacks. Only the standard library is used, so that any package
// of the root module can depend on it in its tests.
package leak
