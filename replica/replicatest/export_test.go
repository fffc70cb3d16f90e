package replicatest

import (
	"testing"
	"time"
)

// RunWithin is Run with less patience, for exchanges that must fail.
func RunWithin(t *testing.T, join Join, patience time.Duration) {
	t.Helper()
	run(t, join, patience)
}

// Cases are the names of Run's subtests.
func Cases() (names []string) {
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}
