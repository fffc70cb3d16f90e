//go:build race

package policy_test

// raced: sync.Pool drops what it is given now and then, on purpose.
const raced = true
