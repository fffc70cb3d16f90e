//go:build !race

package policy_test

import "github.com/kvsteer/kvsteer/policy"

// fullSize is how long large files are: what they take grows with it, up to bounds.
const fullSize = policy.MaxFileBytes / 4

// slowness is how much less of a large number of cases is tried.
const slowness = 1
