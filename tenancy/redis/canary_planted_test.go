//go:build planted && unix

package redis

import (
	"testing"

	"github.com/kvsteer/kvsteer/internal/canary"
)

// The test of canaries would find a password, or what strangers write, that comes out.
func TestCanaryFindsLeaks(t *testing.T) {
	canary.Finds(t,
		canary.Leak{Name: "PasswordInLog", Test: "TestCanary", Says: `what was in "(password|wrong|user)" came out in log`},
		canary.Leak{Name: "StrangerInLog", Test: "TestCanary", Says: `what was in "(foreign|long|torn|router)" came out in log`},
	)
}
