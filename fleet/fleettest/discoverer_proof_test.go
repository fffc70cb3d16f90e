package fleettest_test

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// brokenName names the Discoverer that TestBrokenDiscoverer runs the suite on.
var brokenName = flag.String("broken", "", "run the suite on this broken Discoverer; it must fail")

// TestBrokenDiscoverer is run by TestDiscovererSuiteCatches in a process of its
// own, since it must fail and may hang or leak.
func TestBrokenDiscoverer(t *testing.T) {
	if *brokenName == "" {
		t.Skip("only run by TestDiscovererSuiteCatches")
	}
	h := registryHarness(brokenDiscoverers()[*brokenName].follow)
	h.Timeout = 2 * time.Second
	fleettest.TestDiscoverer(t, h)
}

// TestDiscovererSuiteCatches proves that the suite fails on Discoverers that break
// one rule each, and that it is the rule's own subtest that fails.
func TestDiscovererSuiteCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process per broken Discoverer")
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	for name, b := range brokenDiscoverers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subtest := strings.ReplaceAll(b.caughtBy, " ", "_")
			cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestBrokenDiscoverer$/^"+subtest+"$",
				"-test.timeout=4m", "-broken="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the suite passed a Discoverer that %s", name)
			require.Contains(t, string(out), "--- FAIL: TestBrokenDiscoverer/"+subtest)
		})
	}
}

// TestDiscovererSuiteCovered: no case of the suite goes unproven.
func TestDiscovererSuiteCovered(t *testing.T) {
	proven := []string{}
	for _, b := range brokenDiscoverers() {
		proven = append(proven, b.caughtBy)
	}
	slices.Sort(proven)
	cases := fleettest.DiscovererCases()
	slices.Sort(cases)
	assert.Equal(t, cases, slices.Compact(proven))
}
