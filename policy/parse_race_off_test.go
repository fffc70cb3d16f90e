//go:build !race

package policy_test

import "github.com/kvsteer/kvsteer/policy"

// fullSize is how long large files are: what they take grows with it, up to bounds.
const fullSize = policy.MaxFileBytes / 4
