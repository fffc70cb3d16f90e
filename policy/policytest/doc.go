// Package policytest tests routing policies, in plain go test.
//
// A [Kit] holds a compiled policy and remembers which of its rules, exclusions and
// stages the tests have exercised. [Kit.Run] runs tables of cases over fake candidates
// ([Worker], [Provider]), [Kit.Golden] compares explanations with files,
// [Kit.RequireCovered] fails if a part of the policy was never tried.
//
// [Kit.Invariant] tries everything that the policy tells apart: every state of every
// tag, every tenant, model and kind of backend that it mentions and one that it does
// not, both sides of every threshold, and no candidates at all. If a property fails
// anywhere it shows the smallest example. [Never] and [Always] are properties to begin
// with.
//
// No engine, gateway or clock is needed, and nothing here is random.
package policytest
