//go:build race

package kvcache_test

const raceEnabled = true
