//go:build planted

package extproc_test

import (
	"testing"

	"github.com/kvsteer/kvsteer/internal/canary"
)

// The test of canaries would find a prompt that comes out.
func TestCanaryFindsLeaks(t *testing.T) {
	canary.Finds(t,
		canary.Leak{Name: "PromptInRefusal", Test: "TestCanary", Says: `what was in "(nojson|behind|badkey)" came out in a refusal`},
		canary.Leak{Name: "PromptToEnvoy", Test: "TestCanary", Says: `what was in "again" came out in (log|the end of a stream)`},
	)
}
