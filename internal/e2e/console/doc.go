// Command console shows the console of package debug at work: fake engines, a gateway,
// clients that keep asking, and faults now and then.
//
//	go run . [-listen 127.0.0.1:8642]
//
// Its tests, behind the build tag e2e, look at the same page with a real browser: make
// e2e-console.
package main
