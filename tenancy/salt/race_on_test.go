//go:build race

package salt_test

const raceEnabled = true
