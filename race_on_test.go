//go:build race

package kvsteer_test

const raceEnabled = true
