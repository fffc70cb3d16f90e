// Package policytest shows how a routing policy is tested: see policy_test.go, which
// runs with
//
//	go test ./examples/policytest
package policytest
