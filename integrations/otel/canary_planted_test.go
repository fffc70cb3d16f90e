//go:build planted

package kvsteerotel_test

import (
	"testing"

	"github.com/kvsteer/kvsteer/internal/canary"
)

// The test of canaries would find a prompt that comes out.
func TestCanaryFindsLeaks(t *testing.T) {
	canary.Finds(t,
		canary.Leak{Name: "PromptInSpan", Test: "TestCanary", Says: `should not contain "CANARY-7f3a"`},
	)
}
