//go:build planted

package kvsteercaddy

import (
	"testing"

	"github.com/kvsteer/kvsteer/internal/canary"
)

// The test of canaries would find a prompt or a key that comes out.
func TestCanaryFindsLeaks(t *testing.T) {
	canary.Finds(t,
		canary.Leak{Name: "PromptInLog", Test: "TestCanary", Says: `what was in "(prompt|messages)" came out in the log`},
		canary.Leak{Name: "KeyInAccessLog", Test: "TestCanary", Says: `what was in "bearer" came out in the access log`},
	)
}
