//go:build race

package policy_test

import "github.com/kvsteer/kvsteer/policy"

// fullSize is how long large files are: the race detector slows all of it down.
const fullSize = policy.MaxFileBytes / 32

// slowness is how much less of a large number of cases is tried.
const slowness = 7
