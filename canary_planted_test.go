//go:build planted

package kvsteer_test

import (
	"testing"

	"github.com/kvsteer/kvsteer/internal/canary"
)

// The tests of canaries would find a prompt or a key that comes out.
func TestCanaryFindsLeaks(t *testing.T) {
	canary.Finds(t,
		canary.Leak{Name: "PromptInLog", Test: "TestCanary", Says: `what was in "prompt" came out in log`},
		canary.Leak{Name: "KeyInError", Test: "TestCanary", Says: `what was in "authorization" came out in the error of a request`},
		canary.Leak{Name: "QuotationKept", Test: "TestCanary", Says: `what was in "\w+" came out in (log|the error of a request|an outcome)`},
		canary.Leak{Name: "PromptInRefusal", Test: "TestCanary", Says: `what was in "(unended|nojson|prompt)" came out in the answer to the client`},
		canary.Leak{Name: "PromptInRefusal", Test: "TestCanaryByHand", Says: `what was in "(unended|nojson)" came out in (Explain|Select)`},
		canary.Leak{Name: "HeaderInDecision", Test: "TestCanaryInConditions", Says: `what was in "condition" came out in a (decision|rejection)`},
	)
}
