//go:build !race

package policy_test

import "github.com/kvsteer/kvsteer/policy"

// fullSize is how long large files are.
const fullSize = policy.MaxFileBytes
